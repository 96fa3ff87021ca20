"""A small scaling curve for an assessment: proved accuracy on nested parts of the training data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from radii.data.dataset import Data
from radii.errors import InputError
from radii.runs.certification import Certification
from radii.runs.component_specs import DataSpec
from radii.runs.steps import Certify, Train
from radii.runs.store import Run, Store
from radii.studies.scaling_forecast import Forecast, forecast
from radii.studies.study import ScalingCurve
from radii.tables import format_radius
from radii.threat import NORM_NAMES, Ball

PARTS = (8, 4, 2, 1)  # of the train split: four sizes leave three to fit, which can validate a doubling
SEEDS = 2
SHORTER = 2  # eight trainings of half the length cost four whole ones
POINTS = 2000  # of the test split to certify
GAIN = 0.05  # the report asks what five more points need


@dataclass(frozen=True)
class SubsetCurve:
    """The steps of a curve, by size and seed."""

    steps: dict[tuple[int, int], Certify]
    data: Data
    ball: Ball
    name: str

    def measured(self, store: Store) -> ScalingCurve:
        """The curve, once its steps are done."""
        runs = {place: Certification.of(Run(store.folder(step))) for place, step in self.steps.items()}
        shares = {place: own.test.shares[0] for place, own in runs.items()}
        return ScalingCurve(
            self.data.name,
            self.name,
            f"proved accuracy at {NORM_NAMES[self.ball.norm]} {format_radius(self.ball.radius)}",
            len(self.data.classes),
            min(share.total for share in shares.values()),
            tuple({"n": n, "seed": seed, "value": share.value} for (n, seed), share in shares.items()),
        )

    def forecast(self, store: Store) -> Forecast | str:
        """What five more points of proved accuracy need and what a doubling brings, or why nothing can be said.

        The floor is 0: proved accuracy may be below chance where margins are small.
        """
        curve = self.measured(store)
        largest = max(n for n, _ in self.steps)
        reached = [each["value"] for each in curve.observations if each["n"] == largest]
        target = sum(reached) / len(reached) + GAIN
        if target >= 1:
            return f"{target - GAIN:.1%} are proved already: there are no {100 * GAIN:.0f} points to gain."
        try:
            return forecast(curve, target, factors=(2.0, 4.0), floor=0.0)[0]
        except InputError as refusal:
            return str(refusal)


def subset_curve(training: Train, data: Data, ball: Ball, name: str) -> SubsetCurve | None:
    """The plan of a scaling curve: nested parts of the training data, equal optimizer steps.

    Every training has half the steps of ``training``, whatever its size, so
    that sizes differ in data and not in compute.

    Returns:
        None if the data is too small.
    """
    if len(data.train) // max(PARTS) < 2 * len(data.classes):
        return None
    whole = training.recipe.length(math.ceil(len(data.train) / training.recipe.batch_size))
    recipe = training.recipe.model_copy(update={"epochs": 1, "steps": max(1, whole // SHORTER)})
    # intervals prove Linf balls; margins prove the L2 ball, which for L1 has the same radius
    how: dict[str, Any] = {"norm": "linf", "method": "ibp"} if ball.norm == "linf" else {}
    steps = {}
    for part in PARTS:
        n = len(data.train) // part
        own = training.data if part == 1 else DataSpec.of(f"{training.data.source}+subset:{n}")
        for seed in range(training.seed, training.seed + SEEDS):
            shorter = training.model_copy(update={"data": own, "recipe": recipe, "seed": seed})
            # points are those of one choice for all sizes and seeds
            steps[n, seed] = Certify(
                model=shorter, data=own, radii=(ball.radius,), points=POINTS, seed=training.seed, **how
            )
    return SubsetCurve(steps, data, ball, name)
