"""Evaluations side by side: the figures of each on the same points, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.change import Threat
from radii.errors import InputError, brief
from radii.evaluation.accuracy import accuracy
from radii.evaluation.paired import PairedDifference, paired_difference, unlike_attacks, unlike_certificates
from radii.evaluation.scores import Scores
from radii.tables import Field, Table, Tabular, table

SHARES = ("clean", "proved", "unbroken")


@dataclass(frozen=True)
class Comparison(Tabular):
    """Several evaluations of the same points; differences are to the first.

    Attributes:
        scores: of the points, by name.
        attacks: what each model met, by name.
        certificates: the methods that proved points of each model, by name.
        differences: of every later one to the first, by name and share; only of shares that were measured alike.
        ball: the threat.
        dataset: whose points they are.
    """

    scores: Mapping[str, Scores]
    attacks: Mapping[str, str]
    certificates: Mapping[str, str]
    differences: Mapping[str, Mapping[str, PairedDifference]]
    ball: Threat
    dataset: str

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


@dataclass(frozen=True)
class Effort:
    """What was tried on one model; equal words mean equal efforts."""

    attacks: str
    certificate: str  # the methods that proved points
    proofs: tuple[bool, float]  # whether proofs were tried, and seconds a point of complete verification

    def measures_like(self, other: Effort, share: str) -> bool:
        """Whether a difference of this share is one of the models, not of the effort."""
        if share == "unbroken":
            return self.attacks == other.attacks
        return share == "clean" or self.proofs == other.proofs


def differences_of(
    scores: Mapping[str, Scores], efforts: Mapping[str, Effort]
) -> dict[str, dict[str, PairedDifference]]:
    """Of every later one of ``scores`` to the first, by name and share; only of shares that were measured alike."""
    first, *others = scores
    base = successes(scores[first])
    return {
        name: {
            share: paired_difference(base[share], now)
            for share, now in successes(scores[name]).items()
            if efforts[name].measures_like(efforts[first], share)
        }
        for name in others
    }


def compare_scores(scores: Mapping[str, Scores]) -> Comparison:
    """:func:`radii.compare` for results of :func:`radii.evaluate` on the same points, by name."""
    if len(scores) < 2:
        raise InputError(f"A comparison needs at least two evaluations, got {len(scores)}.")
    first = next(iter(scores))
    for name, own in scores.items():
        if not isinstance(own, Scores):
            raise InputError(f"Evaluations to compare must be results of radii.evaluate, got {brief(own)} as {name!r}.")
        for what, ours, theirs in (
            ("the number of points", len(scores[first].points.label), len(own.points.label)),
            ("the labels", scores[first].points.label.tolist(), own.points.label.tolist()),
            ("the threat", str(scores[first].ball), str(own.ball)),
        ):
            if ours != theirs:
                raise InputError(
                    f"{first!r} and {name!r} differ in {what}; only evaluations of the same can be compared."
                )
        kept = ~scores[first].points.broken & ~own.points.broken  # there both have the clean inputs
        if not np.array_equal(scores[first].x_adv.cpu().numpy()[kept], own.x_adv.cpu().numpy()[kept]):
            raise InputError(f"{first!r} and {name!r} differ in the inputs; only like evaluations can be compared.")
    efforts = {
        name: Effort(own.attacks, own.certificate_method or "none", (own.certificate_method is not None, 0.0))
        for name, own in scores.items()
    }
    return Comparison(
        dict(scores),
        {name: effort.attacks for name, effort in efforts.items()},
        {name: effort.certificate for name, effort in efforts.items()},
        differences_of(scores, efforts),
        scores[first].ball,
        "points given in Python",
    )
