"""What an attack is: the protocol and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from radii.threat import Ball

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn


@dataclass(frozen=True)
class AttackResult:
    """Adversarial inputs and which of them break the model.

    ``broken[i]`` is true only if ``x_adv[i]``, as returned in float32, lies in
    the ball and box and is misclassified when predicted again in eval mode.
    Unbroken rows hold the clean input. ``queries`` counts images through the
    network, forward passes and backward passes alike, per point.
    """

    x_adv: Tensor  # [n, …] float32
    broken: Tensor  # [n] bool
    queries: Tensor  # [n] int64


class Attack(Protocol):
    """Searches the ball around each input for a point that the model gets wrong."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x`` [n, …] with true labels ``y`` [n]."""
