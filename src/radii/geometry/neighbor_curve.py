"""The distance to the nearest neighbor against the number of points, and how many points a distance would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.geometry.neighbor_law import NeighborLaw
from radii.geometry.search.best import Best
from radii.geometry.search.engine import search
from radii.geometry.search.neighbors import in_pixels
from radii.geometry.search.points import Points, labelled
from radii.randomness import numpy_stream
from radii.tables import Estimate
from radii.threat import Norm


@dataclass(frozen=True)
class NeighborCurve:
    """Distances [sizes, queries] to the nearest of the first n points of one random order.

    The intrinsic dimension d* is read from the mean distance by the two laws of
    :mod:`radii.geometry.neighbor_law`. They differ, and the range of n matters;
    on CIFAR-10 from n = 1,000 the power law gives the published 28.
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
    x: Any,
    queries: Any,
    sizes: Sequence[int] | None = None,
    *,
    norm: Norm = "l2",
    seed: int = 0,
) -> NeighborCurve:
    """How near the nearest of n points of ``x`` [m, …] comes to ``queries`` [q, …], for nested random subsets.

    ``sizes`` ascending; by default 1/50, 1/25, 1/10, 1/5, 2/5 and all of
    ``x``, so 1,000 to 50,000 for CIFAR-10. Each subset continues the former,
    so all of them together cost one search.
    """
    points, asked = _unlabelled(x), _unlabelled(queries)
    sizes = usual_sizes(len(points)) if sizes is None else tuple(sizes)
    if len(sizes) < 2 or min(np.diff(sizes)) <= 0 or sizes[0] < 1 or sizes[-1] > len(points):
        raise InputError(f"Sizes must be at least two numbers ascending within 1..{len(points)}, got {sizes} instead.")
    order = numpy_stream(seed, "neighbor-curve").permutation(len(points))
    best, rows = Best.empty(len(asked), 1), []
    for start, stop in zip((0, *sizes[:-1]), sizes, strict=True):
        part = points.take(np.sort(order[start:stop]))
        best = best.merged(search(asked, part, norm, "any", 1, None))
        rows.append(in_pixels(best, points, norm, "any").distance[:, 0])
    return NeighborCurve(sizes, np.array(rows), norm)


def usual_sizes(count: int) -> tuple[int, ...]:
    """The default sizes for ``count`` points."""
    return tuple(sorted({max(1, round(count * share)) for share in (0.02, 0.04, 0.1, 0.2, 0.4, 1.0)}))


def _unlabelled(x: Any) -> Points:
    rows = np.asanyarray(x)
    return labelled(rows, np.zeros(len(rows), np.int64))
