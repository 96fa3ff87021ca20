"""Evaluation runs side by side: the figures of each on the points they share, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.evaluation.accuracy import accuracy
from radii.evaluation.paired import PairedDifference, paired_difference
from radii.evaluation.scores import PointTable, Scores
from radii.runs.score_files import ARRAYS, load_scores
from radii.runs.step import from_json
from radii.runs.steps.evaluate_step import Evaluate
from radii.runs.store import Run
from radii.tables import Field, Table, table
from radii.threat import Ball

SHARES = ("clean", "proved", "unbroken")


@dataclass(frozen=True)
class RunComparison:
    """Several evaluations on the points that all of them have; differences are to the first.

    Attributes:
        scores: on the common points, by name.
        differences: of every later one to the first, by name and share.
        dataset: the data as its first run names it.
        ball: the threat.
    """

    scores: Mapping[str, Scores]
    differences: Mapping[str, Mapping[str, PairedDifference]]
    dataset: str
    ball: Ball

    def table(self) -> Table:
        """The shares of each run with exact 95% intervals."""
        rows = []
        for name, own in self.scores.items():
            row: dict[str, Any] = {"model": name}
            for share, success in successes(own).items():
                value = accuracy(success)
                row |= {share: value.value, **value.ends(share)}
            rows.append(row)
        count = len(next(iter(self.scores.values())).points.label)
        fields = [Field(share, percent=True, low=f"{share}_low", high=f"{share}_high") for share in SHARES]
        return table(rows, ["model", *fields], f"{self.dataset}, threat {self.ball}, {count:,} common points")

    def difference_table(self) -> Table:
        """Paired differences to the first run: Newcombe's 95% intervals and McNemar's exact test."""
        first = next(iter(self.scores))
        rows = [
            {"model": name, "share": share, "difference": own.value, **vars(own)}
            for name, shares in self.differences.items()
            for share, own in shares.items()
        ]
        fields: list[Field | str] = [
            "model",
            "share",
            Field("difference", percent=True, low="low", high="high"),
            "lost",
            "won",
            Field("p_value", "chance alone (p)"),
        ]
        note = "Lost: points that only the first has; won: points that only the other has."
        return table(rows, fields, f"Difference to {first}, in points of a hundred", note)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "dataset": self.dataset,
            "threat": str(self.ball),
            "runs": {name: own.summary() for name, own in self.scores.items()},
            "differences": {
                name: {share: own.to_dict() for share, own in shares.items()}
                for name, shares in self.differences.items()
            },
        }


def successes(scores: Scores) -> dict[str, NDArray[np.bool_]]:
    """Which points are right, proved right and unbroken, by ``scores``."""
    points = scores.points
    return dict(zip(SHARES, (points.correct, points.proved & points.correct, ~points.broken), strict=True))


def compare(runs: Sequence[Run]) -> RunComparison:
    """Compare evaluation runs on the points that all of them have.

    Args:
        runs: two or more evaluations on one dataset under one threat.

    Raises:
        InputError: fewer than two, another kind of run, other data, another threat, or no common point.
    """
    if len(runs) < 2:
        raise InputError(f"A comparison needs at least two runs, got {len(runs)}.")
    steps = [_evaluation(run) for run in runs]
    first = steps[0]
    for run, step in zip(runs, steps, strict=True):
        for what, ours, theirs in (
            ("data", first.data.content_hash(), step.data.content_hash()),
            ("the threat", str(first.ball), str(step.ball)),
            ("the split", first.split, step.split),
        ):
            if ours != theirs:
                raise InputError(f"{runs[0].id} and {run.id} differ in {what}; only like runs can be compared.")
    loaded = [load_scores(run) for run in runs]
    common = loaded[0][1]
    for _, rows in loaded[1:]:
        common = np.intersect1d(common, rows)
    if not len(common):
        raise InputError("The runs have no point in common; evaluate them with one seed and equal --points.")
    labels = [step.model.label for step in steps]
    names = [
        label if labels.count(label) == 1 else f"{label} ({run.id[-6:]})"
        for label, run in zip(labels, runs, strict=True)
    ]
    scores = {
        name: _restricted(own, np.searchsorted(rows, common)) for name, (own, rows) in zip(names, loaded, strict=True)
    }
    base = successes(scores[names[0]])
    differences = {
        name: {share: paired_difference(base[share], now) for share, now in successes(scores[name]).items()}
        for name in names[1:]
    }
    return RunComparison(scores, differences, first.data.source, first.ball)


def _evaluation(run: Run) -> Evaluate:
    step = from_json(run.spec)
    if not isinstance(step, Evaluate):
        raise InputError(f"{run.id} is no evaluation; radii evaluate makes one.")
    return step


def _restricted(scores: Scores, places: NDArray[np.int64]) -> Scores:
    """The scores of some of the points."""
    points = scores.points
    arrays: dict[str, Any] = {name: getattr(points, name)[places] for name in ARRAYS}
    broken_by = tuple(points.broken_by[place] for place in places)
    return replace(scores, points=PointTable(broken_by=broken_by, **arrays), x_adv=scores.x_adv[places])
