"""Separation: how far apart the classes are, and so how robust any classifier could be.

A dataset is r-separated when points of different classes are at least 2r
apart (Yang et al. 2020, Def. 3); then a classifier with robust accuracy 1 at
radius r exists. Per point, half the distance to the nearest point of another
class is the largest radius that is *possible* for both of them at once.
Equal inputs with different labels are label noise that the data alone proves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.geometry.search.engine import Work
from radii.geometry.search.neighbors import nearest
from radii.geometry.search.points import labelled, rows_at_a_time
from radii.threat import Norm

QUANTILES = (0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Hub:
    """A reference that is the nearest other-class neighbor of ``count`` points."""

    index: int
    count: int


@dataclass(frozen=True)
class Pair:
    """A point and its nearest neighbor of another class."""

    index: int
    neighbor: int
    distance: float


@dataclass(frozen=True)
class Separation:
    """Distance of each point to the nearest point of another class, and which that is.

    ``within`` is true when points and references are one set. ``distance``
    [n] is infinite and ``neighbor`` [n] is -1 where no other class exists.
    """

    distance: NDArray[np.float64]
    neighbor: NDArray[np.int64]
    norm: Norm
    within: bool

    @property
    def minimum(self) -> float:
        """The published "separation": the smallest distance between two classes."""
        return float(self.distance.min())

    @property
    def radius(self) -> float:
        """The largest r for which the data is r-separated: half the minimum."""
        return self.minimum / 2

    @property
    def possible_radius(self) -> NDArray[np.float64]:
        """Half of each distance [n]: no classifier is right around both ends beyond it."""
        return self.distance / 2

    def quantile(self, share: float) -> float:
        """The distance below which a ``share`` of the points lie (an actual distance, not interpolated)."""
        return float(np.quantile(self.distance, share, method="inverted_cdf"))

    def share_possible(self, epsilon: float) -> float:
        """The share of points for which radius ``epsilon`` is possible: distance at least 2 epsilon."""
        return float(np.mean(self.distance >= 2 * epsilon))

    def hubs(self, count: int = 10) -> tuple[Hub, ...]:
        """The references that are nearest to the most points, most frequent first."""
        index, times = np.unique(self.neighbor[self.neighbor >= 0], return_counts=True)
        order = np.lexsort((index, -times))[:count]
        return tuple(Hub(int(index[i]), int(times[i])) for i in order)

    def hub_share(self, count: int) -> float:
        """The share of points served by the ``count`` most frequent neighbors."""
        return sum(hub.count for hub in self.hubs(count)) / len(self.distance)

    def pairs(self, count: int = 10) -> tuple[Pair, ...]:
        """The closest pairs, nearest first; within one set each pair once."""
        chosen: list[Pair] = []
        seen: set[tuple[int, int]] = set()
        for i in np.argsort(self.distance, kind="stable"):
            j = int(self.neighbor[i])
            if j < 0 or len(chosen) == count:
                break
            key = (min(int(i), j), max(int(i), j)) if self.within else (int(i), j)
            if key not in seen:
                seen.add(key)
                chosen.append(Pair(int(i), j, float(self.distance[i])))
        return tuple(chosen)

    def without(self, count: int) -> Separation:
        """The same with the ``count`` closest points barred: what a few outliers or wrong labels cost."""
        if not 0 <= count < len(self.distance):
            raise InputError(f"From 0 to {len(self.distance) - 1} points can be barred, got {count} instead.")
        kept = np.sort(np.argsort(self.distance, kind="stable")[count:])
        return Separation(self.distance[kept], self.neighbor[kept], self.norm, self.within)

    def histogram(self, bins: int = 40) -> list[dict[str, float]]:
        """Tidy rows of the distribution of the possible radius: ``low``, ``high``, ``count``, ``share``."""
        finite = self.possible_radius[np.isfinite(self.distance)]
        if len(finite) == 0:
            return []
        counts, edges = np.histogram(finite, bins=bins, range=(0.0, float(finite.max()) or 1.0))
        return [
            {"low": float(low), "high": float(high), "count": int(count), "share": float(count / len(self.distance))}
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        ]

    def curve(self, points: int = 101) -> list[dict[str, float]]:
        """Tidy rows ``epsilon``, ``share``: the robust accuracy that no classifier can exceed by separation alone."""
        finite = self.possible_radius[np.isfinite(self.distance)]
        top = float(finite.max()) if len(finite) else 1.0
        return [
            {"epsilon": float(e), "share": self.share_possible(float(e))} for e in np.linspace(0, top * 1.02, points)
        ]

    def summary(self) -> dict[str, Any]:
        """The figures as plain JSON data; a missing other class gives nulls."""
        return {
            "norm": self.norm,
            "points": len(self.distance),
            "minimum": _finite(self.minimum),
            "radius": _finite(self.radius),
            "quantiles": {f"{share:g}": _finite(self.quantile(share)) for share in QUANTILES},
            "hubs": [{"index": hub.index, "count": hub.count} for hub in self.hubs(5)],
            "closest": [vars(pair) for pair in self.pairs(5)],
        }


def separation(
    x: Any,
    y: Any,
    within: tuple[Any, Any] | None = None,
    *,
    norm: Norm = "linf",
    work: Work | None = None,
    fixed: Sequence[int] = (),
) -> Separation:
    """Distance of every point to the nearest point of another class.

    ``separation(train_x, train_y)`` is the published train-train column,
    ``separation(test_x, test_y, within=(train_x, train_y))`` the test-train column.

    Args:
        x: points [n, …], uint8 pixels or floating point features.
        y: labels [n].
        within: the references (x, y); default: the points themselves.
        norm: ``linf``, ``l2`` or ``l1``.
        fixed: features that no perturbation changes; points that differ in one of them never meet, so their distance
            is infinite.
    """
    if fixed:
        return _separation_of_equals(np.asarray(x), np.asarray(y), within, norm, list(fixed))
    neighbors = nearest(x, y, within, norm=norm, label="other", work=work)
    return Separation(neighbors.distance[:, 0], neighbors.index[:, 0], norm, within is None)


def _separation_of_equals(
    x: NDArray[Any], y: NDArray[Any], within: tuple[Any, Any] | None, norm: Norm, fixed: list[int]
) -> Separation:
    """The separation among points that agree in the fixed features, one group of equals after another."""
    others, labels = (x, y) if within is None else (np.asarray(within[0]), np.asarray(within[1]))
    distance, neighbor = np.full(len(x), np.inf), np.full(len(x), -1)
    keys = [x.reshape(len(x), -1)[:, fixed], others.reshape(len(others), -1)[:, fixed]]
    _, groups = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    own, theirs = groups.reshape(-1)[: len(x)], groups.reshape(-1)[len(x) :]
    for group in np.unique(own):
        asked, held = np.flatnonzero(own == group), np.flatnonzero(theirs == group)
        if len(held) < (2 if within is None else 1):
            continue
        references = None if within is None else (others[held], labels[held])
        nearby = nearest(x[asked], y[asked], references, norm=norm, label="other")
        distance[asked] = nearby.distance[:, 0]
        neighbor[asked] = np.where(nearby.index[:, 0] >= 0, held[nearby.index[:, 0]], -1)
    return Separation(distance, neighbor, norm, within is None)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


@dataclass(frozen=True)
class EqualInputs:
    """One input that occurs several times: where, and with which labels."""

    indices: tuple[int, ...]
    labels: tuple[int, ...]

    @property
    def contradictory(self) -> bool:
        """At most one of these labels is right, so no classifier is right on all of them."""
        return len(set(self.labels)) > 1


def equal_inputs(x: Any, y: Any, block: int = 4096) -> tuple[EqualInputs, ...]:
    """Groups of exactly equal rows of ``x`` [n, …] with labels ``y``; groups with several labels are label noise.

    Rows are compared by a 128-bit digest, at most ``block`` rows at a time; groups are in order of first occurrence.
    """
    points = labelled(x, y)
    places: dict[bytes, list[int]] = {}
    block = rows_at_a_time(points.dimensions, block)
    for start in range(0, len(points), block):
        rows = np.ascontiguousarray(points.rows[start : start + block])
        if rows.dtype != np.uint8:
            rows = rows + np.float32(0)  # -0.0 and 0.0 are one value
        for offset, row in enumerate(rows):
            places.setdefault(hashlib.blake2b(row.data, digest_size=16).digest(), []).append(start + offset)
    return tuple(
        EqualInputs(tuple(group), tuple(int(points.labels[i]) for i in group))
        for group in places.values()
        if len(group) > 1
    )


def contradictions(groups: tuple[EqualInputs, ...]) -> tuple[EqualInputs, ...]:
    """Those of ``groups`` whose labels differ."""
    return tuple(group for group in groups if group.contradictory)
