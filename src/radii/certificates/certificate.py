"""Certificate: per point, a prediction and the radius within which it cannot change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from radii.errors import InputError
from radii.threat import Norm

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["deterministic", "probabilistic", "estimate"]


@dataclass(frozen=True)
class Certificate:
    """What a method says about the inputs it was given; it never saw their labels.

    ``radius[i] > 0``: the classifier answers ``prediction[i]`` everywhere within
    that distance of input i (strictly inside). ``radius[i] == 0``: nothing is
    proved. ``prediction[i] == -1``: the method abstains.

    ``kind`` says how sure this is: ``deterministic`` always;
    ``probabilistic`` up to an error probability of ``alpha`` per point;
    ``estimate`` not sure at all, and then nothing here may be called certified.
    """

    prediction: Tensor  # [n] int64
    radius: Tensor  # [n] float64
    norm: Norm
    kind: Kind
    method: str
    alpha: float | None = None
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind == "probabilistic") != (self.alpha is not None):
            raise InputError("alpha must be given for probabilistic certificates and only for them.")

    @property
    def is_certified(self) -> bool:
        """Whether the word may be used: not for estimates."""
        return self.kind != "estimate"

    def covers(self, radius: float) -> Tensor:
        """Points whose prediction is proved on the open ball of ``radius``: [n] bool."""
        return (self.radius >= radius) & (self.prediction >= 0)
