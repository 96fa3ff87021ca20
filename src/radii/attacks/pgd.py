"""Projected gradient descent (Madry et al. 2018): its step, and the attack to train with, not to report alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from radii.attacks.attack import AttackResult, AttackRun, GradientSearch, NewPoints, State, hit, misclassified
from radii.attacks.losses import cross_entropy, margin
from radii.attacks.point_randomness import start_inside
from radii.errors import InputError
from radii.threat import Ball, Norm, length, per_row


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """The direction of unit ``norm`` along which a linear function with this ``gradient`` rises most.

    Linf: sign(g). L2: g / ||g||_2, and 0 where the gradient is 0. [n, …] -> [n, …].

    In L1 it would be the one steepest coordinate, which soon ends at the box: the steepest hundredth share the step.
    """
    if norm == "linf":
        return gradient.sign()
    if norm == "l2":
        norms = length(gradient, "l2")
        return gradient * per_row(torch.where(norms > 0, 1 / norms.clamp_min(1e-30), 0), gradient)
    flat = gradient.flatten(1)
    count = max(1, flat.shape[1] // 100)
    places = flat.abs().topk(count, dim=1).indices
    return torch.zeros_like(flat).scatter(1, places, flat.gather(1, places).sign() / count).view_as(gradient)


def ascend(point: Tensor, gradient: Tensor, center: Tensor, ball: Ball, size: float | Tensor) -> Tensor:
    """One projected ascent step: Pi_ball(point + size * steepest(gradient)) (Madry et al. 2018, Sec. 2.1).

    The ball is the ``ball`` around ``center``; ``size`` is in units of the input, one number or one per row [n].
    """
    pace = per_row(size, point) if isinstance(size, Tensor) else size
    if not ball.scale:
        return ball.clip(point + pace * steepest(gradient, ball.norm), center)
    scale = ball.scales(point)
    return ball.clip(point + pace * scale * steepest(gradient * scale, ball.norm), center)


@dataclass(frozen=True)
class PGD:
    """x <- Pi_ball(x + step * steepest(gradient of the loss)), from a uniform random start.

    The defaults are Madry's for MNIST: 40 steps of radius/30, which at radius 0.3
    are his 0.01. ``step`` is relative to the radius. With ``targeted`` the labels
    are classes to reach, and a point is broken when it has that class.
    A result of PGD bounds robust accuracy from above and may be far from it.
    """

    steps: int = 40
    step: float = 1 / 30
    restarts: int = 1
    random_start: bool = True
    loss: str = "ce"
    targeted: bool = False
    batch_size: int = 256

    def __post_init__(self) -> None:
        if self.loss not in ("ce", "margin"):
            raise InputError(f"The loss of PGD must be 'ce' or 'margin', got {self.loss!r} instead.")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = AttackRun(model, x, y, ball, generator, self.batch_size, hit if self.targeted else misclassified)
        for restart in range(self.restarts):
            trial.search(_PgdSearch(self, ball), restart, f"PGD-{self.steps}")
        return trial.result()


@dataclass(frozen=True)
class _PgdSearch(GradientSearch):
    attack: PGD
    ball: Ball

    @property
    def steps(self) -> int:
        return self.attack.steps

    def begin(self, fresh: NewPoints) -> State:
        start = start_inside(fresh.x, self.ball, fresh.seed) if self.attack.random_start else fresh.x
        return State(fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y))

    def objective(self, logits: Tensor, state: State) -> Tensor:
        loss = cross_entropy(logits, state.y) if self.attack.loss == "ce" else margin(logits, state.y)
        return -loss if self.attack.targeted else loss

    def advance(self, state: State, logits: Tensor, gradient: Tensor) -> State:  # noqa: ARG002
        size = self.attack.step * self.ball.radius
        point = ascend(state.point, gradient, state.x, self.ball, size)
        return replace(state, point=point, steps_done=state.steps_done + 1)
