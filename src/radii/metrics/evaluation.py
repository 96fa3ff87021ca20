"""How robust is this model on these points: clean, proved, unbroken, and how far each point is from its break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.suite import SuiteResult, members, run_suite
from radii.certify.certificate import Certificate
from radii.metrics.accuracy import Accuracy, Bracket, CurvePoint, accuracy, accuracy_curve, bracket
from radii.metrics.bracket import proved_in, reconciled
from radii.models.classifier import check_inputs, check_labels, frozen, predict
from radii.randomness import stream
from radii.threat import Ball, per_row


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
            "notes": list(self.notes),
        }


def evaluate(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    *,
    suite: str = "standard",
    certificate: Certificate | None = None,
    seed: int = 0,
    radii: bool = True,
    batch_size: int = 256,
) -> Scores:
    """Clean accuracy, the bracket of robust accuracy and the broken radius of every point.

    The predictions are attacked, whatever the labels, so that one run serves
    robust accuracy and robustness with respect to predictions. Points whose
    certificate covers the ball are proved and not attacked in it. With ``radii``
    a minimum-norm attack measures every point's distance to its nearest error,
    proved points included: it is the check that no proved radius is wrong.
    """
    check_inputs(x, ball.box)
    prediction = predict(model, x, batch_size)
    with torch.no_grad(), frozen(model):
        logits = model(x[:1])
    check_labels(y, logits.expand(len(y), -1) if logits.dim() == 2 else logits)
    proved_radius, notes = proved_in(certificate, ball.norm, x, prediction)
    proved = proved_radius >= ball.radius if ball.radius > 0 else proved_radius > 0
    todo = torch.from_numpy(np.flatnonzero(~proved))
    found = run_suite(members(suite, batch_size), model, x[todo], prediction[todo], ball, seed)
    x_adv, changed, queries = x.float().clone(), torch.zeros_like(y, dtype=torch.bool), torch.zeros_like(y)
    x_adv[todo], changed[todo], queries[todo] = found.x_adv, found.broken, found.queries
    passes = dict(found.passes)
    distance = torch.where(changed, ball.distance(x.double(), x_adv.double()).clamp_max(ball.radius), torch.inf)
    nearest = x_adv
    if radii:
        near = MinimumNorm(batch_size=batch_size).radii(model, x, prediction, ball, stream(seed, "attack", "radii"))
        nearest = torch.where(per_row(near.radius < distance, x), near.x_adv, x_adv)
        distance = torch.minimum(distance, near.radius)
        passes["minimum-norm"] = int(near.queries.sum())
        queries += near.queries
        inside = ball.contains(near.x_adv, x) & (near.radius < torch.inf) & ~changed
        x_adv, changed = torch.where(per_row(inside, x), near.x_adv, x_adv), changed | inside
    proved_radius, more = reconciled(model, nearest, prediction, proved_radius, distance.numpy(), certificate)
    by = _named(len(y), todo, found, changed)
    points = PointTable(
        y.numpy(), prediction.numpy(), predict(model, x_adv, batch_size).numpy(), proved_radius,
        proved & (proved_radius >= ball.radius), changed.numpy(), distance.numpy(), by, queries.numpy(),
    )  # fmt: skip
    method = None if certificate is None else certificate.method
    return Scores(ball, suite, seed, points, passes, x_adv, method, notes + more)


def _named(count: int, todo: Tensor, found: SuiteResult, changed: Tensor) -> tuple[str, ...]:
    names = ["minimum-norm" if flag else "" for flag in changed.tolist()]
    for point, name in zip(todo.tolist(), found.broken_by, strict=True):
        names[point] = name or names[point]
    assert len(names) == count
    return tuple(names)
