"""The true radius of a point: the largest that is proved and the smallest that is broken, closed by bisection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from radii import progress
from radii.certificates.bounds.bounded import ASSUMPTIONS, Bounded, region_of
from radii.certificates.certificate import Certificate
from radii.certificates.complete.answer import Limits, Verdict
from radii.certificates.complete.goal import Goal
from radii.certificates.complete.verify import Deployed, decided
from radii.errors import InputError
from radii.models.classifier import check_inputs, predicted_class
from radii.models.model_state import ModelState
from radii.threat import Ball, Box, Norm

SECONDS = 60.0
TOLERANCE = 0.01  # relative to the broken radius
CUTS = (0.75, 0.5, 0.25)  # where a bracket is cut, after so many radii that could not be decided
Decide = Callable[[float, float], tuple[Verdict, Tensor | None]]


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
) -> tuple[Verdict, Tensor | None]:
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
        The verdict, and for ``sat`` an input [1, …] of another class.
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
    if answer.verdict == "sat" and answer.counterexample is not None:
        point = answer.counterexample[None].view_as(x)
        tie = int(predicted_class(deployed.outputs(answer.counterexample[None]))) == label
        return ("unknown", None) if tie or not bool(ball.contains(point, x).all()) else ("sat", point)
    return answer.verdict, None


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
    """The largest proved and the smallest broken radius of each input, by bisection.

    A radius just below the broken one is tried first: where attacks are good, its proof closes the bracket.

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
                point, limits = x[i : i + 1].float(), Limits.of_seconds(seconds)
                seed = 0 if start is None else None

                def ask(
                    radius: float, share: float, point: Tensor = point, label: int = label, limits: Limits = limits,
                    seed: int | None = seed,
                ) -> tuple[Verdict, Tensor | None]:  # fmt: skip
                    some = Limits.of_seconds(limits.left() * share)
                    return decide(deployed, point, label, classes, Ball(norm, radius, box), some, seed)

                ball, ends = Ball(norm, largest, box), (float(proved[i]), float(broken[i]))
                low, high, met = _closed(ask, *ends, ball, point, tolerance, limits)
                proved[i], broken[i] = low, high
                nearest[i] = nearest[i] if met is None else met[0]
            bar.advance()
    return RadiusBracket(prediction, proved, broken, nearest)


def _closed(
    ask: Decide, low: float, high: float, ball: Ball, x: Tensor, tolerance: float, limits: Limits
) -> tuple[float, float, Tensor | None]:
    """The bracket of one input after its time, and the nearest input of another class that was found."""
    misses, met = 0, None
    while limits.left() > 0 and low < ball.radius and (high == inf or high - low > tolerance * high):
        top = min(high, ball.radius)
        trial = top if high > ball.radius else high * (1 - 0.9 * tolerance)
        trial = trial if misses == 0 else low + (top - low) * CUTS[misses - 1]
        verdict, point = ask(trial, 0.5)
        if verdict == "unsat":
            low = trial
        elif point is not None:
            high, met = min(trial, float(ball.distance(x.double(), point.double()))), point
        else:
            misses += 1  # a tie at the very radius, or too hard: try a smaller one
            if misses > len(CUTS):
                break
    return low, high, met


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
                if decide(deployed, x[i : i + 1].float(), label, classes, ball, limits)[0] != "unsat":
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
