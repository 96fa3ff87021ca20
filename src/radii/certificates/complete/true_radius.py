"""The true Linf radius of a point: the largest that is proved and the smallest that is broken, closed by bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from radii.models.fingerprint import ModelState
from radii.threat import Ball, Box

SECONDS = 60.0
CUTS = (0.5, 0.53, 0.44)  # where a bracket is cut, after so many radii that could not be decided


@dataclass(frozen=True)
class RadiusBracket:
    """proved[i] <= true radius of input i <= broken[i], both [n] float64; broken is inf where nothing was found.

    ``prediction`` is the class [n] whose radius it is, -1 for NaN.
    """

    prediction: Tensor
    proved: Tensor
    broken: Tensor

    def known(self, tolerance: float = 0.01) -> Tensor:
        """Where both ends differ by at most ``tolerance``, relative to the broken radius: [n] bool."""
        return self.broken - self.proved <= tolerance * self.broken


def decide(deployed: Deployed, x: Tensor, label: int, classes: int, ball: Ball, seconds: float) -> Verdict:
    """Whether some input of the Linf ball around ``x`` has another class: ``unsat`` if none, proved.

    Args:
        deployed: the network.
        x: one input [1, …].
        label: its class.
        classes: of the network.
        ball: norm, radius and box.
        seconds: the time limit.
    """
    region = region_of(x, ball, torch.float64)
    others = [other for other in range(classes) if other != label]
    matrix = torch.zeros(len(others), classes, dtype=torch.float64)
    matrix[:, label] = 1
    matrix[torch.arange(len(others)), torch.tensor(others)] = -1  # logit_y - logit_c <= 0 is another class, or a tie
    low, high = region.lower.flatten(), region.upper.flatten()
    goal = Goal(low, high, matrix, torch.zeros(len(others)).double(), torch.arange(len(others)), len(others))
    _, answer = decided(deployed, goal, Limits.of_seconds(seconds), 0)
    if answer.verdict == "sat" and answer.counterexample is not None:
        point = answer.counterexample[None]
        tie = int(predicted_class(deployed.outputs(point))) == label
        inside = bool(ball.contains(point.view_as(x), x).all())
        return "unknown" if tie or not inside else "sat"
    return answer.verdict


def true_radii(
    model: nn.Module,
    x: Tensor,
    largest: float,
    *,
    box: Box | None = (0.0, 1.0),
    seconds: float = SECONDS,
    tolerance: float = 0.01,
) -> RadiusBracket:
    """The largest proved and the smallest broken Linf radius of each input, by bisection.

    Args:
        model: a float32 network from inputs to logits.
        x: inputs [n, …] in ``box``; never changed.
        largest: radii up to this are asked for.
        box: the least and the greatest value of an input.
        seconds: for each input.
        tolerance: ends that are so near, relative to the broken one, are not halved further.
    """
    deployed, prediction, classes = _prepared(model, x, box)
    proved, broken = torch.zeros(len(x)).double(), torch.full((len(x),), torch.inf).double()
    with progress.task("closing brackets", len(x), "points") as bar:
        for i, label in enumerate(prediction.tolist()):
            limits, low, high, trial, misses = Limits.of_seconds(seconds), 0.0, float("inf"), largest, 0
            while label >= 0 and limits.left() > 0:
                verdict = decide(deployed, x[i : i + 1], label, classes, Ball("linf", trial, box), limits.left())
                if verdict == "unsat":
                    low = trial
                elif verdict == "sat":
                    high = trial
                else:
                    misses += 1  # a tie at the very radius, or too hard: try beside it
                if misses == len(CUTS) or low >= largest or high - low <= tolerance * high:
                    break
                trial = low + (min(high, largest) - low) * CUTS[misses]
            proved[i], broken[i] = low, high
            bar.advance()
    return RadiusBracket(prediction, proved, broken)


def certify(
    model: nn.Module, x: Tensor, radii: Sequence[float], *, box: Box | None = (0.0, 1.0), seconds: float = SECONDS
) -> Certificate:
    """The largest of ``radii`` at which each prediction is proved in Linf, by complete verification.

    Args:
        model: a float32 network from inputs to logits.
        x: inputs [n, …] in ``box``; never changed.
        radii: to try, the smallest first; a radius that is not proved ends an input.
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
                if decide(deployed, x[i : i + 1], label, classes, Ball("linf", level, box), seconds) != "unsat":
                    break
                radius[i] = level
            bar.advance()
    return Certificate(
        prediction=prediction,
        radius=radius,
        norm="linf",
        kind="deterministic",
        method="complete",
        assumptions=ASSUMPTIONS,
        state=ModelState.of(model),
    )


def _prepared(model: nn.Module, x: Tensor, box: Box | None) -> tuple[Deployed, Tensor, int]:
    """The network with its checks done, the classes of the inputs, and how many there are."""
    check_inputs(x, box)
    bounded = Bounded(model, tuple(x.shape[1:]))
    return Deployed.of(model, tuple(x.shape[1:])), bounded.predict(x).cpu(), bounded.network.classes
