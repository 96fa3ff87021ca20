"""Exact L2 neighbors of long rows: a scalar product for every pair, the exact score for the few it leaves.

||x - y||² = ||x||² + ||y||² - 2<x, y>. Where rows have more coordinates than there are references, 128 directions
leave too much of a row out, and fitting them costs more than all the products. Rows are centered; products are
float32, over 1,024 coordinates at a time, and added in float64. With uint8 rows centered at 128 every such product
is a sum of whole numbers below 2^24, so it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.geometry.search.best import Best
from radii.geometry.search.points import Points, fixed, rows_at_a_time
from radii.geometry.search.pruned import TILE, UNIT, zero_of

COORDINATES, CHUNK = 1024, 1024


@dataclass(frozen=True)
class ProductSearch:
    """References prepared for L2: their center [d] and squared lengths [n] from there."""

    references: Points
    want: int
    center: NDArray[np.float32]
    lengths: NDArray[np.float64]

    def __call__(self, queries: Points, numbers: NDArray[np.int64], k: int) -> Best:
        """The k best references of each query; ``numbers`` are the queries' own references or -1."""
        from radii.geometry.search.kernels import sweep

        best, chunk = Best.empty(len(queries), k), rows_at_a_time(queries.dimensions, CHUNK, 1 << 26)
        for start in range(0, len(queries), chunk):
            part = slice(start, start + chunk)
            rows, labels = np.array(queries.rows[part], order="C"), fixed(queries.labels[part])
            length = squared_lengths(rows, self.center)
            slack = self.rounding(length)
            for first in range(0, len(self.references), TILE):
                tile = slice(first, first + TILE)
                products = scalar_products(rows, self.references.rows[tile], self.center)
                lower = (self.lengths[tile] - 2 * products).astype(np.float32)
                sweep(
                    rows, labels, numbers[part], self.references.rows, self.references.labels, first,
                    self.want, True, lower, length, slack, best.score[part], best.index[part], zero_of(rows),
                )  # fmt: skip
        return best

    def rounding(self, length: NDArray[np.float64]) -> NDArray[np.float64]:
        """A bound on the error of each query's computed bounds [n], for rows of these squared lengths.

        A float32 sum over 1,024 coordinates errs by at most 1,024 units of the product of the lengths (uint8: not at
        all), centering and the final rounding to float32 by a few units more. Twice their sum is taken.
        """
        terms = 0 if self.references.rows.dtype == np.uint8 else COORDINATES
        longest = np.sqrt(float(self.lengths.max(initial=0)))
        return 2 * (terms + 8) * UNIT * (np.sqrt(length) + longest) ** 2


def prepare_products(references: Points, want: int) -> ProductSearch:
    """Center all ``references`` and measure their lengths; ``want`` as in the kernels."""
    center = center_of(references.rows)
    return ProductSearch(references, want, center, squared_lengths(references.rows, center))


def center_of(rows: NDArray[Any], sample: int = 1024) -> NDArray[np.float32]:
    """128 for uint8 ``rows``, which keeps products exact; else the mean of about ``sample`` rows, so that lengths,
    and with them rounding, are small. Any center [d] gives right distances.
    """
    if rows.dtype == np.uint8:
        return np.full(rows.shape[1], 128, np.float32)
    step = -(-len(rows) // rows_at_a_time(rows.shape[1], sample, 1 << 26))
    return rows[::step].mean(0, dtype=np.float64).astype(np.float32)


def scalar_products(rows: NDArray[Any], others: NDArray[Any], center: NDArray[np.float32]) -> NDArray[np.float64]:
    """Scalar products of ``rows`` - ``center`` with ``others`` - ``center``: [n, d], [m, d] -> [n, m]."""
    total = np.zeros((len(rows), len(others)))
    for start in range(0, rows.shape[1], COORDINATES):
        part = slice(start, start + COORDINATES)
        total += (rows[:, part] - center[part]) @ (others[:, part] - center[part]).T
    return total


def squared_lengths(rows: NDArray[Any], center: NDArray[np.float32]) -> NDArray[np.float64]:
    """Squared lengths of ``rows`` - ``center``: [n, d] -> [n]; exact for uint8."""
    total, step = np.zeros(len(rows)), rows_at_a_time(COORDINATES, len(rows))
    for first in range(0, len(rows), step):
        block = slice(first, first + step)
        for start in range(0, rows.shape[1], COORDINATES):
            part = slice(start, start + COORDINATES)
            centered = rows[block, part] - center[part]
            total[block] += np.einsum("nd,nd->n", centered, centered)
    return total
