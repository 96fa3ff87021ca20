"""Scores: the results of an evaluation, per point and in total, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from radii.attacks.caveats import Alarm, SurvivorBound
from radii.change import Threat
from radii.evaluation.accuracy import (
    BOUNDS,
    ROBUST_ACCURACY,
    Accuracy,
    Bracket,
    CurvePoint,
    accuracy,
    accuracy_curve,
    bracket,
    comparing,
    curve_rows,
    radius_quantile,
)
from radii.tables import ChartSpec, Field, Row, Table, Tabular, listing, plain, table

MINIMUM_NORM = "minimum-norm"  # the attack that searches at every distance
EXACT = "exact"  # and the one that knows the nearest error, of some kinds of models
CLASS_INTERVALS = "Two classes whose intervals do not overlap differ, with 95% confidence for the whole table."
CLASS_SHARES = ("clean", "proved", "unbroken")
BESIDE = ("transfer", MINIMUM_NORM, EXACT)  # attacks that an evaluation adds to its suite


@dataclass(frozen=True)
class PointTable:
    """One row per point."""

    label: NDArray[np.int64]
    prediction: NDArray[np.int64]  # of the clean input
    adversarial_prediction: NDArray[np.int64]  # of x_adv
    proved_radius: NDArray[np.float64]  # of the prediction, whatever the label; 0: nothing proved
    proved: NDArray[np.bool_]  # the prediction is proved on the whole ball
    changed: NDArray[np.bool_]  # an attack in the ball changed the prediction
    changed_radius: NDArray[np.float64]  # distance of the nearest known input with another prediction; inf: none
    broken_by: tuple[str, ...]
    queries: NDArray[np.int64]
    proved_by: tuple[str, ...] = ()  # the method of each proof, "" where nothing is proved; runs of before have none

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Clean correct."""
        return self.prediction == self.label

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Misclassified, clean or attacked within the ball."""
        return ~self.correct | self.changed

    @property
    def broken_radius(self) -> NDArray[np.float64]:
        """Distance of the nearest known misclassified input: 0 for misclassified points."""
        return np.where(self.correct, self.changed_radius, 0.0)

    def take(self, places: NDArray[np.int64]) -> PointTable:
        """The rows at ``places``."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        words = {name: own for name, own in columns.items() if isinstance(own, tuple)}
        taken: dict[str, Any] = {name: tuple(own[k] for k in places) if own else () for name, own in words.items()}
        return PointTable(**{name: taken[name] if name in words else own[places] for name, own in columns.items()})

    def records(self) -> list[dict[str, Any]]:
        """The table as JSON data; an infinite radius (never broken) is None."""
        return [
            {
                "point": i,
                "label": int(self.label[i]),
                "prediction": int(self.prediction[i]),
                "adversarial_prediction": int(self.adversarial_prediction[i]),
                "correct": bool(self.correct[i]),
                "proved_radius": float(self.proved_radius[i]),
                "proved": bool(self.proved[i]),
                "proved_by": self.proved_by[i] if self.proved_by else None,
                "broken": bool(self.broken[i]),
                "broken_radius": float(self.broken_radius[i]) if np.isfinite(self.broken_radius[i]) else None,
                "broken_by": self.broken_by[i] if self.correct[i] else "clean",
                "queries": int(self.queries[i]),
            }
            for i in range(len(self.label))
        ]


@dataclass(frozen=True)
class ClassScores:
    """The points of one class; ``median_proved_radius`` counts wrongly classified points as 0."""

    label: int
    clean: Accuracy
    robust: Bracket
    median_proved_radius: float

    @property
    def strength(self) -> tuple[float, float, float]:
        """By which classes are ordered: proved share, unbroken share, median proved radius."""
        return self.robust.proved.value, self.robust.unbroken.value, self.median_proved_radius

    def summary(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "class": self.label,
            "points": self.clean.total,
            "clean": self.clean.summary(),
            "robust": self.robust.summary(),
        }


