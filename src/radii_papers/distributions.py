"""How the pixels of a dataset are distributed, and the distances of its images: Ding et al. 2019, Fig. 1, 2.2 and 5."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from radii.data.dataset import as_float
from radii.geometry.interclass import interclass_distance
from radii.runs.component_specs import DataSpec, choose_rows
from radii.runs.step import Step
from radii.runs.store import Workspace
from radii_papers.measurements import DistributionResult

END = 0.05  # a pixel nearer than this to 0 or 1 is at an end
QUANTILES = (0.05, 0.5, 0.95)


def pair_distances(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """L2 distances of all pairs of rows over √d: [n, d] -> [n(n − 1)/2].

    Args:
        x: points in [0, 1]^d.
    """
    centered = x - x.mean(0)
    squares = (centered.astype(np.float64) ** 2).sum(1)
    products = (centered @ centered.T).astype(np.float64)
    upper = np.triu_indices(len(x), 1)
    square = squares[upper[0]] + squares[upper[1]] - 2 * products[upper]
    return np.sqrt(np.maximum(square, 0) / x.shape[1])


class MeasureDistribution(Step):
    """Histogram of the pixels, distances of image pairs, and the inter-class distance, of drawn test images."""

    kind: ClassVar[str] = "distribution"
    Result: ClassVar[type[DistributionResult]] = DistributionResult

    data: DataSpec
    points: int = Field(2000, ge=20, description="test images that are drawn")
    bins: int = Field(10, ge=2, le=256)
    seed: int = 0

    def describe(self) -> str:
        """``pixels and distances of mnist``."""
        return f"pixels and distances of {self.data.source}"

    def perform(self, work: Workspace) -> DistributionResult:  # noqa: ARG002
        """Over the drawn test images."""
        test = self.data.load().test
        rows = choose_rows(test, self.points, self.seed)
        x, y = np.asarray(test.x[rows]), np.asarray(test.y)[rows]
        pixels = as_float(x).reshape(len(x), -1)
        counts, _ = np.histogram(pixels, self.bins, (0, 1))
        distances = pair_distances(pixels)
        return DistributionResult(
            images=len(x),
            dimensions=pixels.shape[1],
            histogram=tuple(float(count) / pixels.size for count in counts),
            at_ends=float(((pixels < END) | (pixels > 1 - END)).mean()),
            mean=float(distances.mean()),
            deviation=float(distances.std()),
            quantiles=tuple(float(q) for q in np.quantile(distances, QUANTILES)),
            interclass=interclass_distance(x, y).mean,
        )
