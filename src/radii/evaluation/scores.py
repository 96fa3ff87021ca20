"""Scores: what an evaluation found, per point and in sum, with intervals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from radii.attacks.alarms import Alarm
from radii.attacks.survivor_sample import AuditBound
from radii.evaluation.accuracy import Accuracy, Bracket, CurvePoint, accuracy, accuracy_curve, bracket
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
    changed_radius: NDArray[np.float64]  # nearest input found with another prediction; inf: none found
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
        """Distance of the nearest misclassified input found: 0 for misclassified points."""
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
class Scores:
    """The evaluation of one model on one set of points."""

    ball: Ball
    suite: str
    seed: int
    points: PointTable
    passes: dict[str, int]  # images through the network per attack, forward and backward
    x_adv: Tensor  # [n, …] worst input found in the ball; the clean input where none
    certificate_method: str | None = None
    notes: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()  # reasons to doubt the unbroken end
    audit: AuditBound | None = None  # of the audited suite
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

    def curve(self, radii: list[float] | None = None) -> tuple[CurvePoint, ...]:
        """Robust accuracy over the radius; by default on 21 radii up to twice the ball's."""
        grid = radii if radii is not None else [float(r) for r in np.linspace(0, 2 * self.ball.radius, 21)]
        proved = np.where(self.points.correct, self.points.proved_radius, 0.0)
        return accuracy_curve(proved, self.points.broken_radius, grid)

    def per_class(self, names: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
        """Clean accuracy and the bracket for every class that occurs."""
        table = []
        for label in np.unique(self.points.label):
            own = self.points.label == label
            part = bracket((self.points.proved & self.points.correct)[own], self.points.broken[own])
            table.append(
                {
                    "class": names[label] if names else int(label),
                    "points": int(own.sum()),
                    "clean": accuracy(self.points.correct[own]).summary(),
                    "robust": part.summary(),
                }
            )
        return table

    def radius_quantiles(self) -> dict[str, float | None]:
        """Quartiles of the broken radius over correctly classified points; None: beyond what was found."""
        radius = self.points.broken_radius[self.points.correct]
        if not len(radius):
            return {}
        # "higher" avoids averaging a finite and an infinite radius.
        cuts = np.quantile(radius, [0.05, 0.25, 0.5, 0.75, 0.95], method="higher")
        names = ("5%", "25%", "median", "75%", "95%")
        return {name: float(cut) if np.isfinite(cut) else None for name, cut in zip(names, cuts, strict=True)}

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
            "broken_radius": self.radius_quantiles(),
            "per_class": self.per_class(),
            "passes": {**self.passes, "all": int(sum(self.passes.values()))},
            "local_lipschitz": self.local_lipschitz,
            "audit": None if self.audit is None else asdict(self.audit),
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "notes": list(self.notes),
        }