@dataclass(frozen=True, repr=False)
class Scores(Tabular):
    """The evaluation of one model on one set of points."""

    ball: Threat
    suite: str
    seed: int
    points: PointTable
    passes: dict[str, int]  # images through the network per attack, forward and backward
    x_adv: Tensor  # [n, …] the worst known input in the ball; the clean input where no attack succeeds
    certificate_method: str | None = None
    notes: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()  # reasons to doubt the unbroken end
    survivor_bound: SurvivorBound | None = None  # of the suite ``sampled``
    local_lipschitz: float | None = None  # mean lower bound over the points (Yang et al. 2020)

    @property
    def clean(self) -> Accuracy:
        """Clean accuracy."""
        return accuracy(self.points.correct)

    @property
    def robust(self) -> Bracket:
        """Robust accuracy between proved and unbroken."""
        return bracket(self.points.proved & self.points.correct, self.points.broken)

    @property
    def stable(self) -> Bracket:
        """Robustness with respect to predictions (Ding et al. 2019): points whose prediction, right or
        wrong, does not change in the ball."""
        return bracket(self.points.proved, self.points.changed)

    @property
    def attacks(self) -> str:
        """The suite and what was tried beside it: ``standard + minimum-norm``."""
        return " + ".join([self.suite, *(name for name in BESIDE if name in self.passes)])

    @property
    def attacked_beyond(self) -> bool:
        """Whether errors outside the ball were looked for, too."""
        return MINIMUM_NORM in self.passes or EXACT in self.passes

    @property
    def proved_beyond(self) -> bool:
        """Whether every proof says how far it goes; one that was made for the ball ends exactly at its radius."""
        return self.certificate_method is not None and not (self.points.proved_radius == self.ball.radius).any()

    def curve(self, radii: Sequence[float] | None = None) -> tuple[CurvePoint, ...]:
        """Robust accuracy over the radius; by default on :func:`~radii.evaluation.curves.radius_grid`.

        At the ball's radius it is :attr:`robust`, which also knows what rounding does at the edge of the ball.
        """
        if radii is None:
            from radii.evaluation.curves import radius_grid

            radii = radius_grid([self])
        proved = np.where(self.points.correct, self.points.proved_radius, 0.0)
        curve = accuracy_curve(proved, self.points.broken_radius, radii)
        return tuple(replace(own, bracket=self.robust) if 0 < own.radius == self.ball.radius else own for own in curve)

    def curve_rows(self, radii: Sequence[float] | None = None, **labels: str) -> list[Row]:
        """:meth:`curve` as tidy rows with ``labels``; both ends, each as far as proofs and attacks were tried."""
        beyond = {"proved": self.proved_beyond, "unbroken": self.attacked_beyond}
        return [
            row
            for row in curve_rows(self.curve(radii), BOUNDS, **labels)
            if (row["bound"] == "unbroken" or self.certificate_method is not None)
            and (row["radius"] <= self.ball.radius or beyond[row["bound"]])
        ]

    def per_class(self) -> tuple[ClassScores, ...]:
        """The scores of every class that occurs."""
        points, scores = self.points, []
        for label in np.unique(points.label):
            own = points.label == label
            robust = bracket((points.proved & points.correct)[own], points.broken[own])
            median = radius_quantile(points.proved_radius[own], points.correct[own])
            scores.append(ClassScores(int(label), accuracy(points.correct[own]), robust, median))
        return tuple(scores)

    def radius_known(self, tolerance: float = 0.01) -> Accuracy:
        """The share of points whose prediction's proved and broken radius differ by at most ``tolerance`` of it."""
        broken = self.points.changed_radius
        return accuracy(np.isfinite(broken) & (broken - self.points.proved_radius <= tolerance * broken))

    def radius_quantiles(self, bound: Literal["proved", "broken"] = "broken") -> dict[str, float | None]:
        """Quantiles of the broken or proved radius by :func:`radius_quantile`; None: no error is known.

        Over all points; a wrongly classified point counts 0.
        """
        names = {"5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95}
        return {name: plain(self._quantile(bound, share)) for name, share in names.items()}

    def median_radius(self, bound: Literal["proved", "broken"]) -> float:
        """The median of the proved or broken radius over all points; a wrongly classified point counts 0."""
        return self._quantile(bound, 0.5)

    def _quantile(self, bound: Literal["proved", "broken"], share: float) -> float:
        radius = self.points.broken_radius if bound == "broken" else self.points.proved_radius
        return radius_quantile(radius, self.points.correct, share)

    def table(self, title: str = "") -> Table:
        """The figures in a few lines, under ``title``."""
        shares = {
            "clean accuracy": self.clean,
            "robust accuracy, proved at least": self.robust.proved,
            "robust accuracy, unbroken at most": self.robust.unbroken,
            "robust to predictions, unbroken at most": self.stable.unbroken,
        }
        median = self.median_radius("broken")
        lines: list[tuple[str, object]] = [
            *shares.items(),
            ("broken radius, median", f"{median:.4g}" if np.isfinite(median) else "no error known"),
            *([("true radius known to 1%", known)] if (known := self.radius_known()).correct else []),
            ("passes through the network", f"{sum(self.passes.values()):,}"),
        ]
        if self.local_lipschitz is not None:
            lines.append(("local Lipschitz constant, at least", f"{self.local_lipschitz:.4g}"))
        return listing(title, ("", "value [95% interval]"), lines)

    def __repr__(self) -> str:
        proved, unbroken = self.robust.proved.value, self.robust.unbroken.value
        return (
            f"Scores({self.ball}, {len(self.points.label)} points: clean {self.clean.value:.1%}, "
            f"robust {proved:.1%} to {unbroken:.1%})"
        )

    def to_frame(self) -> Any:
        """The points as a pandas DataFrame, a row for each.

        Raises:
            InputError: pandas is not installed.
        """
        return table(self.points.records(), ["point"]).to_frame()

    def curve_table(self, radii: Sequence[float] | None = None) -> Table:
        """Robust accuracy over the radius as a table: both ends of the bracket with their intervals.

        Args:
            radii: by default round ones as far as attacks and proofs were tried, and the ball's.
        """
        return table(self.curve_rows(radii), [Field("radius", radius=True), "bound", ROBUST_ACCURACY])

    def plot(self, name: str = "the model") -> ChartSpec:
        """Robust accuracy over the radius as a chart; notebooks draw it, ``radii.report.charts.save`` writes it.

        Args:
            name: of the model, for the title.
        """
        from radii.evaluation.curves import curve_chart

        return curve_chart({name: self}, name, "model")

    def class_table(self, names: Sequence[str], title: str = "Per class") -> Table:
        """The scores class by class, under ``names``; two classes whose intervals do not overlap differ."""
        classes, rows = self.per_class(), []
        level = comparing(len(classes), len(CLASS_SHARES))
        for own in classes:
            shares = {"clean": own.clean, "proved": own.robust.proved, "unbroken": own.robust.unbroken}
            row: dict[str, Any] = {"class": names[own.label], "points": own.clean.total}
            for name, share in shares.items():
                row |= {name: share.value, **share.ends(name, level)}
            rows.append(row | {"radius": own.median_proved_radius})
        fields = [Field(name, percent=True, low=f"{name}_low", high=f"{name}_high") for name in CLASS_SHARES]
        radius = Field("radius", "median proved radius", toward="down")
        return table(rows, ["class", "points", *fields, radius], title, CLASS_INTERVALS)

    def weakest_classes(self) -> tuple[ClassScores, ...]:
        """The classes of which chance alone may make any the weakest, the lowest first.

        Classes are ordered by their proved share, then by their unbroken share, then by their median proved radius.
        A class is left out if its interval in :meth:`class_table` lies above that of the lowest, of either share. Of
        classes with equal shares, some are left out in at most 5% of the samples.
        """
        classes = sorted(self.per_class(), key=lambda own: own.strength)
        level, lowest = comparing(len(classes), len(CLASS_SHARES)), classes[0].robust
        limits = [share.ends(confidence=level)["high"] for share in (lowest.proved, lowest.unbroken)]
        return tuple(
            own
            for own in classes
            if own.robust.proved.ends(confidence=level)["low"] <= limits[0]
            and own.robust.unbroken.ends(confidence=level)["low"] <= limits[1]
        )

    def summary(self) -> dict[str, Any]:
        """Everything but the points, as JSON data."""
        return {
            "threat": str(self.ball),
            "suite": self.suite,
            "seed": self.seed,
            "points": len(self.points.label),
            "clean": self.clean.summary(),
            "robust": self.robust.summary(),
            "robust_to_predictions": self.stable.summary(),
            "certificate": self.certificate_method,
            "proved_radius": self.radius_quantiles("proved"),
            "broken_radius": self.radius_quantiles("broken"),
            "radius_known": self.radius_known().summary(),
            "per_class": [own.summary() for own in self.per_class()],
            "passes": {**self.passes, "all": int(sum(self.passes.values()))},
            "local_lipschitz": self.local_lipschitz,
            "survivor_bound": None if self.survivor_bound is None else asdict(self.survivor_bound),
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class SplitScores:
    """The same evaluation on train and test points; a large gap shows memorization (Yang et al. 2020)."""

    train: Scores
    test: Scores

    @property
    def gaps(self) -> dict[str, float | None]:
        """Train minus test: of clean, proved and unbroken accuracy, stability and the Lipschitz constant."""
        pairs = {
            "clean": (self.train.clean.value, self.test.clean.value),
            "proved": (self.train.robust.proved.value, self.test.robust.proved.value),
            "unbroken": (self.train.robust.unbroken.value, self.test.robust.unbroken.value),
            "unbroken predictions": (self.train.stable.unbroken.value, self.test.stable.unbroken.value),
        }
        gaps: dict[str, float | None] = {name: train - test for name, (train, test) in pairs.items()}
        one, two = self.train.local_lipschitz, self.test.local_lipschitz
        return {**gaps, "local Lipschitz": None if one is None or two is None else one - two}

    def summary(self) -> dict[str, Any]:
        """Both splits and the gaps as JSON data."""
        return {"train": self.train.summary(), "test": self.test.summary(), "gaps": self.gaps}
