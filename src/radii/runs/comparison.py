"""Evaluation runs side by side: the figures of each on the points they share, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.change import Threat
from radii.errors import InputError
from radii.evaluation.accuracy import accuracy
from radii.evaluation.paired import PairedDifference, paired_difference, unlike_attacks, unlike_certificates
from radii.evaluation.scores import Scores
from radii.runs.component_specs import DataSpec
from radii.runs.step import Step, from_json
from radii.runs.steps.evaluate_step import Evaluate, load_scores
from radii.runs.store import Run
from radii.tables import Field, Table, table

SHARES = ("clean", "proved", "unbroken")


@dataclass(frozen=True)
class RunComparison:
    """Several evaluations on the points that all of them have; differences are to the first.

    Attributes:
        scores: on the common points, by name.
        attacks: what each model met, by name.
        certificates: the methods that proved points of each model, by name.
        differences: of every later one to the first, by name and share; only of shares that were measured alike.
        data: as its first run names it.
        ball: the threat.
        split: of the data.
        rows: of the split, the common points.
        runs: ids by name.
    """

    scores: Mapping[str, Scores]
    attacks: Mapping[str, str]
    certificates: Mapping[str, str]
    differences: Mapping[str, Mapping[str, PairedDifference]]
    data: DataSpec
    ball: Threat
    split: str
    rows: NDArray[np.int64]
    runs: Mapping[str, str]

    @property
    def dataset(self) -> str:
        """The data as its first run names it."""
        return self.data.source

    @property
    def first(self) -> str:
        """The name of the model with which the others are compared."""
        return next(iter(self.scores))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not alike in these runs."""
        return (*unlike_attacks(self.attacks), *unlike_certificates(self.certificates))

    def table(self) -> Table:
        """What each model met, and its shares with exact 95% intervals."""
        rows = []
        for name, own in self.scores.items():
            row: dict[str, Any] = {"model": name, "attacks": self.attacks[name]}
            for share, success in successes(own).items():
                value = accuracy(success)
                row |= {share: value.value, **value.ends(share)}
            rows.append(row)
        count = len(next(iter(self.scores.values())).points.label)
        fields = [Field(share, percent=True, low=f"{share}_low", high=f"{share}_high") for share in SHARES]
        return table(
            rows, ["model", *fields, "attacks"], f"{self.dataset}, threat {self.ball}, {count:,} common points"
        )

    def difference_table(self) -> Table:
        """Paired differences to the first run: McNemar's exact test and the 95% intervals that agree with it."""
        rows = [
            {"model": name, "share": share, "difference": own.value, **vars(own)}
            for name, shares in self.differences.items()
            for share, own in shares.items()
        ]
        fields: list[Field | str] = [
            "model",
            "share",
            Field("difference", points=True, low="low", high="high"),
            "lost",
            "won",
            Field("p_value", "chance alone (p)"),
        ]
        note = (
            "Lost: points on which only the first model succeeds (is right, proved right or unbroken); won: points on "
            "which only the other one does. The 95% interval excludes 0 exactly where p < 0.05."
        )
        return table(rows, fields, f"Difference to {self.first}, in percentage points (pp)", note)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "dataset": self.dataset,
            "threat": str(self.ball),
            "warnings": list(self.warnings),
            "attacks": dict(self.attacks),
            "certificates": dict(self.certificates),
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

    Shares of unbroken points are compared only where both models met the same attacks, shares of proved points only
    where proofs were tried alike.
    """
    if len(runs) < 2:
        raise InputError(f"A comparison needs at least two runs, got {len(runs)}.")
    steps = [_evaluation(run) for run in runs]
    _check_alike(runs, steps)
    labels = [short_label(step) for step in steps]
    names = [
        label if labels.count(label) == 1 else f"{label} ({run.id[-6:]})"
        for label, run in zip(labels, runs, strict=True)
    ]
    restricted, rows = _on_common_points(runs)
    scores = dict(zip(names, restricted, strict=True))
    efforts = {
        name: Effort.of(step, scores[name].attacks, scores[name].certificate_method)
        for name, step in zip(names, steps, strict=True)
    }
    base, base_effort = successes(scores[names[0]]), efforts[names[0]]
    differences = {
        name: {
            share: paired_difference(base[share], now)
            for share, now in successes(scores[name]).items()
            if efforts[name].measures_like(base_effort, share)
        }
        for name in names[1:]
    }
    return RunComparison(
        scores,
        {name: effort.attacks for name, effort in efforts.items()},
        {name: effort.certificate for name, effort in efforts.items()},
        differences,
        steps[0].data,
        steps[0].ball,
        steps[0].split,
        rows,
        dict(zip(names, (run.id for run in runs), strict=True)),
    )


@dataclass(frozen=True)
class Effort:
    """What was tried on one model; equal words mean equal efforts."""

    attacks: str
    certificate: str  # the methods that proved points
    proofs: tuple[bool, float]  # whether proofs were tried, and seconds a point of complete verification

    @classmethod
    def of(cls, step: Evaluate, attacks: str, method: str | None) -> Effort:
        """Of an evaluation.

        Args:
            attacks: the suite and what was tried beside it.
            method: the certificate; None where nothing is proved.
        """
        other = step.surrogate
        surrogate = "" if other is None else f" from {other.label} ({other.content_hash()[:6]})"
        complete = f" + complete, {step.complete:g} s a point" if step.complete else ""
        certificate = (method or "none") if step.certify else "not tried"
        return cls(attacks + surrogate + complete, certificate, (step.certify, step.complete))

    def measures_like(self, other: Effort, share: str) -> bool:
        """Whether a difference of this share is one of the models, not of the effort."""
        if share == "unbroken":
            return self.attacks == other.attacks
        return share == "clean" or self.proofs == other.proofs


def short_label(step: Evaluate) -> str:
    """The name of the model, without the data where that is said anyway: ``mlp by natural``."""
    label = step.model.label
    return label.replace(f" on {step.data.source}", "", 1) if isinstance(step.model, Step) else label


def _evaluation(run: Run) -> Evaluate:
    step = from_json(run.spec)
    if not isinstance(step, Evaluate):
        raise InputError(f"{run.id} is no evaluation; radii evaluate makes one.")
    return step


def _check_alike(runs: Sequence[Run], steps: Sequence[Evaluate]) -> None:
    """Refuse runs on other data, under another threat or on another split than the first."""
    first = steps[0]
    for run, step in zip(runs, steps, strict=True):
        for what, ours, theirs in (
            ("data", first.data.content_hash(), step.data.content_hash()),
            ("the threat", str(first.ball), str(step.ball)),
            ("the split", first.split, step.split),
        ):
            if ours != theirs:
                raise InputError(f"{runs[0].id} and {run.id} differ in {what}; only like runs can be compared.")


def _on_common_points(runs: Sequence[Run]) -> tuple[list[Scores], NDArray[np.int64]]:
    """The scores of each run on the points that all of them have, and the rows of these points."""
    loaded = [load_scores(run) for run in runs]
    common = reduce(np.intersect1d, [rows for _, rows in loaded])
    if not len(common):
        raise InputError("The runs have no point in common; evaluate them with one seed and equal --points.")
    return [_restricted(own, np.searchsorted(rows, common)) for own, rows in loaded], common


def _restricted(scores: Scores, places: NDArray[np.int64]) -> Scores:
    """The scores of some of the points."""
    return replace(scores, points=scores.points.take(places), x_adv=scores.x_adv[places])
