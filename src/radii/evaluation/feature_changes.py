"""The smallest change that flips a decision, as a row of features in their own units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.sparse_threat import Sparse
from radii.tables import Field, Table, table
from radii.threat import NORM_NAMES, Ball


@dataclass(frozen=True)
class FeatureChange:
    """One feature before and after, and its change in the ball's scale."""

    feature: str
    before: float
    after: float
    in_scale: float


@dataclass(frozen=True)
class RowChange:
    """How a row has to change for another decision; the feature with the largest change in its scale comes first."""

    point: int
    distance: float
    features: tuple[FeatureChange, ...]

    def table(self, ball: Ball | Sparse, label: str = "") -> Table:
        """The features that change, in their units."""
        unit = "" if isinstance(ball, Sparse) else {"sd": " sd", "": " scales" if ball.scale else ""}[ball.unit]
        title = f"Smallest change that flips a decision: point {self.point}{label and f' ({label})'}"
        away = f"{NORM_NAMES[ball.norm]} distance {self.distance:.4g}{unit}; " if isinstance(ball, Ball) else ""
        note = f"{away}all other features stay."
        rows = [asdict(change) | {"change": change.after - change.before} for change in self.features]
        fields: list[Field | str] = [
            "feature",
            Field("before", digits=5),
            Field("after", digits=5),
            Field("change", digits=3),
            Field("in_scale", f"change in{unit or ' its unit'}", digits=3),
        ]
        return table(rows, fields, title, note)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "point": self.point,
            "distance": self.distance,
            "features": [asdict(change) for change in self.features],
        }


def smallest_changes(
    x: Tensor,
    changed: Tensor,
    broken: NDArray[np.bool_],
    ball: Ball | Sparse,
    names: Sequence[str] = (),
    count: int = 1,
) -> tuple[RowChange, ...]:
    """The ``count`` smallest changes among rows that an attack broke, the smallest first.

    They are the smallest that this attack met, which bounds the smallest of all from above.

    Args:
        x: rows [n, d].
        changed: the attack's rows [n, d], misclassified where ``broken`` [n].
        ball: whose norm and scale count.
        names: of the features; default: their numbers.
    """
    scale = ball.scales(x.double())[0].tolist() if isinstance(ball, Ball) else [1.0] * x.shape[1]
    names = names or [f"feature {number}" for number in range(x.shape[1])]
    away = ball.distance(x.double(), changed.double()).cpu().numpy()
    fallen = np.flatnonzero(broken & (away > 0))
    results = []
    for point in fallen[np.argsort(away[fallen], kind="stable")][:count].tolist():
        moved = torch.nonzero(x[point] != changed[point])[:, 0].tolist()
        features = [
            FeatureChange(
                names[place], before := float(x[point, place]), after := float(changed[point, place]),
                (after - before) / scale[place],
            )
            for place in moved
        ]  # fmt: skip
        features.sort(key=lambda change: -abs(change.in_scale))
        results.append(RowChange(point, float(away[point]), tuple(features)))
    return tuple(results)
