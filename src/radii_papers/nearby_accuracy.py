"""Certified accuracy of test points by how near the nearest training point is, in angle or distance.

Prach & Lampert 2025, section 12: in the angular distance 1-Lipschitz classifiers do better, on average, on test
points with a near training point. The angle is taken between images less the mean training image.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from radii.data.dataset import Data, as_float
from radii.runs.certification import Certification
from radii.runs.component_specs import choose_rows
from radii.runs.step import Step
from radii.runs.steps import Certify
from radii.runs.store import Run, Workspace
from radii_papers.measurements import NearbyAccuracyResult, NeighborGroup

Metric = Literal["angle", "l2"]
CHUNK = 500


def nearest_distances(data: Data, rows: NDArray[np.int64], metric: Metric) -> NDArray[np.float64]:
    """The distance of test points to their nearest training point.

    Args:
        metric: ``angle`` in radians between images less the mean training image, or ``l2``.
    """
    train = as_float(np.asarray(data.train.x)).reshape(len(data.train), -1)
    test = as_float(np.asarray(data.test.x[rows])).reshape(len(rows), -1)
    mean = train.mean(0)
    train, test = train - mean, test - mean
    if metric == "angle":
        train, test = (part / np.linalg.norm(part, axis=1, keepdims=True).clip(1e-12) for part in (train, test))
    squares = (train**2).sum(1)
    found = np.empty(len(rows))
    for start in range(0, len(rows), CHUNK):
        part = test[start : start + CHUNK]
        nearest = (squares - 2 * part @ train.T).min(1) + (part**2).sum(1)
        found[start : start + CHUNK] = np.sqrt(nearest.clip(0))
    return 2 * np.arcsin((found / 2).clip(0, 1)) if metric == "angle" else found


class NearbyAccuracy(Step):
    """Clean and certified accuracy in equal groups of test points, from the nearest to the farthest."""

    kind: ClassVar[str] = "nearby-accuracy"
    Result: ClassVar[type[NearbyAccuracyResult]] = NearbyAccuracyResult

    certified: Certify
    radius: float = Field(ge=0)
    metric: Metric = "angle"
    groups: int = Field(5, ge=2)

    def describe(self) -> str:
        """``accuracy by angle to training points: certify: …``."""
        return f"accuracy by {self.metric} to training points: {self.certified.describe()}"

    def perform(self, work: Workspace) -> NearbyAccuracyResult:
        """A row for each group: its distances, its accuracies."""
        data = self.certified.data.load()
        rows = choose_rows(data.test, self.certified.points, self.certified.seed)
        points = Certification.of(Run(work.store.folder(self.certified))).points()
        proved = points.right & (points.proved_radius >= self.radius)
        distances = nearest_distances(data, rows, self.metric)
        groups = [
            NeighborGroup(
                points=len(group),
                nearest=float(distances[group].min()),
                mean=float(distances[group].mean()),
                farthest=float(distances[group].max()),
                clean=float(points.right[group].mean()),
                certified=float(proved[group].mean()),
            )
            for group in np.array_split(np.argsort(distances, kind="stable"), self.groups)
        ]
        return NearbyAccuracyResult(radius=self.radius, groups=tuple(groups))
