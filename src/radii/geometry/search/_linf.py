"""Exact Linf neighbors: an index of bit planes over the most separating coordinates, hubs first.

Samples decide which coordinates are indexed. This affects only the speed: every
pruned pair is proved to be farther than the current neighbor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.geometry.search.k_best import Best
from radii.geometry.search.points import Points, rows_at_a_time

COORDINATES, LEVELS, SEEDS, CHUNK = 128, 16, 10, 256
ROUNDING = 2.0**-22  # of float32 intervals; uint8 has none


@dataclass(frozen=True)
class LinfSearch:
    """References prepared for Linf searches.

    ``planes`` [tiles, m, levels + 2, 64] holds one bit per reference and bound:
    m·(levels + 2)/8 bytes per reference, 288 for CIFAR-10's 3,072-byte rows.
    """

    references: Points
    want: int
    seeds: NDArray[np.int64]
    dims: NDArray[np.int64]
    bounds: NDArray[np.float64]
    kept: NDArray[np.float64]
    planes: NDArray[np.uint64]
    starts: NDArray[np.int64]

    @property
    def margin(self) -> float:
        """Relative rounding of interval ends in the stored type."""
        return 0.0 if self.references.rows.dtype == np.uint8 else ROUNDING

    def __call__(self, queries: Points, numbers: NDArray[np.int64], k: int) -> Best:
        """The k best references of each query; ``numbers`` are the queries' own references or -1."""
        from radii.geometry.search._linf_kernels import BIT, scan_linf

        order = np.argsort(queries.labels, kind="stable")
        score, index = np.empty((len(queries), k)), np.empty((len(queries), k), np.int64)
        for start in range(0, len(queries), CHUNK):
            chosen = order[start : start + CHUNK]
            rows, labels = np.ascontiguousarray(queries.rows[chosen]), queries.labels[chosen]
            best = seeded(self, rows, labels, numbers[chosen], k)
            scan_linf(
                rows, labels, numbers[chosen], self.references.rows, self.references.labels, self.want,
                self.dims, self.bounds, self.kept, self.planes, self.margin, self.starts, BIT, best.score, best.index,
            )  # fmt: skip
            score[chosen], index[chosen] = best.score, best.index
        return Best(score, index)


