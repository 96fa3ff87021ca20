"""What a training method is: a loss of a model on a batch, at a moment of the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Generator, Tensor, nn

from radii.randomness import stream


class Loss(NamedTuple):
    """The value to descend, and the logits of the clean inputs, from which accuracy is read."""

    value: Tensor  # scalar
    logits: Tensor  # [n, classes]


@dataclass(frozen=True)
class Moment:
    """Where the training stands: step ``number`` (0-based) of ``total``."""

    number: int
    total: int
    seed: int = 0

    @property
    def fraction(self) -> float:
        """How much of the training is over, in [0, 1)."""
        return self.number / self.total

    def generator(self, purpose: str) -> Generator:
        """The random stream of this step for ``purpose``; the same after a resume."""
        return stream(self.seed, purpose, self.number)


class Objective(Protocol):
    """A training method: natural, adversarial, certified margin, …"""

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:
        """Mean loss of ``model`` (in train mode) on inputs ``x`` [n, …] with labels ``y`` [n]."""
