"""All distances, one by one: for problems so small that loading the compiler takes longer."""

from __future__ import annotations

import numpy as np

from radii.geometry.search.best import Best
from radii.geometry.search.points import Points
from radii.threat import Norm

METRIC = {"linf": "chebyshev", "l1": "cityblock", "l2": "sqeuclidean"}
CHUNK = 1 << 22  # distances held at a time: 32 MB of float64


def search(queries: Points, references: Points, norm: Norm, label: str, k: int, own: int | None) -> Best:
    """The k nearest references of each query by comparing with all of them.

    float64 differences of float32 values and sums of whole numbers below 2^53
    are exact, so this is also what the faster searches are tested against.
    ``own``: query i is reference ``own + i``, if there is such a reference, and not its own neighbor.
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
    if k == 1:
        index = score.argmin(1)[:, None]
    else:
        index = np.argsort(score, axis=1, kind="stable")[:, :k]
    taken = np.take_along_axis(score, index, 1)
    best = Best(taken, np.where(np.isfinite(taken), index, -1))
    return best if taken.shape[1] == k else Best.empty(len(score), k).merged(best)
