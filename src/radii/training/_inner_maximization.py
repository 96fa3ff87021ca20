"""The inner maximization of robust training: a few projected ascent steps on a frozen network.

The steps are :func:`radii.attacks.pgd.ascend`, the ones that attacks take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from radii.attacks.pgd import ascend
from radii.errors import InputError, unknown_name
from radii.threat import Ball
from radii.training._frozen_for_attack import Mode, attackable
from radii.training.objectives.objective import TrainingProgress

Start = Literal["uniform", "normal"]


@dataclass(frozen=True)
class Inner:
    """The inner maximum of robust training: a loss of the logits, maximized over the ball by projected ascent.

    Args:
        ball: the threat model, l2 or linf.
        step: length of a step, as a share of the radius.
        start: ``uniform`` in the ball (Madry et al. 2018), or ``normal``: x + 0.001 N(0, I) (Zhang et al. 2019).
        warmup: share of the training in which the radius grows from 0 to its full size.
        mode: mode of the network during the search, ``eval`` or ``train``.
    """

    ball: Ball
    steps: int = 10
    step: float = 0.2
    start: Start = "uniform"
    warmup: float = 0.0
    mode: Mode = "eval"

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.step > 0:
            raise InputError(f"steps and step must be positive, got {self.steps} and {self.step} instead.")
        if self.ball.unit:
            raise InputError(f"Training takes radii in the features' own units, got {self.ball}; standardize the data.")
        if not 0 <= self.warmup <= 1:
            raise InputError(f"warmup is a share of the training in [0, 1], got {self.warmup} instead.")
        if self.mode not in ("eval", "train"):
            raise unknown_name("mode of the inner attack", self.mode, ["eval", "train"])

    def ball_at(self, progress: TrainingProgress) -> Ball:
        """The ball at this moment of the warm-up."""
        share = 1.0 if not self.warmup else min(1.0, (progress.number + 1) / (self.warmup * progress.total))
        return self.ball.with_radius(self.ball.radius * share)

    def begin(self, x: Tensor, progress: TrainingProgress) -> Tensor:
        """The point at which the search begins, for each row of ``x``."""
        ball = self.ball_at(progress)
        if progress.number == 0 and ball.box is not None and not bool(((x >= ball.box[0]) & (x <= ball.box[1])).all()):
            raise InputError(
                f"Inputs leave the box [{ball.box[0]:g}, {ball.box[1]:g}] of the threat model {self.ball}. "
                f"If they may, write {self.ball},nobox."
            )
        if self.start == "normal":
            return ball.clip(x + 0.001 * progress.normal("start", x), x)
        return ball.clip(x + progress.offset("start", x, ball), x)

    def maximize(
        self, model: nn.Module, x: Tensor, progress: TrainingProgress, loss: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Inputs [n, …] in the ball where ``loss`` of the logits [n, classes], summed over rows, is high."""
        ball, point = self.ball_at(progress), self.begin(x, progress)
        with attackable(model, self.mode) as net:
            for _ in range(self.steps):
                point = point.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(loss(net(point)), point)
                point = ascend(point.detach(), gradient, x, ball, self.step * ball.radius)
        return point
