"""The true radius of a point: the largest that is proved and the smallest that is broken, closed by bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from radii import progress
from radii.certificates.bounds.bounded import ASSUMPTIONS, Bounded, region_of
from radii.certificates.certificate import Certificate
from radii.certificates.complete.answer import Answer, Limits
from radii.certificates.complete.deployed import Deployed
from radii.certificates.complete.goal import Goal
from radii.certificates.complete.nearest_error import nearest_error
from radii.certificates.complete.verify import decided
from radii.errors import InputError
from radii.models.classifier import check_inputs, predicted_class
from radii.models.model_state import ModelState
from radii.threat import Ball, Box, Norm

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

    def certificate(self, model: nn.Module, norm: Norm) -> Certificate:
        """The proved radii as a certificate of the model as it is now."""
        return Certificate(
            prediction=self.prediction,
            radius=self.proved,
            norm=norm,
            kind="deterministic",
            method="complete",
            assumptions=ASSUMPTIONS,
            state=ModelState.of(model),
        )

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
        deployed: the network.
        x: one input [1, …].
        label: its class.
        classes: of the network.
        ball: Linf or L2, with radius and box.
        limits: of time and regions.
        seed: of the search for a counterexample; None if attacks were tried before.

    Returns:
        The answer; for ``sat`` with an input [1, …] of another class.
    """
    region = region_of(x, ball, torch.float64)
    others = [other for other in range(classes) if other != label]
    matrix = torch.zeros(len(others), classes, dtype=torch.float64)
    matrix[:, label] = 1
    matrix[torch.arange(len(others)), torch.tensor(others)] = -1  # logit_y - logit_c <= 0 is another class, or a tie
    goal = Goal(
        region.lower.flatten(),
        region.upper.flatten(),
        matrix,
        torch.zeros(len(others)).double(),
        torch.arange(len(others)),
        len(others),
        None if region.radius is None else region.center.flatten(),
        region.radius,
    )
    _, answer = decided(deployed, goal, limits, seed)
    if answer.interrupted:
        raise KeyboardInterrupt
    if answer.verdict == "sat" and answer.counterexample is not None:
        point = answer.counterexample[None].view_as(x)
        tie = int(predicted_class(deployed.outputs(answer.counterexample[None]))) == label
        if tie or not bool(ball.contains(point, x).all()):
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
        largest: radii up to this are asked for.
        norm: ``linf`` or ``l2``.
        box: the least and the greatest value of an input.
        seconds: for each input.
        tolerance: ends that are so near, relative to the broken one, are not moved further.
        start: what certificates and attacks found already.
    """
    deployed, prediction, classes = _prepared(model, x, box)
    proved = torch.zeros(len(x)).double() if start is None else start.proved.clone()
    broken = torch.full((len(x),), torch.inf).double() if start is None else start.broken.clone()
    nearest = x.clone() if start is None else start.nearest.clone()
    with progress.task("closing brackets", len(x), "points") as bar:
        for i, label in enumerate(prediction.tolist()):
            if label >= 0:
                known = nearest[i : i + 1].float() if float(broken[i]) < inf else None
                ends = _Ends(float(proved[i]), float(broken[i]), known)
                point = _Point(deployed, x[i : i + 1].float(), label, classes, Ball(norm, largest, box), tolerance)
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
        ends = self._attacked(ends)
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
            ends = self._attacked(ends, answer.suspect)
            wall = inf if ends.high < before else trial  # a tie at the very radius, or too hard
        return ends

    def _seed(self, ends: _Ends) -> int | None:
        """Search by descent only where no error is known: the attack did better elsewhere."""
        return 0 if ends.error is None else None

    def _is_open(self, ends: _Ends) -> bool:
        if ends.low >= self.ball.radius:
            return False
        return ends.high == inf or ends.high - ends.low > self.tolerance * ends.high

    def _attacked(self, ends: _Ends, suspect: Tensor | None = None) -> _Ends:
        """The upper end moved inward by projections from the error that is known, and from random points."""
        known = [point.reshape(1, -1) for point in (ends.error, suspect) if point is not None]
        starts = torch.cat(known) if known else None
        away, error = nearest_error(self.deployed, self.x, self.label, self.ball, starts=starts)
        return replace(ends, high=away, error=error) if away < ends.high else ends

    def _distance(self, error: Tensor) -> float:
        return float(self.ball.distance(self.x.double(), error.double()))


def certify(
    model: nn.Module,
    x: Tensor,
    radii: Sequence[float],
    *,
    norm: Norm = "linf",
    box: Box | None = (0.0, 1.0),
    seconds: float = SECONDS,
) -> Certificate:
    """The largest of ``radii`` at which each prediction is proved by complete verification.

    Args:
        model: a float32 network from inputs to logits.
        x: inputs [n, …] in ``box``; never changed.
        radii: to try, the smallest first; a radius that is not proved ends an input.
        norm: ``linf`` or ``l2``.
        box: the least and the greatest value of an input.
        seconds: for each input and radius.
    """
    if not radii or min(radii) <= 0:
        raise InputError(f"Radii to certify must be positive numbers, got {list(radii)} instead.")
    deployed, prediction, classes = _prepared(model, x, box)
    radius = torch.zeros(len(x), dtype=torch.float64)
    with progress.task("proving completely", len(x), "points") as bar:
        for i, label in enumerate(prediction.tolist()):
            for level in sorted(set(radii)) if label >= 0 else ():
                ball, limits = Ball(norm, level, box), Limits.of_seconds(seconds)
                if decide(deployed, x[i : i + 1].float(), label, classes, ball, limits).verdict != "unsat":
                    break
                radius[i] = level
            bar.advance()
    ends = torch.full_like(radius, inf)
    return RadiusBracket(prediction, radius, ends, x).certificate(model, norm)


def _prepared(model: nn.Module, x: Tensor, box: Box | None) -> tuple[Deployed, Tensor, int]:
    """The network with its checks done, the classes of the inputs, and how many there are."""
    check_inputs(x, box)
    bounded = Bounded(model, tuple(x.shape[1:]))
    return Deployed.of(model, tuple(x.shape[1:])), bounded.predict(x).cpu(), bounded.network.classes
