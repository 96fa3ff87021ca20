"""The Linf search: bit planes that exclude nearly all references, then rows compared with early abandoning.

References are searched in tiles of 4,096: 64 words with one bit per reference.
A plane holds, for one coordinate and one bound, which references reach that
bound; the references within reach of a query in that coordinate are one plane
and the complement of another, so one AND settles 64 pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from radii.geometry.search._kernels import BLOCK, insert, wanted

WORDS = 64
TILE = 64 * WORDS

# A de Bruijn sequence: isolated bit times this, shifted right by 58, is different for all 64 bits.
_BRUIJN = 0x03F79D71B4CB0A89
BRUIJN = np.uint64(_BRUIJN)
BIT = np.zeros(64, np.int64)
BIT[[((1 << bit) * _BRUIJN % 2**64) >> 58 for bit in range(64)]] = np.arange(64)


@njit(cache=True, nogil=True)
def largest(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The Linf score of the rows ``a`` and ``b``."""
    most = 0.0
    for j in range(a.shape[0]):
        most = max(most, abs(np.float64(a[j]) - np.float64(b[j])))
    return most


@njit(cache=True, nogil=True)
def bounds_below(bounds: NDArray[Any], value: float) -> int:
    """How many of the ascending bounds are at most ``value``."""
    low, high = 0, bounds.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def fill_planes(rows: NDArray[Any], dims: NDArray[Any], bounds: NDArray[Any], planes: NDArray[Any]) -> None:
    """Bit r of ``planes[tile, i, l]``: coordinate dims[i] of reference r is at least bounds[i, l-1].

    r are the ``rows``. Plane 0 is all ones and plane L+1 stays empty, so every interval is one plane and the
    complement of another.
    """
    for r in range(rows.shape[0]):
        bit = np.uint64(1) << np.uint64(r & 63)
        for i in range(dims.shape[0]):
            level = bounds_below(bounds[i], np.float64(rows[r, dims[i]]))
            planes[r // TILE, i, level, (r % TILE) >> 6] |= bit
    for t in range(planes.shape[0]):
        for i in range(planes.shape[1]):
            for level in range(planes.shape[2] - 2, -1, -1):
                for w in range(WORDS):
                    planes[t, i, level, w] |= planes[t, i, level + 1, w]


@njit(cache=True, nogil=True)
def set_limits(row: NDArray[Any], reach: float, margin: float, lo: NDArray[Any], hi: NDArray[Any]) -> None:
    """Set [``lo``, ``hi``] to within ``reach`` of each coordinate of ``row``, widened by ``margin`` for rounding."""
    whole = margin == 0.0
    for j in range(row.shape[0]):
        x = np.float64(row[j])
        slip = margin * (abs(x) + reach)
        lo[j] = max(x - reach, 0.0) if whole else x - reach - slip
        hi[j] = min(x + reach, 255.0) if whole else x + reach + slip


@njit(cache=True, nogil=True)
def inside(row: NDArray[Any], lo: NDArray[Any], hi: NDArray[Any], starts: NDArray[Any]) -> bool:
    """Whether ``row`` lies in the box [``lo``, ``hi``]: by blocks from ``starts``, the most selective first."""
    for start in starts:
        x, low, high = row[start : start + BLOCK], lo[start : start + BLOCK], hi[start : start + BLOCK]
        out = False
        for j in range(x.shape[0]):
            out |= (x[j] < low[j]) | (x[j] > high[j])
        if out:
            return False
    return True


@njit(cache=True, nogil=True)
def choose_planes(
    row: NDArray[Any],
    dims: NDArray[Any],
    bounds: NDArray[Any],
    kept: NDArray[Any],
    reach: float,
    margin: float,
    picks: NDArray[Any],
    flips: NDArray[Any],
) -> int:
    """The planes that exclude references farther than ``reach`` from this query, complemented where flips is all ones.

    Planes that would keep nearly everything are left out: ``kept`` is the share each keeps. ``row`` is the query;
    ``dims`` and ``bounds`` those of :func:`fill_planes`; ``margin`` as in :func:`set_limits`; ``picks`` and
    ``flips`` are overwritten. Returns their number.
    """
    count, levels = 0, bounds.shape[1]
    for i in range(dims.shape[0]):
        x = np.float64(row[dims[i]])
        slip = margin * (abs(x) + reach)
        below = bounds_below(bounds[i], x - reach - slip)
        if below > 0 and kept[i, below] < 0.95:
            picks[count], flips[count] = i * (levels + 2) + below, np.uint64(0)
            count += 1
        above = bounds_below(bounds[i], x + reach + slip) + 1
        if above <= levels and kept[i, above] > 0.05:
            picks[count], flips[count] = i * (levels + 2) + above, ~np.uint64(0)
            count += 1
    while count % 4:  # plane 0 changes nothing
        picks[count], flips[count] = 0, np.uint64(0)
        count += 1
    return count


@njit(cache=True, nogil=True)
def mask_labels(labels: NDArray[Any], first: int, label: int, want: int, mask: NDArray[Any]) -> None:
    """One bit of ``mask`` per reference from ``first`` on: its entry of ``labels`` counts for ``label``, ``want``."""
    for w in range(WORDS):
        word = np.uint64(0)
        start = first + 64 * w
        for j in range(min(64, labels.shape[0] - start)):
            word |= np.uint64(wanted(label, labels[start + j], want)) << np.uint64(j)
        mask[w] = word


@njit(cache=True, nogil=True)
def filter_tile(
    planes: NDArray[Any], picks: NDArray[Any], flips: NDArray[Any], count: int, alive: NDArray[Any]
) -> None:
    """``alive`` &= ``planes[picks]`` ^ ``flips``, the first ``count``, four at a time to read alive less often."""
    for o in range(0, count, 4):
        a, b, c, d = planes[picks[o]], planes[picks[o + 1]], planes[picks[o + 2]], planes[picks[o + 3]]
        fa, fb, fc, fd = flips[o], flips[o + 1], flips[o + 2], flips[o + 3]
        for w in range(WORDS):
            alive[w] &= (a[w] ^ fa) & (b[w] ^ fb) & (c[w] ^ fc) & (d[w] ^ fd)


@njit(cache=True, nogil=True)
def seed_linf(
    rows: NDArray[Any],
    labels: NDArray[Any],
    numbers: NDArray[Any],
    references: NDArray[Any],
    reference_labels: NDArray[Any],
    want: int,
    seeds: NDArray[Any],
    margin: float,
    starts: NDArray[Any],
    score: NDArray[Any],
    index: NDArray[Any],
) -> None:
    """Good bounds first: compare every query with the references ``seeds``, which are nearest to many.

    ``margin`` and ``starts`` as in :func:`set_limits` and :func:`inside`. ``rows``, ``labels`` and ``numbers``
    are the queries, their labels and their own references or -1;
    ``references``, ``reference_labels`` the points searched; ``want`` which labels count; ``score`` and ``index``
    [queries, k] the best so far, which are improved.
    """
    lo, hi = np.empty(rows.shape[1], rows.dtype), np.empty(rows.shape[1], rows.dtype)
    last = score.shape[1] - 1
    for q in range(rows.shape[0]):
        fresh = False
        for r in seeds:
            if r == numbers[q] or not wanted(labels[q], reference_labels[r], want):
                continue
            if score[q, last] < np.inf:
                if not fresh:
                    set_limits(rows[q], score[q, last], margin, lo, hi)
                    fresh = True
                if not inside(references[r], lo, hi, starts):
                    continue
            fresh = not insert(score[q], index[q], largest(rows[q], references[r]), r) and fresh


@njit(cache=True, nogil=True)
def scan_linf(
    rows: NDArray[Any],
    labels: NDArray[Any],
    numbers: NDArray[Any],
    references: NDArray[Any],
    reference_labels: NDArray[Any],
    want: int,
    dims: NDArray[Any],
    bounds: NDArray[Any],
    kept: NDArray[Any],
    planes: NDArray[Any],
    margin: float,
    starts: NDArray[Any],
    bits: NDArray[Any],
    score: NDArray[Any],
    index: NDArray[Any],
) -> None:
    """Search all references for a chunk of queries that is sorted by label.

    A reference at exactly the current distance counts only while it could have
    the lower index; beyond that, uint8 distances must be better by a whole level. Arguments as of
    :func:`seed_linf` (``rows``, ``labels``, ``numbers``, ``references``, ``reference_labels``, ``want``,
    ``margin``, ``starts``, ``score``, ``index``), :func:`fill_planes` (``dims``, ``bounds``, ``planes``) and
    :func:`choose_planes` (``kept``); ``bits`` is :data:`BIT`.
    """
    queries, last = rows.shape[0], score.shape[1] - 1
    grain = 1.0 if margin == 0.0 else 0.0
    picks = np.empty((queries, 2 * dims.shape[0] + 4), np.int64)
    flips = np.empty(picks.shape, np.uint64)
    counts, reached = np.zeros(queries, np.int64), np.full(queries, np.nan)
    lo, hi = np.empty(rows.shape[1], rows.dtype), np.empty(rows.shape[1], rows.dtype)
    mask, alive = np.empty(WORDS, np.uint64), np.empty(WORDS, np.uint64)
    for t in range(planes.shape[0]):
        first = t * TILE
        tile = planes[t].reshape(planes.shape[1] * planes.shape[2], WORDS)
        for q in range(queries):
            if q == 0 or labels[q] != labels[q - 1]:
                mask_labels(reference_labels, first, labels[q], want, mask)
            reach = score[q, last] - (grain if first > index[q, last] else 0.0)
            if reach != reached[q]:
                counts[q] = choose_planes(rows[q], dims, bounds, kept, reach, margin, picks[q], flips[q])
                reached[q] = reach
            alive[:] = mask
            filter_tile(tile, picks[q], flips[q], counts[q], alive)
            fresh = False
            for w in range(WORDS):
                word = alive[w]
                while word:
                    r = first + 64 * w + bits[((word & (~word + np.uint64(1))) * BRUIJN) >> np.uint64(58)]
                    word &= word - np.uint64(1)
                    if r == numbers[q]:
                        continue
                    if reach < np.inf:
                        if not fresh:
                            set_limits(rows[q], reach, margin, lo, hi)
                            fresh = True
                        if not inside(references[r], lo, hi, starts):
                            continue
                    if insert(score[q], index[q], largest(rows[q], references[r]), r):
                        reach = score[q, last] - (grain if r >= index[q, last] else 0.0)
                        fresh = False
