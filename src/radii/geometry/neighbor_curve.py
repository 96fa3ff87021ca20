"""The distance to the nearest neighbor against the number of points, and how many points a distance would take.

Two laws (Prach & Lampert 2025, supplement, Eq. 33 and 34): the power law
r = (cn)^(-1/d), and its linearization r = a (1 - ln(n)/d), which is near it only
while ln n is far below d. They give different dimensions, even on cubes, and
extrapolate to very different n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.geometry.search.engine import search
from radii.geometry.search.k_best import Best
from radii.geometry.search.neighbors import in_pixels
from radii.geometry.search.points import Points, labelled
from radii.randomness import numpy_stream
from radii.tables import Estimate
from radii.threat import Norm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NeighborLaw:
    """A fitted law: its dimension, and ln r (power law) or r (linear law) where ln n = 0."""

    dimension: float
    intercept: float
    is_power: bool

    @classmethod
    def power(cls, sizes: Array | Sequence[int], distances: Array) -> NeighborLaw:
        """ln r = intercept - ln(n)/d, by least squares."""
        slope, intercept = np.polyfit(np.log(sizes), np.log(distances), 1)
        return cls(-1 / float(slope), float(intercept), is_power=True)

    @classmethod
    def linear(cls, sizes: Array | Sequence[int], distances: Array) -> NeighborLaw:
        """r = intercept (1 - ln(n)/d), by least squares."""
        slope, intercept = np.polyfit(np.log(sizes), distances, 1)
        return cls(-float(intercept / slope), float(intercept), is_power=False)

    def log10_samples(self, distance: float) -> float:
        """log10 of the n at which the nearest neighbor is at ``distance``: an extrapolation."""
        if self.is_power:
            return self.dimension * (self.intercept - math.log(distance)) / math.log(10)
        return self.dimension * (1 - distance / self.intercept) / math.log(10)


@dataclass(frozen=True)
class NeighborCurve:
    """Distances [sizes, queries] to the nearest of the first n points of one random order.

    The intrinsic dimension d* follows from the mean distance by either law. They differ, and the range of n
    matters; on CIFAR-10 from n = 1,000 the power law gives the published 28.
    """

    sizes: tuple[int, ...]
    distance: NDArray[np.float64]
    norm: Norm

    @cached_property
    def dimension(self) -> Estimate:
        """d* of the power law: minus the inverse slope of ln r on ln n."""
        return self._bootstrap(lambda mean: NeighborLaw.power(self.sizes, mean).dimension)

    @cached_property
    def dimension_linear(self) -> Estimate:
        """d* of the linear law: r falls by a/d* for every unit of ln n."""
        return self._bootstrap(lambda mean: NeighborLaw.linear(self.sizes, mean).dimension)

    def log10_samples(self, distance: float) -> Estimate:
        """log10 of the n at which the power law puts the mean nearest neighbor at ``distance``: an extrapolation."""
        if not distance > 0:
            raise InputError(f"A distance must be positive, got {distance:g} instead.")
        return self._bootstrap(lambda mean: NeighborLaw.power(self.sizes, mean).log10_samples(distance))

    def rows(self) -> list[dict[str, float]]:
        """Tidy rows ``n``, ``mean``, ``median`` of the distance."""
        return [
            {"n": n, "mean": float(row.mean()), "median": float(np.median(row))}
            for n, row in zip(self.sizes, self.distance, strict=True)
        ]

    def _bootstrap(self, statistic: Callable[[NDArray[np.float64]], float]) -> Estimate:
        """``statistic`` of the mean distances, with its 95% interval over the queries."""
        rng = numpy_stream(0, "neighbor-curve-bootstrap")
        return Estimate.bootstrap(lambda queries: statistic(queries.mean(0)), self.distance.T, rng)


def neighbor_curve(
    x: Any, queries: Any, sizes: Sequence[int] | None = None, *, norm: Norm = "l2", seed: int = 0
) -> NeighborCurve:
    """Distances from queries to the nearest of n points, for nested random subsets of size n.

    Each subset continues the one before, so all of them together cost one search.

    Args:
        x: the points [m, …].
        queries: the points [q, …] that look for a neighbor.
        sizes: ascending sizes n; default 1/50, 1/25, 1/10, 1/5, 2/5 and all of ``x``.
        norm: norm of the distances; default ``l2``.
        seed: seed of the order of the points; default 0.
    """
    points, targets = _unlabelled(x), _unlabelled(queries)
    sizes = _usual_sizes(len(points)) if sizes is None else tuple(sizes)
    if len(sizes) < 2 or min(np.diff(sizes)) <= 0 or sizes[0] < 1 or sizes[-1] > len(points):
        raise InputError(f"Sizes must be at least two numbers ascending within 1..{len(points)}, got {sizes} instead.")
    order = numpy_stream(seed, "neighbor-curve").permutation(len(points))
    best, rows = Best.empty(len(targets), 1), []
    for start, stop in zip((0, *sizes[:-1]), sizes, strict=True):
        part = points.take(np.sort(order[start:stop]))
        best = best.merged(search(targets, part, norm, "any", 1, None))
        rows.append(in_pixels(best, points, norm, "any").distance[:, 0])
    return NeighborCurve(sizes, np.array(rows), norm)


def _usual_sizes(count: int) -> tuple[int, ...]:
    """The default sizes for ``count`` points."""
    return tuple(sorted({max(1, round(count * share)) for share in (0.02, 0.04, 0.1, 0.2, 0.4, 1.0)}))


def _unlabelled(x: Any) -> Points:
    rows = np.asanyarray(x)
    return labelled(rows, np.zeros(len(rows), np.int64))