def prepare(references: Points, queries: Points, want: int, rng: np.random.Generator) -> LinfSearch:
    """Choose hubs, coordinates and bounds by samples of ``references`` and ``queries`` (``rng``); set the bit planes.

    ``want`` says which labels count, as in the kernels.
    """
    from radii.geometry.search._kernels import BLOCK
    from radii.geometry.search._linf_kernels import TILE, WORDS, fill_planes

    starts = np.arange(0, references.dimensions, BLOCK)
    empty = np.zeros(0)
    draft = LinfSearch(
        references,
        want,
        central(references, rng),
        empty.astype(np.int64),
        empty,
        empty,
        empty.astype(np.uint64),
        starts,
    )
    count, other_count = (rows_at_a_time(references.dimensions, rows, 1 << 27) for rows in (1024, 2048))
    some = np.sort(rng.choice(len(queries), min(count, len(queries)), replace=False))
    sample = Points(np.ascontiguousarray(queries.rows[some]), queries.labels[some])
    reach = seeded(draft, sample.rows, sample.labels, np.full(len(some), -1), 1).score[:, 0]
    reach[np.isinf(reach)] = 0  # no reference counts for these: nothing to learn
    others = references.take(np.sort(rng.choice(len(references), min(other_count, len(references)), replace=False)))
    gaps = _gaps(sample, others, reach, rng)
    dims = separating(gaps)
    bounds = interval_ends(sample, others, reach, dims)
    kept = _shares(others.rows[:, dims], bounds)
    planes = np.zeros((-(-len(references) // TILE), len(dims), LEVELS + 2, WORDS), np.uint64)
    fill_planes(references.rows, dims, bounds, planes)
    refusing = [gaps[:, start : start + BLOCK].any(1).mean() for start in starts]
    return LinfSearch(references, want, draft.seeds, dims, bounds, kept, planes, starts[np.argsort(refusing)[::-1]])


def seeded(
    search: LinfSearch, rows: NDArray[Any], labels: NDArray[np.int64], numbers: NDArray[np.int64], k: int
) -> Best:
    """The ``k`` best among the hubs of ``search`` only: an upper bound of the distance for every query.

    ``rows`` and ``labels`` are the queries, ``numbers`` their own references or -1.
    """
    from radii.geometry.search._linf_kernels import seed_linf

    best = Best.empty(len(rows), k)
    seed_linf(
        rows, labels, numbers, search.references.rows, search.references.labels, search.want,
        search.seeds, search.margin, search.starts, best.score, best.index,
    )  # fmt: skip
    return best


def central(references: Points, rng: np.random.Generator, block: int = 1024) -> NDArray[np.int64]:
    """Likely hubs: the ``references`` of each class with the smallest max|x - mean|, most central first.

    In Linf, low-contrast images near the mean are the nearest neighbors of most others. A sample by ``rng``
    is enough, read at most ``block`` rows at a time; at most 1,000 hubs are kept.
    """
    some = np.sort(rng.choice(len(references), min(20_000, len(references)), replace=False))
    few = some[:: max(1, len(some) // rows_at_a_time(references.dimensions, 2000, 1 << 26))]
    mean = references.rows[few].mean(0, dtype=np.float64).astype(np.float32)
    block = rows_at_a_time(references.dimensions, block)
    parts = [some[i : i + block] for i in range(0, len(some), block)]
    spread = np.concatenate([np.abs(references.rows[part] - mean).max(1) for part in parts])
    order = np.argsort(spread, kind="stable")
    labels = references.labels[some][order]
    by_class = np.argsort(labels, kind="stable")
    _, first, inverse = np.unique(labels[by_class], return_index=True, return_inverse=True)
    rank = np.empty(len(order), np.int64)
    rank[by_class] = np.arange(len(order)) - first[inverse]
    return some[order[rank < SEEDS]][:1000]


def _gaps(sample: Points, others: Points, reach: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which coordinates exclude which sampled pairs: [pairs, d]."""
    pairs, block = (rows_at_a_time(sample.dimensions, 1500, numbers) for numbers in (1 << 27, 1 << 23))
    q, r = rng.integers(0, len(sample), pairs), rng.integers(0, len(others), pairs)
    gaps = np.empty((pairs, sample.dimensions), bool)
    for start in range(0, pairs, block):
        part = slice(start, start + block)
        gap = np.abs(sample.rows[q[part]].astype(np.float32) - others.rows[r[part]])
        np.greater(gap, reach[q[part], None], out=gaps[part])
    return gaps


def separating(gaps: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Coordinates by a boosted greedy cover of ``gaps``: each excludes most of the pairs that those before did not.

    Sorting by variance would take neighboring pixels that exclude the same pairs.
    """
    candidates = np.flatnonzero(gaps.any(0))
    if len(candidates) > 1024:
        candidates = candidates[:: -(-len(candidates) // 1024)]
    if len(candidates) == 0:
        candidates = np.arange(min(gaps.shape[1], COORDINATES))
    excludes = gaps[:, candidates].astype(np.float32)
    weight, chosen = np.ones(len(gaps), np.float32), []
    free = np.ones(len(candidates), bool)
    for _ in range(min(COORDINATES, len(candidates))):
        best = int(np.where(free, weight @ excludes, -1).argmax())
        chosen.append(best)
        free[best] = False
        weight *= np.where(excludes[:, best] > 0, np.float32(0.4), np.float32(1))
    return candidates[chosen]


def interval_ends(
    sample: Points, others: Points, reach: NDArray[np.float64], dims: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Bounds [m, levels] where the intervals x ± ``reach`` of ``sample`` begin and end, in each coordinate of ``dims``.

    Bounds outside the range of ``others`` are left out.
    """
    grain = 1.0 if sample.rows.dtype == np.uint8 else 0.0
    bounds = np.full((len(dims), LEVELS), np.inf)
    for i, d in enumerate(dims):
        x, r = sample.rows[:, d].astype(np.float64), others.rows[:, d]
        begin, end = x - reach, x + reach + grain
        begin, end = begin[begin > r.min()], end[end <= r.max()]
        if len(begin) + len(end) == 0:
            continue
        share = round(LEVELS * len(begin) / (len(begin) + len(end)))
        lower = np.quantile(begin, np.arange(share) / share, method="lower") if share else []
        upper_count = LEVELS - share
        upper = np.quantile(end, np.arange(1, upper_count + 1) / upper_count, method="higher") if upper_count else []
        bounds[i] = np.sort(np.concatenate([lower, upper]))
    return bounds


def _shares(values: NDArray[Any], bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of references in each plane: [m, levels + 2]."""
    reached = values.T.astype(np.float64)[:, None, :] >= bounds[:, :, None]
    ones, none = np.ones((len(bounds), 1)), np.zeros((len(bounds), 1))
    return np.concatenate([ones, reached.mean(2), none], 1)
