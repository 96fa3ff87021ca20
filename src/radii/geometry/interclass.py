"""Inter-class distance: how far a class lies from the others, averaged rather than at its closest pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii import progress
from radii.errors import InputError
from radii.geometry.search.points import labelled


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
    from float32 matrix products of centred inputs; averages over hundreds of them
    are right to about 1e-5.

    Args:
        x: points [n, …].
        y: labels [n].
        nearest: share of the other points in a margin, in (0, 1].
        closest: share of the margins in a class's distance, in (0, 1].
        block: points in one matrix product.

    Raises:
        InputError: one class only, or a share outside (0, 1].
    """
    points = labelled(x, y)
    labels = np.unique(points.labels)
    if len(labels) < 2:
        raise InputError("An inter-class distance needs at least two classes, got one.")
    for share in (nearest, closest):
        if not 0 < share <= 1:
            raise InputError(f"Shares must lie in (0, 1], got {share:g} instead.")
    rows = points.rows.astype(np.float32)
    rows -= rows.mean(0, dtype=np.float64).astype(np.float32)
    length = np.einsum("nd,nd->n", rows, rows)
    distances = []
    with progress.task("inter-class distance", len(points), "points") as task:
        for label in labels:
            inside = points.labels == label
            other, other_length = rows[~inside], length[~inside]
            count = max(1, int(nearest * len(other)))
            margins = []
            members = np.flatnonzero(inside)
            for start in range(0, len(members), block):
                part = members[start : start + block]
                squared = length[part, None] + other_length - 2 * (rows[part] @ other.T)
                margins.append(_mean_of_smallest(np.sqrt(np.maximum(squared, 0)), count))
                task.advance(len(part))
            margin = np.sort(np.concatenate(margins))
            distances.append(float(margin[: max(1, int(closest * len(margin)))].mean()) / points.levels)
    return InterclassDistance(tuple(int(label) for label in labels), tuple(distances))


def _mean_of_smallest(values: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    """The mean of the ``count`` smallest of each row."""
    return np.partition(values, count - 1, axis=1)[:, :count].mean(1, dtype=np.float64)
