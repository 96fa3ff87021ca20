"""Auto-PGD (Croce & Hein 2020): momentum, and steps that halve where progress stalls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from radii.attacks import losses
from radii.attacks.attack import AttackResult, AttackRun, GradientSearch, NewPoints, State
from radii.attacks.minimum_norm import DUAL, within
from radii.attacks.pgd import ascend
from radii.attacks.point_randomness import start_inside, start_on_surface
from radii.errors import InputError
from radii.threat import Ball, length, per_row

MOMENTUM = 0.75  # the weight of the gradient step; the rest continues the last move
CANDIDATES = 50  # of the likeliest wrong classes, whose tangent planes are measured
RISING = 0.75  # a step size stays while at least this share of its steps raised the loss
# of the search in L1 balls, whose steps are sparse: their support and size follow the best point so far
FIRST_SHARE = 0.2  # of the features that the first steps move
WINDOW = 0.04  # of the steps between two looks at the support
WIDER = ((0.3, 3.0), (0.6, 2.0), (1.0, 1.0))  # up to this share of the steps, the ball has so many times its radius
STEADY, SHRUNK, LEAST = 0.95, 1.5, 10.0  # a support that stays; divisor of the step; smallest step, in radii


@dataclass(frozen=True)
class APGD:
    """Auto-PGD with one of :data:`radii.attacks.losses.LOSSES`.

    Of a targeted loss, ``targets`` classes are tried, each for ``restarts`` runs of ``steps``: in the ``order`` of
    their clean ``logits``, or of the ``distance`` at which the tangent plane at the clean input meets them (the gap of
    the logits over the dual norm of its gradient, MALT: Melamed et al. 2024). AutoAttack's budgets: 100 steps;
    9 targets. In L1 balls steps are sparse (:class:`_L1Search`, Croce & Hein 2021).
    """

    loss: losses.Loss = "ce"
    steps: int = 100
    restarts: int = 1
    targets: int = 9
    batch_size: int = 256
    order: Literal["logits", "distance"] = "logits"

    def __post_init__(self) -> None:
        if self.loss not in losses.LOSSES:
            raise InputError(f"The loss of APGD must be one of {', '.join(losses.LOSSES)}, got {self.loss!r} instead.")
        if self.order not in ("logits", "distance"):
            raise InputError(f"The order of targets must be 'logits' or 'distance', got {self.order!r} instead.")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = AttackRun(model, x, y, ball, generator, self.batch_size)
        targeted = self.loss.endswith("-targeted")
        targets = min(self.targets, trial.clean_logits.shape[1] - 1) if targeted else 1
        order = self._targets(trial) if targeted else y[:, None]
        for run in range(self.restarts * targets):
            what, target = f"APGD-{self.loss} {run + 1}/{self.restarts * targets}", order[:, run % targets]
            if ball.norm == "l1":
                trial.search(_L1Search(self.loss, self.steps, ball, target), run, what)
            else:
                trial.search(_ApgdSearch(self.loss, self.steps, ball, target), run, what)
        return trial.result()

    def _targets(self, trial: AttackRun) -> Tensor:
        """The wrong classes of each point, the most promising first: [n, classes - 1]."""
        order = targets_in_order(trial.clean_logits, trial.y)
        if self.order == "logits" or order.shape[1] < 2:
            return order
        return nearest_targets(trial, order[:, :CANDIDATES])


APGD_DLR = APGD("dlr")
APGD_TARGETED = APGD("dlr-targeted")
APGD_MARGIN_OF_PROBABILITIES = APGD("pm")
APGD_NEAREST = APGD("dlr-targeted", order="distance")


def nearest_targets(trial: AttackRun, order: Tensor) -> Tensor:
    """The classes ``order`` [n, k] of unbroken points by the distance of their tangent planes at the clean inputs.

    One gradient for each class; broken points keep their order.
    """
    left = torch.nonzero(~trial.broken).squeeze(1)
    far = torch.zeros(len(left), order.shape[1], device=order.device)
    for place in range(order.shape[1]):
        for part in torch.arange(len(left), device=left.device).split(trial.batch_size):
            rows = left[part]
            gap, gradient = trial.slope(rows, order[rows, place])
            scaled = gradient * trial.ball.scales(gradient)
            far[part, place] = -gap / length(scaled, DUAL[trial.ball.norm]).clamp_min(1e-12)
    ranked = order.clone()
    ranked[left] = order[left].gather(1, far.argsort(dim=1, stable=True))
    return ranked


@dataclass(frozen=True)
class _ApgdState(State):
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
    targets: Tensor  # [n] class of each point of the trial; of losses without a target its label

    @cached_property
    def windows(self) -> Tensor:
        """The length of the window that ends at each step, and 0 between checkpoints (their Sec. 3.1).

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

    def begin(self, fresh: NewPoints) -> _ApgdState:
        start = start_on_surface(fresh.x, self.ball, fresh.seed)
        nothing, zero = start.new_full((len(start),), float("-inf")), torch.zeros_like(fresh.y)
        return _ApgdState(
            fresh.index, fresh.x, fresh.y, start, zero,
            target=self.targets[fresh.index],
            last=start, size=start.new_full((len(start),), 2 * self.ball.radius),
            best=start, best_gradient=torch.zeros_like(start), best_loss=nothing, last_loss=nothing,
            rises=zero, checked_loss=nothing, halved=torch.ones_like(zero, dtype=torch.bool),
        )  # fmt: skip

    def objective(self, logits: Tensor, state: _ApgdState) -> Tensor:
        return losses.by_name(self.loss, logits, state.y, state.target)

    def advance(self, state: _ApgdState, logits: Tensor, gradient: Tensor) -> _ApgdState:
        loss = self.objective(logits, state)
        state = _remembered(state, loss, gradient)
        window = self.windows.to(loss.device)[state.steps_done]
        point = state.point
        if bool((window > 0).any()):
            state, back = _checked(state, window)
            point = torch.where(per_row(back, point), state.best, point)
            gradient = torch.where(per_row(back, point), state.best_gradient, gradient)
        stepped = ascend(point, gradient, state.x, self.ball, state.size)
        # The first step has no move to continue.
        weight = per_row(torch.where(state.steps_done == 0, 1.0, MOMENTUM), point)
        moved = point + weight * (stepped - point) + (1 - weight) * (point - state.last)
        return replace(state, last=point, point=self.ball.clip(moved, state.x), steps_done=state.steps_done + 1)


