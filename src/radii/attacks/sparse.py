"""The attack on sparse changes: the steepest features of a linear model, sparse gradient steps, then random search.

Each part keeps at most ``count`` changed features or pixels. The first is the optimum where the model is linear:
towards a class t the gain of a feature is the most that its change within box and limits adds to z_t - z_y, and the
``count`` largest gains are taken. Then gradient steps that keep the largest changes alone (PGD_0, Croce & Hein 2019),
and a random search that swaps changed features for others (Sparse-RS, Croce et al. 2022), which needs scores only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from radii.attacks.attack import AttackResult, AttackRun, ForwardSearch, GradientSearch, NewPoints, State
from radii.attacks.losses import margin
from radii.attacks.point_randomness import uniform
from radii.change import Change
from radii.errors import InputError
from radii.models.adapter import BlackBox
from radii.models.linear.read import affine_scores
from radii.sparse_threat import Sparse
from radii.threat import Ball, per_row

NAME = "sparse"
LATEST = 0.05  # the share of the changed features that the last proposals swap; the first swap all of 0.8


@dataclass(frozen=True)
class SparseAttack:
    """At most so many features or pixels of each row changed, until the model errs.

    Args:
        targets: classes towards which the steepest features are taken, the nearest in score first; default 9.
        steps: gradient steps; default 40. A model without gradients meets none.
        queries: proposals of the random search; default 2,000.
        batch_size: points attacked together; default 256.
    """

    targets: int = 9
    steps: int = 40
    queries: int = 2000
    batch_size: int = 256

    def __call__(
        self, model: nn.Module, x: Tensor, y: Tensor, threat: Sparse | Ball | Change, generator: Generator
    ) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        if not isinstance(threat, Sparse):
            raise InputError(f"The attack 'sparse' is for a number of features, as l0:5, got {threat}.")
        threat.check_room(x.detach().float())
        trial = AttackRun(model, x, y, threat, generator, self.batch_size)  # type: ignore[arg-type]
        self._take_steepest(trial, threat)
        if not isinstance(model, BlackBox):
            trial.search(_Steps(self, threat), 0, f"sparse steps {self.steps}")
        trial.search(_Swaps(self, threat), 1, f"sparse search {self.queries}")
        return trial.result()

    def _take_steepest(self, trial: AttackRun, threat: Sparse) -> None:
        """The optimum of a linear model: all at once, towards one class after another."""
        slopes = _own_slopes(trial)
        order = trial.clean_logits.scatter(1, trial.y[:, None], -torch.inf).argsort(1, descending=True)
        for place in range(min(self.targets, order.shape[1] - 1)):
            left = torch.nonzero(~trial.broken)[:, 0]
            for rows in left.split(self.batch_size) if len(left) else ():
                target = order[rows, place]
                if slopes is not None:
                    slope = (slopes[target] - slopes[trial.y[rows]]).view_as(trial.x[rows])
                elif isinstance(trial.model, BlackBox):
                    return
                else:
                    slope = trial.slope(rows, target)[1]
                trial.confirm(rows, steepest_features(trial.x[rows], slope, threat))


def steepest_features(x: Tensor, slope: Tensor, threat: Sparse) -> Tensor:
    """The rows of ``threat`` around ``x`` [n, …] at which a linear function with this ``slope`` is largest."""
    low, high = threat.room(x)
    end = torch.where(slope > 0, high, low)
    gain = threat.in_units(slope * (end - x)).sum(1)
    count = min(threat.count, gain.shape[1])
    chosen = torch.zeros_like(gain).scatter(1, gain.topk(count, 1).indices, 1.0) * (gain > 0)
    taken = (chosen[:, None] > 0).expand_as(threat.in_units(x)).reshape(x.shape)
    return torch.where(taken & (slope != 0), end, x)


def _own_slopes(trial: AttackRun) -> Tensor | None:
    """The gradients of all scores of a model that only answers but is known to be linear: [classes, d]; else None."""
    if not isinstance(trial.model, BlackBox):
        return None
    try:
        weight = affine_scores(trial.model, tuple(trial.x.shape[1:])).weight
    except InputError:
        return None
    return torch.from_numpy(weight).to(trial.x)


@dataclass(frozen=True)
class _Steps(GradientSearch):
    """Gradient steps on the margin, each back to the largest changes."""

    attack: SparseAttack
    threat: Sparse

    @property
    def steps(self) -> int:
        return self.attack.steps

    def begin(self, fresh: NewPoints) -> State:
        return State(fresh.index, fresh.x, fresh.y, fresh.x, torch.zeros_like(fresh.y))

    def objective(self, logits: Tensor, state: State) -> Tensor:
        return margin(logits, state.y)

    def advance(self, state: State, logits: Tensor, gradient: Tensor) -> State:  # noqa: ARG002
        """A step as long, in sum, as half of the count of features moved through their whole room."""
        low, high = self.threat.room(state.x)
        width = high - low
        toward = gradient * width
        size = per_row(toward.flatten(1).abs().sum(1).clamp_min(1e-30), toward)
        step = toward / size * width * self.threat.count * 0.5 * self.threat.in_units(state.x).shape[1]
        return replace(state, point=self.threat.project(state.point + step, state.x), steps_done=state.steps_done + 1)


@dataclass(frozen=True)
class _SwapState(State):
    """A row of the random search."""

    best: Tensor  # [m, …] the input of the largest margin so far
    best_loss: Tensor  # [m]
    seed: Tensor  # [m]


@dataclass(frozen=True)
class _Swaps(ForwardSearch):
    """Some changed features go back, as many others change: to an end of their room, or to a number inside."""

    attack: SparseAttack
    threat: Sparse

    @property
    def steps(self) -> int:
        return self.attack.queries

    def begin(self, fresh: NewPoints) -> _SwapState:
        worst = fresh.x.new_full((len(fresh.x),), -torch.inf)
        nothing_done = torch.zeros_like(fresh.y)
        start = self._proposal(nothing_done, fresh.seed, fresh.x, fresh.x)
        return _SwapState(fresh.index, fresh.x, fresh.y, start, nothing_done, fresh.x, worst, fresh.seed)

    def advance(self, state: _SwapState, logits: Tensor, gradient: Tensor) -> _SwapState:  # noqa: ARG002
        loss = margin(logits, state.y)
        better = loss >= state.best_loss
        best = torch.where(per_row(better, state.point), state.point, state.best)
        state = replace(
            state, best=best, best_loss=torch.where(better, loss, state.best_loss), steps_done=state.steps_done + 1
        )
        return replace(state, point=self._proposal(state.steps_done, state.seed, state.x, best))

    def _proposal(self, steps_done: Tensor, seed: Tensor, x: Tensor, best: Tensor) -> Tensor:
        units = self.threat.in_units(x)
        count = min(self.threat.count, units.shape[2])
        draw = uniform(seed, steps_done, 2 + 2 * units.shape[1], units.shape[2])
        low, high = (self.threat.in_units(end) for end in self.threat.room(x))
        movable = (high > low).any(1)
        changed = self.threat.in_units(best != x).any(1)
        share = (0.8 * (1 - steps_done / max(self.steps, 1))).clamp_min(LATEST)
        swapped = (share * count).ceil().clamp(1, count)
        free = count - changed.sum(1)  # of the budget
        leaving = _first(torch.where(changed, draw[:, 0], 2.0), (swapped - free).clamp_min(0)) & changed
        entering = torch.where(movable & (~changed | leaving), draw[:, 1], 2.0)
        arriving = _first(entering, leaving.sum(1) + free.clamp_max(swapped.long())) & (entering < 2)
        where, inside = draw[:, 2:].chunk(2, 1)
        value = torch.where(where < 0.35, low, torch.where(where < 0.7, high, low + inside * (high - low)))
        proposal = torch.where(leaving[:, None], units, self.threat.in_units(best))
        proposal = torch.where(arriving[:, None], value, proposal)
        return self.threat.project(proposal.reshape(x.shape), x)


def _first(draw: Tensor, count: Tensor) -> Tensor:
    """The ``count`` [m] smallest of each row of ``draw`` [m, units]: [m, units] bool."""
    return draw.argsort(1).argsort(1) < count[:, None]
