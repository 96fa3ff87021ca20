"""Scores: the results of an evaluation, per point and in total, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from radii.attacks.alarms import Alarm
from radii.attacks.suite import SurvivorBound
from radii.evaluation.accuracy import (
    BOUNDS,
    ROBUST_ACCURACY,
    Accuracy,
    Bracket,
    CurvePoint,
    accuracy,
    accuracy_curve,
    bracket,
    curve_rows,
    radius_quantile,
)
from radii.tables import ChartSpec, Field, Row, Table, Tabular, listing, plain, table
from radii.threat import Ball


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

    ball: Ball
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

    def curve(self, radii: Sequence[float] | None = None) -> tuple[CurvePoint, ...]:
        """Robust accuracy over the radius; by default on 21 radii up to twice the ball's."""
        grid = radii if radii is not None else [float(r) for r in np.linspace(0, 2 * self.ball.radius, 21)]
        proved = np.where(self.points.correct, self.points.proved_radius, 0.0)
        return accuracy_curve(proved, self.points.broken_radius, grid)

    def curve_rows(self, radii: Sequence[float] | None = None, **labels: str) -> list[Row]:
        """:meth:`curve` as tidy rows, both ends, with ``labels`` in every row."""
        return curve_rows(self.curve(radii), BOUNDS, **labels)

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
            ("true radius known to 1%", self.radius_known()),
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
            radii: by default 21 up to twice the ball's.
        """
        return table(self.curve_rows(radii), [Field("radius", radius=True), "bound", ROBUST_ACCURACY])

    def plot(self, name: str = "the model") -> ChartSpec:
        """Robust accuracy over the radius as a chart; notebooks draw it, ``radii.report.charts.save`` writes it.

        Args:
            name: of the model, for the title.
        """
        return curve_chart({name: self}, name, "model")

    def class_table(self, names: Sequence[str], title: str = "Per class") -> Table:
        """The scores class by class, under ``names``."""
        rows = [
            {
                "class": names[own.label],
                "points": own.clean.total,
                "clean": own.clean.value,
                "proved": own.robust.proved.value,
                "unbroken": own.robust.unbroken.value,
                "radius": own.median_proved_radius,
            }
            for own in self.per_class()
        ]
        shares = [Field(name, percent=True) for name in ("clean", "proved", "unbroken")]
        radius = Field("radius", "median proved radius", toward="down")
        return table(rows, ["class", "points", *shares, radius], title)

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


def curve_chart(scores: Mapping[str, Scores], name: str, series: str = "split") -> ChartSpec:
    """Robust accuracy over the radius with its 95% bands: proved below, unbroken above.

    Args:
        scores: by split or model, in one norm.
        name: model and data, for the title.
        series: what the keys of ``scores`` are.
    """
    return ChartSpec(
        "curves",
        [row for key, own in scores.items() for row in own.curve_rows(None, **{series: key})],
        Field("radius", f"{next(iter(scores.values())).ball.norm} radius"),
        ROBUST_ACCURACY,
        "bound",
        f"Robust accuracy of {name}",
        "The true accuracy lies between the curves; bands are exact 95% intervals of each curve.",
        dash=series,
    )