def targets_in_order(logits: Tensor, y: Tensor) -> Tensor:
    """The classes other than ``y`` by falling ``logits``: [m, classes] -> [m, classes - 1]."""
    order = logits.scatter(1, y[:, None], float("-inf")).argsort(dim=1, descending=True, stable=True)
    return order[:, :-1]


def _remembered(state: _ApgdState, loss: Tensor, gradient: Tensor) -> _ApgdState:
    """The state with this step's loss and the updated best point."""
    better = loss > state.best_loss
    rows = per_row(better, gradient)
    return replace(
        state,
        rises=state.rises + ((loss > state.last_loss) & (state.steps_done > 0)),
        last_loss=loss,
        best=torch.where(rows, state.point, state.best),
        best_gradient=torch.where(rows, gradient, state.best_gradient),
        best_loss=torch.where(better, loss, state.best_loss),
    )


def _checked(state: _ApgdState, window: Tensor) -> tuple[_ApgdState, Tensor]:
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


@dataclass(frozen=True)
class _L1State(State):
    """A row of the search."""

    target: Tensor  # [m] class of a targeted run
    best: Tensor  # [m, …] the point of the highest loss in the present ball
    best_loss: Tensor  # [m]
    support: Tensor  # [m] how many features a step moves
    size: Tensor  # [m] L1 length of a step
    factor: Tensor  # [m] of the present ball's radius


@dataclass(frozen=True)
class _L1Search(GradientSearch):
    """One run: the loss rises by steps of the steepest features that can still move."""

    loss: str
    steps: int
    ball: Ball
    targets: Tensor  # [n] class of each point of the trial; of losses without a target its label

    def begin(self, fresh: NewPoints) -> _L1State:
        """From a random point of the ball."""
        start = start_inside(fresh.x, self.ball, fresh.seed)
        ones = start.new_ones(len(start))
        first = FIRST_SHARE * start[0].numel() * ones
        return _L1State(
            fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y), self.targets[fresh.index],
            start, -torch.inf * ones, first, self.ball.radius * ones, WIDER[0][1] * ones,
        )  # fmt: skip

    def objective(self, logits: Tensor, state: _L1State) -> Tensor:
        """The loss that the run raises."""
        return losses.by_name(self.loss, logits, state.y, state.target)

    def advance(self, state: _L1State, logits: Tensor, gradient: Tensor) -> _L1State:
        """The next point, after what this one taught."""
        loss = self.objective(logits, state)
        better = loss > state.best_loss
        state = replace(
            state,
            best=torch.where(per_row(better, gradient), state.point, state.best),
            best_loss=torch.where(better, loss, state.best_loss),
            steps_done=state.steps_done + 1,
        )
        state = self._narrowed(self._looked(state))
        step = self._step(state, gradient)
        return replace(state, point=within(state.point + step, state.x, state.factor * self.ball.radius, self.ball))

    def _looked(self, state: _L1State) -> _L1State:
        """At the end of a window: the support follows the best point; a steady one takes smaller steps."""
        due = state.steps_done % max(1, int(WINDOW * self.steps)) == 0
        if not bool(due.any()):
            return state
        support = (state.best != state.x).flatten(1).sum(1).to(state.size) / SHRUNK
        steady = (support >= STEADY * state.support) & (support <= state.support)
        radius = self.ball.radius
        size = torch.where(steady, (state.size / SHRUNK).clamp_min(radius / LEAST), radius)
        return replace(
            state,
            size=torch.where(due, size, state.size),
            support=torch.where(due, support.clamp_min(1), state.support),
            point=torch.where(per_row(due & ~steady, state.best), state.best, state.point),
        )

    def _narrowed(self, state: _L1State) -> _L1State:
        """The ball of this step; where it shrinks, the best point is drawn into it and its loss is asked again."""
        share, factor = state.steps_done / self.steps, torch.ones_like(state.factor)
        for end, wide in reversed(WIDER):
            factor = torch.where(share < end, wide, factor)
        shrinks = factor < state.factor
        if not bool(shrinks.any()):
            return state
        rows = per_row(shrinks, state.best)
        drawn = within(state.best, state.x, factor * self.ball.radius, self.ball)
        return replace(
            state,
            factor=factor,
            point=torch.where(rows, drawn, state.point),
            best=torch.where(rows, drawn, state.best),
            best_loss=torch.where(shrinks, -torch.inf, state.best_loss),
        )

    def _step(self, state: _L1State, gradient: Tensor) -> Tensor:
        """The signs of the steepest features, all of one length; features at an end of the box do not count."""
        scale = self.ball.scales(gradient)
        low, high = self.ball.room(state.x)
        free = torch.where(gradient > 0, state.point < high, state.point > low)
        steep = (gradient * scale * free).flatten(1)
        rank = steep.abs().argsort(dim=1, descending=True).argsort(dim=1)
        chosen = (rank < state.support[:, None].floor()) & (steep != 0)
        step = steep.sign() * chosen * (state.size / chosen.sum(1).clamp_min(1))[:, None]
        return step.view_as(gradient) * scale
