"""Fast minimum norm (Pintor et al. 2021): how far a point must move before the model errs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi, sqrt

import torch
from torch import Generator, Tensor, nn

from radii.attacks.attack import AttackResult, AttackRun, GradientSearch, NewPoints, State
from radii.attacks.losses import margin
from radii.attacks.pgd import steepest
from radii.attacks.point_randomness import start_inside
from radii.models.classifier import predict
from radii.threat import Ball, Norm, length, nearest_in_l1, per_row

UNBOXED_REACH = 1e6  # without a box a search needs some end
DUAL: dict[Norm, Norm] = {"l2": "l2", "linf": "l1", "l1": "linf"}


@dataclass(frozen=True)
class BrokenRadii:
    """Per point, the distance of the nearest misclassified input of the search.

    0 where the clean input is misclassified, infinity where the search has no success.
    Each is an upper bound on the true radius: it is the distance of a float32
    input in the box that was misclassified, and again when checked in a batch of another size.
    """

    radius: Tensor  # [n] float64
    x_adv: Tensor  # [n, …] float32; the clean input where the search has no success
    queries: Tensor  # [n] int64

    def inside(self, x: Tensor, ball: Ball) -> Tensor:
        """Which errors lie in the ``ball`` around the inputs ``x``: [n] bool."""
        return self.radius.isfinite() & ball.contains(self.x_adv, x.float())


@dataclass(frozen=True)
class MinimumNorm:
    """Follows the boundary: the ball shrinks while a point in it is adversarial and grows while none is.

    Every step goes along the gradient of the margin and is projected onto the
    current ball. Step and growth rate fall as a half cosine. The nearest misclassified
    input is then moved towards the clean input by ``halvings`` bisections.
    """

    steps: int = 100
    growth: float = 0.05
    halvings: int = 10
    restarts: int = 1
    batch_size: int = 256

    def radii(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> BrokenRadii:
        """The broken radius of every row in ``ball.norm`` and ``ball.box``, however large: see :class:`BrokenRadii`."""
        reach = _reach(x, ball)
        trial = AttackRun(model, x, y, reach, generator, self.batch_size)
        radius = torch.where(trial.broken, 0.0, torch.inf).double()
        x_adv, first = trial.x_adv.clone(), trial.broken.clone()
        for run in range(self.restarts):
            trial.broken = first.clone()
            trial.search(_MinimumNormSearch(self, reach, restart=run), run, "minimum norm", keep_broken=True)
            candidate = torch.where(per_row(trial.broken, x), trial.x_adv, trial.x)
            candidate = self._halved(model, trial.x, y, candidate, trial.broken & ~first, trial)
            distance = torch.where(trial.broken, ball.distance(trial.x.double(), candidate.double()), torch.inf)
            nearer = distance < radius
            radius, x_adv = torch.where(nearer, distance, radius), torch.where(per_row(nearer, x), candidate, x_adv)
        return BrokenRadii(radius, x_adv, trial.queries)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Break the points whose nearest misclassified input lies in the ball; see :class:`MinimumNorm`."""
        result = self.radii(model, x, y, ball, generator)
        broken = (result.radius < torch.inf) & ball.contains(result.x_adv, x.float())
        return AttackResult(torch.where(per_row(broken, x), result.x_adv, x.float()), broken, result.queries)

    def _halved(
        self, model: nn.Module, x: Tensor, y: Tensor, candidate: Tensor, active: Tensor, trial: AttackRun
    ) -> Tensor:
        """Bisection on the segment from the clean input to ``candidate``; only misclassified inputs are kept."""
        index = torch.nonzero(active).squeeze(1)
        if not len(index):
            return candidate
        center, far, label = x[index], candidate[index], y[index]
        near = center
        for _ in range(self.halvings):
            middle = (near + far) / 2
            middle = middle if trial.ball.limits.all_allowed else trial.ball.project(middle, center)
            wrong = per_row(predict(model, middle, self.batch_size) != label, middle)
            near, far = torch.where(wrong, near, middle), torch.where(wrong, middle, far)
        # Confirmed once more in batches of another size; otherwise the candidate stays.
        sound = predict(model, far, self.batch_size // 2 + 1) != label
        trial.queries[index] += self.halvings + 1
        candidate = candidate.clone()
        candidate[index] = torch.where(per_row(sound, far), far, candidate[index])
        return candidate


@dataclass(frozen=True)
class _MinimumNormState(State):
    """A row of the search."""

    reach: Tensor  # [m] radius of the current ball
    best: Tensor  # [m, …] nearest adversarial input so far; the clean input before the first
    best_distance: Tensor  # [m]


@dataclass(frozen=True)
class _MinimumNormSearch(GradientSearch):
    attack: MinimumNorm
    ball: Ball  # everything within reach
    restart: int

    @property
    def steps(self) -> int:
        return self.attack.steps

    def begin(self, fresh: NewPoints) -> _MinimumNormState:
        # The first run starts at the clean input, later ones a little beside it.
        start = start_inside(fresh.x, self.ball.with_radius(0.01), fresh.seed) if self.restart else fresh.x
        far = fresh.x.new_full((len(fresh.x),), torch.inf)
        return _MinimumNormState(
            fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y), reach=far, best=fresh.x, best_distance=far
        )

    def objective(self, logits: Tensor, state: _MinimumNormState) -> Tensor:
        return margin(logits, state.y)

    def advance(self, state: _MinimumNormState, logits: Tensor, gradient: Tensor) -> _MinimumNormState:
        norm = self.ball.norm
        rise = margin(logits, state.y)
        adversarial, distance = rise > 0, self.ball.distance(state.x, state.point)
        scale: Tensor | float = self.ball.scales(gradient) if self.ball.scale else 1.0
        gradient = gradient * scale
        state = _noted(state, adversarial, distance)
        share = (1 + torch.cos(pi * state.steps_done / self.steps)) / 2
        growth = self.attack.growth * share
        # Before the first success the boundary is estimated by the tangent plane, and farther at every step.
        plane = distance + (-rise).clamp_min(0) / length(gradient, DUAL[norm]).clamp_min(1e-12)
        plane = torch.maximum(plane, torch.where(state.reach < torch.inf, state.reach, 0.0))
        grown = torch.where(state.best_distance < torch.inf, state.reach, plane) * (1 + growth)
        shrunk = torch.minimum(state.reach * (1 - growth), state.best_distance)
        reach = torch.where(adversarial, shrunk, grown).clamp_max(self.ball.radius)
        way = steepest(gradient, "linf" if norm == "linf" else "l2")  # in L1 the projection makes it sparse
        point = state.point + per_row(self._step(reach, share), gradient) * way * scale
        state = replace(
            state, reach=reach, point=within(point, state.x, reach, self.ball), steps_done=state.steps_done + 1
        )
        if bool((last := state.steps_done >= self.steps).any()):
            state = replace(state, point=torch.where(per_row(last, point), state.best, state.point))
        return state

    def _step(self, reach: Tensor, share: Tensor) -> Tensor:
        return reach * (0.02 + 0.98 * share)


