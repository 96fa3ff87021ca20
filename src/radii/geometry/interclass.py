"""Inter-class distance: how far a class lies from the others, averaged rather than at its closest pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii import progress
from radii.errors import InputError
from radii.geometry.search._l2_l1 import TILE, center_of, scalar_products, squared_lengths
from radii.geometry.search.points import Points, labelled, rows_at_a_time


@dataclass(frozen=True)
class InterclassDistance:
    """L2 distance of each class to the rest."""

    labels: tuple[int, ...]
    distances: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The average over the classes: the published figure."""
        return float(np.mean(self.distances))


def interclass_distance(
    x: Any, y: Any, nearest: float = 0.1, closest: float = 0.1, block: int = 512
) -> InterclassDistance:
    """The inter-class distance of Ding et al. 2019, Sec. D.2.1.

    The margin of a point is its mean L2 distance to the nearest 10% of the points
    of other classes; the distance of a class is the mean of the smallest 10% of its
    points' margins. Shares are rounded down, to at least one point. Distances come
    from float32 matrix products of centered inputs, exact for uint8.

    Args:
        x: points [n, …].
        y: labels [n].
        nearest: share of the other points in a margin, in (0, 1].
        closest: share of the margins in a class's distance, in (0, 1].
        block: points in one matrix product, at most.
    """
    points = labelled(x, y)
    labels = np.unique(points.labels)
    if len(labels) < 2:
        raise InputError("An inter-class distance needs at least two classes, got one.")
    for share in (nearest, closest):
        if not 0 < share <= 1:
            raise InputError(f"Shares must lie in (0, 1], got {share:g} instead.")
    sizes = dict(zip(labels.tolist(), np.bincount(np.searchsorted(labels, points.labels)).tolist(), strict=True))
    counts = {label: max(1, int(nearest * (len(points) - size))) for label, size in sizes.items()}
    margins = _margins(points, counts, rows_at_a_time(points.dimensions, block, 1 << 26))
    distances = []
    for label in labels:
        margin = np.sort(margins[points.labels == label])
        distances.append(float(margin[: max(1, int(closest * len(margin)))].mean()) / points.levels)
    return InterclassDistance(tuple(int(label) for label in labels), tuple(distances))


def _margins(points: Points, counts: dict[int, int], block: int) -> NDArray[np.float64]:
    """The mean distance of each point to the nearest ``counts[label]`` points of other classes, in stored units."""
    margins, center = np.empty(len(points)), center_of(points.rows)
    length = squared_lengths(points.rows, center)
    with progress.task("inter-class distance", len(points), "points") as task:
        for start in range(0, len(points), block):
            part = slice(start, start + block)
            rows, own = points.rows[part], points.labels[part]
            squared = np.empty((len(rows), len(points)), np.float32)
            for first in range(0, len(points), TILE):
                tile = slice(first, first + TILE)
                products = scalar_products(rows, points.rows[tile], center)
                squared[:, tile] = np.maximum(length[part, None] + length[tile] - 2 * products, 0)
            squared[own[:, None] == points.labels] = np.inf
            for label in np.unique(own):
                chosen = own == label
                margins[part][chosen] = _mean_of_smallest(np.sqrt(squared[chosen]), counts[int(label)])
            task.advance(len(rows))
    return margins


def _mean_of_smallest(values: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    """The mean of the ``count`` smallest of each row."""
    return np.partition(values, count - 1, axis=1)[:, :count].mean(1, dtype=np.float64)
