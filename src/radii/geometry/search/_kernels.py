"""The inner loops, compiled by numba at first use and cached on disk.

Import this module only where a search is large enough to need it. All loops
release the GIL, so query blocks run on threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 128  # coordinates between two checks whether a pair can still be a neighbor
OTHER, SAME, ANY = 0, 1, 2


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def summed(a: NDArray[Any], b: NDArray[Any], squared: bool, enough: float, zero: Any) -> float:
    """The L1 or (``squared``) L2 score of the rows ``a`` and ``b``; any number above ``enough`` once it exceeds that.

    ``zero`` sets the type within a block: float32 for uint8, whose 128 squares
    stay below 2^24 and so exact however they are grouped; float64 for float32.
    """
    total = 0.0
    for start in range(0, a.shape[0], BLOCK):
        x, y = a[start : start + BLOCK], b[start : start + BLOCK]
        part = zero
        if squared:
            for j in range(x.shape[0]):
                gap = (zero + x[j]) - (zero + y[j])
                part += gap * gap
        else:
            for j in range(x.shape[0]):
                part += abs((zero + x[j]) - (zero + y[j]))
        total += part
        if total > enough:
            return total
    return total


@njit(cache=True, nogil=True)
def insert(score: NDArray[Any], index: NDArray[Any], new: float, reference: int) -> bool:
    """Put ``reference`` with score ``new`` among the k best ``score``, ``index`` of one query; False if it is not one.

    Equal scores stand in the order of their index.
    """
    place = score.shape[0] - 1
    if new > score[place] or (new == score[place] and index[place] >= 0 and reference > index[place]):
        return False
    for i in range(place + 1):
        if index[i] == reference:
            return False
    while place > 0 and (new < score[place - 1] or (new == score[place - 1] and reference < index[place - 1])):
        score[place], index[place] = score[place - 1], index[place - 1]
        place -= 1
    score[place], index[place] = new, reference
    return True


@njit(cache=True, nogil=True)
def wanted(label: int, reference_label: int, want: int) -> bool:
    """Whether a reference with ``reference_label`` counts for a query of ``label``; ``want`` is OTHER, SAME or ANY."""
    return want == ANY or (label == reference_label) == (want == SAME)


@njit(cache=True, nogil=True)
def sweep(
    rows: NDArray[Any],
    labels: NDArray[Any],
    numbers: NDArray[Any],
    references: NDArray[Any],
    reference_labels: NDArray[Any],
    first: int,
    want: int,
    squared: bool,
    lower: NDArray[Any],
    offset: NDArray[Any],
    slack: NDArray[Any],
    score: NDArray[Any],
    index: NDArray[Any],
    zero: Any,
) -> None:
    """Compare each query with those references of one tile that its lower bounds do not exclude.

    ``lower[q, j] + offset[q] - slack[q]`` is at most the true score of query q and reference ``first + j``.
    Tiles come in ascending order. ``squared`` and ``zero`` as in :func:`summed`.
    ``rows``, ``labels`` and ``numbers`` are the queries, their labels and their own references or -1;
    ``references``, ``reference_labels`` the points searched; ``want`` which labels count; ``score`` and ``index``
    [queries, k] the best so far, which are improved.
    """
    last = score.shape[1] - 1
    for q in range(rows.shape[0]):
        for _ in range(score.shape[1]):  # a first good bound: the likeliest references before all others
            if score[q, last] < np.inf:
                break
            start_with(
                rows[q], labels[q], numbers[q], references, reference_labels, first, want, squared,
                lower[q], score[q], index[q], zero,
            )  # fmt: skip
        shift = slack[q] - offset[q]
        for start in range(0, lower.shape[1], 64):
            bound = lower[q, start : start + 64]
            some = False
            for j in range(bound.shape[0]):
                some |= bound[j] <= score[q, last] + shift
            if not some:
                continue
            for j in range(bound.shape[0]):
                r = first + start + j
                if bound[j] > score[q, last] + shift or r == numbers[q]:
                    continue
                if wanted(labels[q], reference_labels[r], want):
                    insert(score[q], index[q], summed(rows[q], references[r], squared, score[q, last], zero), r)


@njit(cache=True, nogil=True)
def start_with(
    row: NDArray[Any],
    label: int,
    number: int,
    references: NDArray[Any],
    reference_labels: NDArray[Any],
    first: int,
    want: int,
    squared: bool,
    lower: NDArray[Any],
    score: NDArray[Any],
    index: NDArray[Any],
    zero: Any,
) -> None:
    """Insert the reference with the least ``lower`` bound that is not in ``index`` yet; arguments as of :func:`sweep`.

    ``row``, ``label`` and ``number`` are one query; ``references``, ``reference_labels``, ``first``, ``want``,
    ``squared``, ``score`` and ``zero`` as there.
    """
    best, chosen = np.inf, -1
    for j in range(lower.shape[0]):
        r = first + j
        if lower[j] < best and r != number and wanted(label, reference_labels[r], want) and not np.any(index == r):
            best, chosen = lower[j], r
    if chosen >= 0:
        insert(score, index, summed(row, references[chosen], squared, np.inf, zero), chosen)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def group_bounds(queries: NDArray[Any], references: NDArray[Any], enough: NDArray[Any], lower: NDArray[Any]) -> None:
    """lower[q, j] = sum_g |queries[q, g] - references[j, g]|, abandoned once it exceeds enough[q]."""
    groups = queries.shape[1]
    for q in range(queries.shape[0]):
        a = queries[q]
        for j in range(references.shape[0]):
            b, total = references[j], np.float32(0)
            for start in range(0, groups, 48):
                x, y = a[start : start + 48], b[start : start + 48]
                part = np.float32(0)
                for g in range(x.shape[0]):
                    part += abs(x[g] - y[g])
                total += part
                if total > enough[q]:
                    break
            lower[q, j] = total
