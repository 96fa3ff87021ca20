"""FAB, the fast adaptive boundary attack, targeted (Croce & Hein 2020, "Minimally distorted adversarial examples")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from radii.attacks.apgd import targets_in_order
from radii.attacks.attack import AttackResult, AttackRun, NewPoints, State, misclassified, rows
from radii.attacks.losses import targeted_margin
from radii.attacks.point_randomness import start_inside
from radii.networks.calling import predicted_class
from radii.threat import Ball, Norm, per_row

BIAS = 0.1  # alpha_max: the largest weight of the step that starts from the clean input
OVERSHOOT = 1.05  # eta: how far beyond the boundary's tangent plane a step goes
RETURN = 0.9  # beta: what remains of a perturbation after a success outside the ball


@dataclass(frozen=True)
class FAB:
    """Steps to the tangent plane of the boundary with a target class, biased to the clean input.

    The ``targets`` likeliest wrong classes, each for ``restarts`` runs of
    ``steps``; only later restarts begin at a random point. AutoAttack's budget:
    9 targets, 100 steps, 1 restart. A success outside the ball pulls the row back
    towards the clean input; a success inside ends it.
    """

    steps: int = 100
    targets: int = 9
    restarts: int = 1
    batch_size: int = 256

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = AttackRun(model, x, y, ball, generator, self.batch_size)
        targets = min(self.targets, trial.clean_logits.shape[1] - 1)
        for run in range(targets * self.restarts):
            search = _FabSearch(self.steps, ball, place=run % targets, random_start=run >= targets)
            trial.search(search, run, f"FAB-T {run + 1}/{targets * self.restarts}")
        return trial.result()


@dataclass(frozen=True)
class _FabState(State):
    """A row of FAB."""

    target: Tensor  # [m]
    due: Tensor  # [m] whether a step follows whatever the prediction: the point is a return or was checked
    beyond: Tensor  # [m] whether the last step went beyond the boundary


@dataclass(frozen=True)
class _FabSearch:
    steps: int
    ball: Ball
    place: int
    random_start: bool

    def begin(self, fresh: NewPoints) -> _FabState:
        half = self.ball.with_radius(self.ball.radius / 2)
        start = start_inside(fresh.x, half, fresh.seed) if self.random_start else fresh.x
        target = targets_in_order(fresh.logits, fresh.y)[:, self.place]
        never = torch.zeros_like(fresh.y, dtype=torch.bool)
        return _FabState(fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y), target, never, never)

    def wants_gradient(self, state: _FabState) -> Tensor:
        """Not at points that will probably be left for a return: one forward pass tells."""
        return state.due | ~state.beyond

    def objective(self, logits: Tensor, state: _FabState) -> Tensor:
        return targeted_margin(logits, state.y, state.target)

    def advance(self, state: _FabState, logits: Tensor, gradient: Tensor) -> _FabState:
        known = self.wants_gradient(state)
        beyond = misclassified(predicted_class(logits), state.y) & ~state.due
        step = known & ~beyond
        point = torch.where(per_row(beyond, state.x), state.x + RETURN * (state.point - state.x), state.point)
        if bool(step.any()):
            point[step] = self._stepped(rows(state, step), logits[step], gradient[step])
        return replace(
            state,
            point=point,
            due=~step,
            beyond=torch.where(state.due, state.beyond, beyond),
            steps_done=state.steps_done + step.long(),
        )

    def _stepped(self, state: _FabState, logits: Tensor, gradient: Tensor) -> Tensor:
        """(1 - a)(x_k + eta d_k) + a (x_0 + eta d_0), d the shortest ways to the tangent plane (their Eq. 9)."""
        rise = targeted_margin(logits, state.y, state.target)
        offset = rise + (gradient * (state.x - state.point)).flatten(1).sum(1)  # the plane's value at x_0
        from_point = _to_plane(state.point, gradient, rise, self.ball)
        from_input = _to_plane(state.x, gradient, offset, self.ball)
        near, far = (self.ball.distance(0 * step, step).clamp_min(1e-8) for step in (from_point, from_input))
        weight = per_row((near / (near + far)).clamp(0, BIAS), from_point)
        moved = (1 - weight) * (state.point + OVERSHOOT * from_point) + weight * (state.x + OVERSHOOT * from_input)
        return moved.clamp(*self.ball.ends)


def _to_plane(point: Tensor, normal: Tensor, value: Tensor, ball: Ball) -> Tensor:
    """The smallest step d with value + <normal, d> = 0 and ``point`` + d in the box of ``ball`` (their Eq. 5): [m, …].

    Coordinate i moves by min(g a_i, room_i), where a_i is 1 for Linf and |w_i| for
    L2, and g is the one number for which these moves reach the plane; in L1 the steepest
    coordinates move as far as they can. Where
    the box does not reach it, every coordinate goes as far as the box allows.
    Coordinates count in the ball's scales.
    """
    scale = ball.scales(normal).flatten(1)
    w, goal = normal.flatten(1) * scale, -value.sign()[:, None]
    way = goal * w.sign()
    if ball.box is None:
        room = torch.full_like(w, torch.inf)
    else:
        flat = point.flatten(1)
        room = torch.where(way > 0, ball.box[1] - flat, flat - ball.box[0]).clamp_min(0) / scale
    if ball.norm == "l1":
        return (way * _steepest_first(w.abs(), room, value.abs()) * scale).view_as(point)
    share = _shares(w.abs(), ball.norm)
    pace = _water_level(w.abs() * share, torch.where(w == 0, 0.0, w.abs() * room), value.abs())
    move = torch.minimum(torch.where(share > 0, pace[:, None] * share, 0.0), room)
    return (way * move.nan_to_num(posinf=0.0) * scale).view_as(point)


def _steepest_first(steepness: Tensor, room: Tensor, amount: Tensor) -> Tensor:
    """The shortest L1 moves, at most ``room``, whose products with ``steepness`` add up to ``amount`` [m]: [m, d]."""
    steep, order = steepness.sort(dim=1, descending=True)
    gain = torch.where(steep > 0, steep * room.gather(1, order), 0.0)
    before = torch.cat([torch.zeros_like(gain[:, :1]), gain[:, :-1]], 1).cumsum(1)
    left = (amount[:, None] - before).clamp_min(0)
    move = torch.where(steep > 0, torch.minimum(gain, left) / steep.clamp_min(1e-30), 0.0)
    return torch.zeros_like(move).scatter(1, order, move)


def _shares(steepness: Tensor, norm: Norm) -> Tensor:
    """How fast each coordinate moves in the steepest step of the norm."""
    return (steepness > 0).to(steepness.dtype) if norm == "linf" else steepness


def _water_level(rate: Tensor, cap: Tensor, amount: Tensor) -> Tensor:
    """The g with sum_i min(g rate_i, cap_i) = amount: [m, d], [m, d], [m] -> [m]; infinite where the caps are too low.

    The sum is piecewise linear in g with corners at cap_i / rate_i: sort them
    and find the piece.
    """
    corner = torch.where(rate > 0, cap / rate.clamp_min(1e-30), torch.inf)
    corner, order = corner.sort(dim=1)
    cap, rate = cap.gather(1, order), rate.gather(1, order)
    full = torch.where(corner < torch.inf, cap, 0.0)
    below = full.cumsum(1) - full
    slope = rate.flip(1).cumsum(1).flip(1)
    reached = torch.where(corner < torch.inf, below + corner * slope, torch.inf) >= amount[:, None]
    # A piece without slope is never the answer: no coordinate moves on it.
    reached &= slope > 0
    piece = reached.int().argmax(1, keepdim=True)
    level = (amount[:, None] - below.gather(1, piece)) / slope.gather(1, piece).clamp_min(1e-30)
    return torch.where(reached.any(1), level.squeeze(1).clamp_min(0), torch.inf)
