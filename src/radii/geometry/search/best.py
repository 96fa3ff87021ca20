"""The k best references of each query so far: what every search returns, and what merges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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

    def shifted(self, by: int) -> Best:
        """The same with reference numbers that start at ``by``: a shard's place in the whole."""
        return Best(self.score, np.where(self.index >= 0, self.index + by, -1))
