"""The true radius of a point: the largest that is proved and the smallest that is broken, closed by bisection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from radii import progress
from radii.bounds.provably_robust import Bounded, domain_of
from radii.models.classifier import check_inputs
from radii.networks.calling import predicted_class
from radii.threat import Ball, Box, Norm
from radii.verification._goal import Goal
from radii.verification._nearest_adversarial import nearest_error
from radii.verification._runnable_network import Deployed
from radii.verification.answer import Answer, Limits
from radii.verification.verify import decided

SECONDS = 60.0
TOLERANCE = 0.01  # relative to the broken radius
FIRST, LATER = 0.5, 0.35  # shares of the time left: for the radius just below an error, and for smaller ones


@dataclass(frozen=True)
class RadiusBracket:
    """proved[i] <= true radius of input i <= broken[i], both [n] float64; broken is inf where nothing was found.

    ``prediction`` is the class [n] whose radius it is, -1 for NaN; ``nearest`` is an input with another class at the
    broken radius, the input itself where none was found.
    """

    prediction: Tensor
    proved: Tensor
    broken: Tensor
    nearest: Tensor

    def known(self, tolerance: float = TOLERANCE) -> Tensor:
        """Where both ends differ by at most ``tolerance``, relative to the broken radius: [n] bool."""
        return self.broken.isfinite() & (self.broken - self.proved <= tolerance * self.broken)

    def summary(self, tolerance: float = TOLERANCE) -> dict[str, Any]:
        """For how many inputs the radius is known, and the medians of both ends, as JSON data."""
        medians = {name: float(getattr(self, name).median()) for name in ("proved", "broken")}
        return {
            "known": int(self.known(tolerance).sum()),
            "total": len(self.proved),
            "tolerance": tolerance,
            **{f"median_{name}": value if value < inf else None for name, value in medians.items()},
        }


def decide(
    deployed: Deployed, x: Tensor, label: int, classes: int, ball: Ball, limits: Limits, seed: int | None = 0
) -> Answer:
    """Whether some input of the ball around ``x`` has another class: ``unsat`` if none, proved.

    Args:
        x: one input [1, …].
        ball: with radius and box.
        seed: of the search for a counterexample; None if attacks were tried before.

    Returns:
        The answer; for ``sat`` with an input [1, …] of another class.
    """
    region = domain_of(x, ball)
    others = [other for other in range(classes) if other != label]
    matrix = torch.zeros(len(others), classes, dtype=torch.float64)
    matrix[:, label] = 1
    # logit_y - logit_c <= margin is another class, a tie, or too near to one
    matrix[torch.arange(len(others)), torch.tensor(others)] = -1
    goal = Goal(
        region.lower[0],
        region.upper[0],
        matrix,
        torch.full((len(others),), deployed.margin, dtype=torch.float64),
        torch.arange(len(others)),
        len(others),
        None if region.center is None else region.center[0],
        region.radius,
        region.norm,
        region.scale,
    )
    _, answer = decided(deployed, goal, limits, seed)
    if answer.interrupted:
        raise KeyboardInterrupt
    if answer.verdict == "sat" and answer.counterexample is not None:
        point = ball.project(answer.counterexample[None].view_as(x), x)
        if int(predicted_class(deployed.outputs(point.flatten(1)))) == label:  # a tie, or outside by rounding
            return replace(answer, verdict="unknown", counterexample=None, suspect=answer.counterexample)
        return replace(answer, counterexample=point)
    return answer


def true_radii(
    model: nn.Module,
    x: Tensor,
    largest: float,
    *,
    norm: Norm = "linf",
    box: Box | None = (0.0, 1.0),
    like: Ball | None = None,
    seconds: float = SECONDS,
    tolerance: float = TOLERANCE,
    start: RadiusBracket | None = None,
) -> RadiusBracket:
    """The largest proved and the smallest broken radius of each input.

    An input of another class is moved as near as projections can. The radius just below it is tried next: its proof
    closes the bracket. Where that takes too long, smaller radii are proved by bisection.

    Guarantee: deterministic, for the network as float32 computes it in eval mode, in the box. How far a bracket
    closes depends on the speed of the machine.

    Args:
        model: a float32 network from inputs to logits.
        x: inputs [n, …] in ``box``; never changed.
        norm: of the radii.
        like: a ball whose scale, fixed features and limits hold, in place of ``norm`` and ``box``.
    """
    ball = Ball(norm, largest, box) if like is None else like.with_radius(largest)
    deployed, prediction, classes = prepared(model, x, ball.box)
    proved = torch.zeros(len(x)).double() if start is None else start.proved.clone()
    broken = torch.full((len(x),), torch.inf).double() if start is None else start.broken.clone()
    nearest = x.clone() if start is None else start.nearest.clone()
    with progress.task("closing brackets", len(x), "points") as bar:
        for i, label in enumerate(prediction.tolist()):
            if label >= 0:
                known = nearest[i : i + 1].float() if float(broken[i]) < inf else None
                ends = _Ends(float(proved[i]), float(broken[i]), known)
                point = _Point(deployed, x[i : i + 1].float(), label, classes, ball, tolerance)
                ends = point.closed(ends, Limits.of_seconds(seconds))
                proved[i], broken[i] = ends.low, ends.high
                nearest[i] = nearest[i] if ends.error is None else ends.error[0]
            bar.advance()
    return RadiusBracket(prediction, proved, broken, nearest)


@dataclass(frozen=True)
class _Ends:
    """Both ends of a bracket, and the input of another class at the upper one."""

    low: float
    high: float
    error: Tensor | None


@dataclass(frozen=True)
class _Point:
    """One input whose radius is asked for up to the ball's."""

    deployed: Deployed
    x: Tensor
    label: int
    classes: int
    ball: Ball
    tolerance: float

    def closed(self, ends: _Ends, limits: Limits) -> _Ends:
        """The bracket after its time."""
        ends = self._attacked(ends, limits)
        wall = inf  # a radius that could not be decided
        while limits.left() > 0 and self._is_open(ends) and (wall - ends.low > self.tolerance * wall or wall == inf):
            top = min(ends.high, self.ball.radius)
            below = ends.high * (1 - 0.9 * self.tolerance) if ends.high <= self.ball.radius else top
            trial = below if wall == inf else (ends.low + wall) / 2
            some = Limits.of_seconds(limits.left() * (FIRST if wall == inf else LATER))
            answer = decide(
                self.deployed, self.x, self.label, self.classes, self.ball.with_radius(trial), some, self._seed(ends)
            )
            if answer.verdict == "unsat":
                ends = replace(ends, low=trial)
                continue
            error, before = answer.counterexample, ends.high
            if error is not None:
                ends = _Ends(ends.low, min(trial, self._distance(error)), error)
            ends = self._attacked(ends, limits, answer.suspect)
            wall = inf if ends.high < before else trial  # a tie at the very radius, or too hard
        return ends

    def _seed(self, ends: _Ends) -> int | None:
        """Search by descent only where no error is known: the attack did better elsewhere."""
        return 0 if ends.error is None else None

    def _is_open(self, ends: _Ends) -> bool:
        if ends.low >= self.ball.radius:
            return False
        return ends.high == inf or ends.high - ends.low > self.tolerance * ends.high

    def _attacked(self, ends: _Ends, limits: Limits, suspect: Tensor | None = None) -> _Ends:
        """The upper end moved inward by projections from the error that is known, and from random points."""
        known = [point.reshape(1, -1) for point in (ends.error, suspect) if point is not None]
        starts = torch.cat(known) if known else None
        away, error = nearest_error(self.deployed, self.x, self.label, self.ball, limits, starts=starts)
        return replace(ends, high=away, error=error) if away < ends.high else ends

    def _distance(self, error: Tensor) -> float:
        return float(self.ball.distance(self.x.double(), error.double()))


def prepared(model: nn.Module, x: Tensor, box: Box | None) -> tuple[Deployed, Tensor, int]:
    """``model`` with its checks done, the classes of the inputs ``x`` in ``box``, and how many classes there are."""
    check_inputs(x, box)
    bounded = Bounded(model, tuple(x.shape[1:]))
    return Deployed.of(model, tuple(x.shape[1:])), bounded.predict(x).cpu(), bounded.classes