def _noted(state: _MinimumNormState, adversarial: Tensor, distance: Tensor) -> _MinimumNormState:
    nearer = adversarial & (distance < state.best_distance)
    return replace(
        state,
        best=torch.where(per_row(nearer, state.point), state.point, state.best),
        best_distance=torch.where(nearer, distance, state.best_distance),
    )


def within(point: Tensor, center: Tensor, reach: Tensor, ball: Ball) -> Tensor:
    """Projection onto balls of one radius ``reach`` [n] per row, then the box, up to rounding."""
    scale = ball.scales(center) if ball.scale else torch.ones_like(center[:1])
    step, limit = (point - center) / scale, per_row(reach, point)
    if ball.norm == "linf":
        step = torch.minimum(torch.maximum(step, -limit), limit)
    elif ball.norm == "l2":
        step = step * (limit / per_row(length(step, "l2").clamp_min(1e-30), step)).clamp_max(1.0)
    else:
        low, high = (((end - center) / scale).flatten(1) for end in ball.room(center))
        step = nearest_in_l1(step.flatten(1), reach, low.clamp_max(0), high.clamp_min(0)).view_as(point)
    return (center + step * scale).clamp(*ball.ends)


def _reach(x: Tensor, ball: Ball) -> Ball:
    """The ball that holds all of the box, whatever the center."""
    if ball.box is None:
        return ball.with_radius(UNBOXED_REACH)
    width = ball.box[1] - ball.box[0]
    size = x[0].numel()
    return ball.with_radius(width * {"linf": 1.0, "l2": sqrt(size), "l1": size}[ball.norm] / min(ball.scale or (1.0,)))
