"""The k best references of each query, the result of every search; and the search that compares all pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radii.geometry.search.points import Points
from radii.threat import Norm

METRIC = {"linf": "chebyshev", "l1": "cityblock", "l2": "sqeuclidean"}
CHUNK = 1 << 22  # distances held at a time: 32 MB of float64


@dataclass(frozen=True)
class Best:
    """``score`` [n, k] ascending and ``index`` [n, k] of the k best references.

    A score orders like the distance and is exact: the largest or summed
    difference for Linf and L1, the sum of squares for L2, in stored units.
    Missing neighbors have score infinity and index -1. Equal scores stand in
    the order of their index, so the result does not depend on the order of the work.
    """

    score: NDArray[np.float64]
    index: NDArray[np.int64]

    @classmethod
    def empty(cls, queries: int, k: int) -> Best:
        """No neighbors yet."""
        return cls(np.full((queries, k), np.inf), np.full((queries, k), -1, np.int64))

    def merged(self, other: Best) -> Best:
        """The k best of both. The order of merging does not matter."""
        k = self.score.shape[1]
        score = np.concatenate([self.score, other.score], 1)
        index = np.concatenate([self.index, other.index], 1)
        absent = np.where(index < 0, np.iinfo(np.int64).max, index)
        order = np.lexsort((absent, score), axis=1)[:, :k]
        return Best(np.take_along_axis(score, order, 1), np.take_along_axis(index, order, 1))


def search_all(queries: Points, references: Points, norm: Norm, label: str, k: int, own: int | None) -> Best:
    """The k nearest references of each query by comparing with all of them: for small problems, and to test others.

    float64 differences of float32 values and sums of whole numbers below 2^53 are exact.

    Args:
        norm: ``linf``, ``l2`` or ``l1``.
        label: ``other``, ``same`` or ``any``, see :func:`radii.geometry.search.neighbors.nearest`.
        own: query i is the reference ``own + i``, which is not its neighbor; None if no query is a reference.
    """
    from scipy.spatial.distance import cdist

    reference_rows = references.rows.astype(np.float64)
    step = max(1, CHUNK // len(references))
    parts = []
    for start in range(0, len(queries), step):
        block = queries.take(slice(start, start + step))
        score = cdist(block.rows.astype(np.float64), reference_rows, METRIC[norm])
        if label != "any":
            equal = block.labels[:, None] == references.labels[None, :]
            score[equal if label == "other" else ~equal] = np.inf
        if own is not None:
            rows = np.arange(len(block))
            inside = rows[(own + start + rows >= 0) & (own + start + rows < len(references))]
            score[inside, own + start + inside] = np.inf
        parts.append(_smallest(score, k))
    return Best(np.concatenate([best.score for best in parts]), np.concatenate([best.index for best in parts]))


def _smallest(score: np.ndarray, k: int) -> Best:
    """The k smallest of each row, the lower index first among equals."""
    index = score.argmin(1)[:, None] if k == 1 else np.argsort(score, axis=1, kind="stable")[:, :k]
    taken = np.take_along_axis(score, index, 1)
    best = Best(taken, np.where(np.isfinite(taken), index, -1))
    return best if taken.shape[1] == k else Best.empty(len(score), k).merged(best)
