"""What a training method is: a loss of a model on a batch, at a moment of the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from radii.randomness import stream
from radii.threat import Ball


class Loss(NamedTuple):
    """The value to descend, and logits of the batch (clean where the method has them), from which accuracy is read."""

    value: Tensor  # scalar
    logits: Tensor  # [n, classes]


@dataclass(frozen=True)
class TrainingProgress:
    """Where the training stands: step ``number`` (0-based) of ``total``.

    With several processes each holds ``1/world`` of the batch, in order of
    ``rank``; draws are made for the whole batch and cut, so they do not depend
    on the number of processes.

    ``several``: a single-step attack was seen to be fitted, so several steps take its place.
    """

    number: int
    total: int
    seed: int = 0
    rank: int = 0
    world: int = 1
    several: bool = False

    @property
    def fraction(self) -> float:
        """How much of the training is over, in [0, 1)."""
        return self.number / self.total

    def generator(self, purpose: str) -> Generator:
        """The random stream of this step for ``purpose``; the same after a resume."""
        return stream(self.seed, purpose, self.number)

    def normal(self, purpose: str, like: Tensor) -> Tensor:
        """Standard normal noise for the rows of ``like``."""
        rows = torch.randn(self._whole(like), generator=self.generator(purpose), dtype=like.dtype)
        return self._share(rows, like)

    def offset(self, purpose: str, like: Tensor, ball: Ball) -> Tensor:
        """A uniform draw from the ball around 0 (without its box) for each row of ``like``."""
        origin = torch.zeros(self._whole(like), dtype=like.dtype)
        free = Ball(ball.norm, ball.radius, None)
        return self._share(free.random_start(origin, self.generator(purpose)), like)

    def _whole(self, like: Tensor) -> tuple[int, ...]:
        return (len(like) * self.world, *like.shape[1:])

    def _share(self, rows: Tensor, like: Tensor) -> Tensor:
        n = len(like)
        return rows[self.rank * n : (self.rank + 1) * n].to(like.device)


@runtime_checkable
class Objective(Protocol):
    """A training method: natural, adversarial, certified margin, …"""

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """Mean loss of ``model`` (in train mode) on inputs ``x`` [n, …] with labels ``y`` [n]."""
