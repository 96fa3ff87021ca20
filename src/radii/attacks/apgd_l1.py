"""Auto-PGD for L1 balls (Croce & Hein 2021): sparse steps, whose support and size follow the best point so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from radii.attacks import losses
from radii.attacks.attack import GradientSearch, NewPoints, State
from radii.attacks.minimum_norm import within
from radii.attacks.point_randomness import start_inside
from radii.threat import Ball, per_row

FIRST_SHARE = 0.2  # of the features that the first steps move
WINDOW = 0.04  # of the steps between two looks at the support
WIDER = ((0.3, 3.0), (0.6, 2.0), (1.0, 1.0))  # up to this share of the steps, the ball has so many times its radius
STEADY, SHRUNK, LEAST = 0.95, 1.5, 10.0  # a support that stays; divisor of the step; smallest step, in radii


@dataclass(frozen=True)
class L1State(State):
    """A row of the search."""

    target: Tensor  # [m] class of a targeted run
    best: Tensor  # [m, …] the point of the highest loss in the present ball
    best_loss: Tensor  # [m]
    support: Tensor  # [m] how many features a step moves
    size: Tensor  # [m] L1 length of a step
    factor: Tensor  # [m] of the present ball's radius


@dataclass(frozen=True)
class L1Search(GradientSearch):
    """One run: the loss rises by steps of the steepest features that can still move."""

    loss: str
    steps: int
    ball: Ball
    targets: Tensor  # [n] class of each point of the trial; of losses without a target its label

    def begin(self, fresh: NewPoints) -> L1State:
        """From a random point of the ball."""
        start = start_inside(fresh.x, self.ball, fresh.seed)
        ones = start.new_ones(len(start))
        first = FIRST_SHARE * start[0].numel() * ones
        return L1State(
            fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y), self.targets[fresh.index],
            start, -torch.inf * ones, first, self.ball.radius * ones, WIDER[0][1] * ones,
        )  # fmt: skip

    def objective(self, logits: Tensor, state: L1State) -> Tensor:
        """The loss that the run raises."""
        return losses.by_name(self.loss, logits, state.y, state.target)

    def advance(self, state: L1State, logits: Tensor, gradient: Tensor) -> L1State:
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

    def _looked(self, state: L1State) -> L1State:
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

    def _narrowed(self, state: L1State) -> L1State:
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

    def _step(self, state: L1State, gradient: Tensor) -> Tensor:
        """The signs of the steepest features, all of one length; features at an end of the box do not count."""
        scale = self.ball.scales(gradient)
        low, high = self.ball.room(state.x)
        free = torch.where(gradient > 0, state.point < high, state.point > low)
        steep = (gradient * scale * free).flatten(1)
        rank = steep.abs().argsort(dim=1, descending=True).argsort(dim=1)
        chosen = (rank < state.support[:, None].floor()) & (steep != 0)
        step = steep.sign() * chosen * (state.size / chosen.sum(1).clamp_min(1))[:, None]
        return step.view_as(gradient) * scale
