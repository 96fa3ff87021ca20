"""Auto-PGD (Croce & Hein 2020): momentum, and steps that halve where progress stalls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from radii.attacks import losses
from radii.attacks.attack import AttackResult, Fresh, GradientSearch, State, Trial
from radii.attacks.draws import start_on_surface
from radii.attacks.pgd import ascend
from radii.errors import InputError
from radii.threat import Ball, per_row

MOMENTUM = 0.75  # the weight of the gradient step; the rest continues the last move
RISING = 0.75  # a step size stays while at least this share of its steps raised the loss


@dataclass(frozen=True)
class APGD:
    """Auto-PGD with cross-entropy (``ce``), the ratio loss (``dlr``) or its targeted form (``dlr-targeted``).

    ``targets`` classes are tried in order of their clean logits, each for
    ``restarts`` runs of ``steps``. AutoAttack's budgets: 100 steps; 9 targets.
    """

    loss: Literal["ce", "dlr", "dlr-targeted"] = "ce"
    steps: int = 100
    restarts: int = 1
    targets: int = 9
    batch_size: int = 256

    def __post_init__(self) -> None:
        if self.loss not in ("ce", "dlr", "dlr-targeted"):
            raise InputError(f"The loss of APGD must be 'ce', 'dlr' or 'dlr-targeted', got {self.loss!r} instead.")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = Trial(model, x, y, ball, generator, self.batch_size)
        targets = min(self.targets, trial.clean_logits.shape[1] - 1) if self.loss == "dlr-targeted" else 1
        for run in range(self.restarts * targets):
            search = _ApgdSearch(self.loss, self.steps, ball, place=run % targets)
            trial.pursue(search, run, f"APGD-{self.loss} {run + 1}/{self.restarts * targets}")
        return trial.result()


APGD_DLR = APGD("dlr")
APGD_TARGETED = APGD("dlr-targeted")


@dataclass(frozen=True)
class ApgdState(State):
    """A row of Auto-PGD."""

    target: Tensor  # [m] class of a targeted run
    last: Tensor  # [m, …] the point before this one
    size: Tensor  # [m] step size
    best: Tensor  # [m, …] the point of the highest loss
    best_gradient: Tensor  # [m, …]
    best_loss: Tensor  # [m]
    last_loss: Tensor  # [m] at the point before
    rises: Tensor  # [m] steps since the checkpoint that raised the loss
    checked_loss: Tensor  # [m] best loss at the last checkpoint
    halved: Tensor  # [m] whether the last checkpoint halved the step


@dataclass(frozen=True)
class _ApgdSearch(GradientSearch):
    loss: str
    steps: int
    ball: Ball
    place: int  # which target: 0 is the likeliest wrong class

    @cached_property
    def windows(self) -> Tensor:
        """The length of the window that ends at each age, and 0 between checkpoints (their Sec. 3.1).

        Windows shrink from 0.22 of the steps by 0.03 of them, to 0.06.
        """
        share = [max(int(part * self.steps), 1) for part in (0.22, 0.03, 0.06)]
        window, ends = share[0], torch.zeros(self.steps + 1, dtype=torch.int64)
        at = window
        while at <= self.steps:
            ends[at] = window
            window = max(window - share[1], share[2])
            at += window
        return ends

    def begin(self, fresh: Fresh) -> ApgdState:
        start = start_on_surface(fresh.x, self.ball, fresh.seed)
        nothing, zero = start.new_full((len(start),), float("-inf")), torch.zeros_like(fresh.y)
        return ApgdState(
            fresh.index, fresh.x, fresh.y, start, zero,
            target=targets_in_order(fresh.logits, fresh.y)[:, self.place],
            last=start, size=start.new_full((len(start),), 2 * self.ball.radius),
            best=start, best_gradient=torch.zeros_like(start), best_loss=nothing, last_loss=nothing,
            rises=zero, checked_loss=nothing, halved=torch.ones_like(zero, dtype=torch.bool),
        )  # fmt: skip

    def objective(self, logits: Tensor, state: ApgdState) -> Tensor:
        if self.loss == "ce":
            return losses.cross_entropy(logits, state.y)
        if self.loss == "dlr":
            return losses.dlr(logits, state.y)
        return losses.targeted_dlr(logits, state.y, state.target)

    def advance(self, state: ApgdState, logits: Tensor, gradient: Tensor) -> ApgdState:
        loss = self.objective(logits, state)
        state = _remembered(state, loss, gradient)
        window = self.windows.to(loss.device)[state.age]
        point = state.point
        if bool((window > 0).any()):
            state, back = _checked(state, window)
            point = torch.where(per_row(back, point), state.best, point)
            gradient = torch.where(per_row(back, point), state.best_gradient, gradient)
        stepped = ascend(point, gradient, state.x, self.ball, state.size)
        # The first step has no move to continue.
        weight = per_row(torch.where(state.age == 0, 1.0, MOMENTUM), point)
        moved = point + weight * (stepped - point) + (1 - weight) * (point - state.last)
        return replace(state, last=point, point=self.ball.project(moved, state.x), age=state.age + 1)


def targets_in_order(logits: Tensor, y: Tensor) -> Tensor:
    """The classes other than ``y`` by falling ``logits``: [m, classes] -> [m, classes - 1]."""
    order = logits.scatter(1, y[:, None], float("-inf")).argsort(dim=1, descending=True, stable=True)
    return order[:, :-1]


def _remembered(state: ApgdState, loss: Tensor, gradient: Tensor) -> ApgdState:
    """The state with this step's loss and the updated best point."""
    better = loss > state.best_loss
    rows = per_row(better, gradient)
    return replace(
        state,
        rises=state.rises + ((loss > state.last_loss) & (state.age > 0)),
        last_loss=loss,
        best=torch.where(rows, state.point, state.best),
        best_gradient=torch.where(rows, gradient, state.best_gradient),
        best_loss=torch.where(better, loss, state.best_loss),
    )


def _checked(state: ApgdState, window: Tensor) -> tuple[ApgdState, Tensor]:
    """Halve the step of rows at a checkpoint that oscillate or stall; which rows go back to their best.

    Conditions 1 and 2 of Croce & Hein 2020, Sec. 3.1.
    """
    due = window > 0
    oscillates = state.rises <= RISING * window
    stalls = ~state.halved & (state.checked_loss >= state.best_loss)
    back = due & (oscillates | stalls)
    return replace(
        state,
        size=torch.where(back, state.size / 2, state.size),
        halved=torch.where(due, back, state.halved),
        checked_loss=torch.where(due, state.best_loss, state.checked_loss),
        rises=torch.where(due, 0, state.rises),
    ), back
