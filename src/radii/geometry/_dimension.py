"""Intrinsic dimension: how fast neighbors come closer as the number of points grows.

With P(within r) ~ c r^d* the nearest of n points is at about (cn)^(-1/d*)
(Prach & Lampert 2025, supplement, Eq. 28-35). Every estimate depends on its
estimator, k and n, so these are always reported with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, unknown_name
from radii.geometry.search.neighbors import nearest
from radii.randomness import numpy_stream
from radii.tables import Estimate

Method = Literal["mle", "mle-mean", "two-nn"]
MOST_PRODUCTS, FEWEST = 2e12, 500  # about half a minute of one core; points that are always drawn


@dataclass(frozen=True)
class Dimension:
    """An estimate with its 95% interval (bootstrap over points) and everything it depends on."""

    estimate: Estimate
    method: Method
    k: int
    points: int
    references: int

    def summary(self) -> dict[str, Any]:
        """As plain JSON data."""
        ends = {"estimate": self.estimate.value, "low": self.estimate.low, "high": self.estimate.high}
        return {**vars(self), **ends}


def intrinsic_dimension(
    x: Any, method: Method = "mle", k: int = 10, *, points: int | None = 5000, seed: int = 0
) -> Dimension:
    """The intrinsic dimension of ``x`` [n, …] from L2 distances to nearest neighbors among all of ``x``.

    ``mle``: Levina & Bickel 2004 with the average of MacKay & Ghahramani 2005,
    1/d = mean over points and j < k of ln(T_k / T_j). ``mle-mean``: the plain
    average of the points' estimates. ``two-nn``: Facco et al. 2017, the slope
    of -ln(1 - F) on ln(T_2 / T_1) through the origin without the largest 10%.
    Points with a duplicate are left out.

    Args:
        x: the points [n, …].
        method: ``mle`` (default), ``mle-mean`` or ``two-nn``.
        k: number of neighbors, at least 2; default 10. ``two-nn`` uses 2.
        points: so many points of ``x`` are drawn; default 5,000, None: all.
        seed: seed of the draw and of the bootstrap; default 0.
    """
    wanted = 2 if method == "two-nn" else k
    return dimensions_of(x, {method: wanted}, points=points, seed=seed)[0]


def dimensions_of(
    x: Any, neighbors: Mapping[Method, int], *, points: int | None = 5000, seed: int = 0
) -> tuple[Dimension, ...]:
    """Several estimates from one search, see :func:`intrinsic_dimension`.

    Args:
        x: the points [n, …].
        points: so many points of ``x`` are drawn; default 5,000, None: all. Fewer, down to 500, where the search
            would take more than 2e12 products of coordinates.
        seed: seed of the draw and of the bootstrap; default 0.
    """
    rows = np.asanyarray(x)
    for method, wanted in neighbors.items():
        if method not in _ESTIMATORS:
            raise unknown_name("estimator of dimension", method, _ESTIMATORS)
        if wanted < 2 or len(rows) <= wanted:
            raise InputError(
                f"k must be at least 2 and below the number of points, got k={wanted} and {len(rows)} points."
            )
    zeros, most = np.zeros(len(rows), np.int64), max(neighbors.values())
    count = len(rows) if points is None else min(points, len(rows), max(FEWEST, int(MOST_PRODUCTS / rows.size)))
    if count == len(rows):
        distances = nearest(rows, zeros, norm="l2", label="any", k=most).distance
    else:  # one neighbor more, because each point finds itself first
        some = np.sort(numpy_stream(seed, "dimension").choice(len(rows), count, replace=False))
        distances = nearest(rows[some], zeros[some], (rows, zeros), norm="l2", label="any", k=most + 1).distance[:, 1:]
    return tuple(dimension_from(distances[:, :wanted], method, len(rows), seed) for method, wanted in neighbors.items())


def dimension_from(distance: NDArray[np.float64], method: Method, references: int, seed: int = 0) -> Dimension:
    """The estimate by ``method`` from ``distance`` [n, k] to the k nearest of ``references`` points, ascending.

    ``seed`` is that of the bootstrap.
    """
    kept = distance[(distance[:, 0] > 0) & np.isfinite(distance[:, -1])]
    if len(kept) < 10:
        raise InputError(f"At least 10 points without duplicates are needed for a dimension, got {len(kept)}.")
    estimate = Estimate.bootstrap(_ESTIMATORS[method], np.log(kept), numpy_stream(seed, "dimension-bootstrap"))
    return Dimension(estimate, method, distance.shape[1], len(kept), references)


def _inverse(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    return (logs[:, -1:] - logs[:, :-1]).mean(1)


def _mle(logs: NDArray[np.float64]) -> float:
    return float(1 / _inverse(logs).mean())


def _mle_mean(logs: NDArray[np.float64]) -> float:
    inverse = _inverse(logs)
    return float((1 / inverse[inverse > 0]).mean())


def _two_nn(logs: NDArray[np.float64]) -> float:
    ratio = np.sort(logs[:, 1] - logs[:, 0])
    kept = int(len(ratio) * 0.9)
    height = -np.log1p(-np.arange(1, kept + 1) / len(ratio))
    return float(ratio[:kept] @ height / (ratio[:kept] @ ratio[:kept]))


_ESTIMATORS: dict[str, Callable[[NDArray[np.float64]], float]] = {"mle": _mle, "mle-mean": _mle_mean, "two-nn": _two_nn}
