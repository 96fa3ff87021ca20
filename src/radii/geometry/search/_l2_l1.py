"""Exact L2 and L1 neighbors: a cheap lower bound for every pair, the exact score for the few it leaves.

L2: rows are projected on k principal directions W, and the length of what is
left over becomes one more coordinate. By Pythagoras and the triangle
inequality ||x - y||² >= ||Wx - Wy||² + (res(x) - res(y))², which is one small
matrix product. L1: sums over groups of g coordinates,
||x - y||_1 >= sum_g |S_g(x) - S_g(y)|.

Both bounds are lowered by the worst rounding of their own arithmetic, so no
nearest neighbor is lost to cancellation, and every survivor is compared in
whole numbers (uint8) or float64 (float32).

L2 of long rows: a scalar product for every pair,
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

from radii.geometry.search.k_best import Best
from radii.geometry.search.points import Points, fixed, rows_at_a_time

COMPONENTS, GROUP, CHUNK, TILE = 128, 16, 256, 2048
UNIT = 2.0**-24  # rounding of one float32 operation


@dataclass(frozen=True)
class ProjectedSearch:
    """References prepared for L2: their projections [n, k + 1] with squared lengths [n]."""

    references: Points
    want: int
    mean: NDArray[np.float64]  # [d]
    directions: NDArray[np.float64]  # [d, k], orthonormal
    projected: NDArray[np.float32]  # [n, k + 2]: projection, residual, squared length

    def __call__(self, queries: Points, numbers: NDArray[np.int64], k: int) -> Best:
        """The k best references of each query; ``numbers`` are the queries' own references or -1."""
        from radii.geometry.search._kernels import sweep

        best, chunk = Best.empty(len(queries), k), rows_at_a_time(queries.dimensions, CHUNK)
        for start in range(0, len(queries), chunk):
            part = slice(start, start + chunk)
            rows, labels = np.array(queries.rows[part], order="C"), fixed(queries.labels[part])
            own = project(rows, self.mean, self.directions)
            length = (own.astype(np.float64) ** 2).sum(1)
            left = np.concatenate([-2 * own, np.ones((len(own), 1), np.float32)], 1)
            slack = self.rounding(length)
            for first in range(0, len(self.references), TILE):
                lower = left @ self.projected[first : first + TILE].T  # ||p_y||² - 2<p_x, p_y>
                sweep(
                    rows, labels, numbers[part], self.references.rows, self.references.labels, first,
                    self.want, True, lower, length, slack, best.score[part], best.index[part], zero_of(rows),
                )  # fmt: skip
        return best

    def rounding(self, length: NDArray[np.float64]) -> NDArray[np.float64]:
        """A bound on the error of each query's computed bounds [n], for projections of these squared lengths.

        A product of k + 2 float32 terms errs by at most (k + 2) units of the
        product of the lengths; storing projections and residuals in float32
        adds a few units more. Twice their sum is taken.
        """
        longest = np.sqrt(float(self.projected[:, -1].max(initial=0)))
        return 2 * (self.projected.shape[1] + 8) * UNIT * (np.sqrt(length) + longest) ** 2


def prepare_l2(references: Points, want: int, rng: np.random.Generator) -> ProjectedSearch:
    """Fit directions on a sample of ``references`` by ``rng`` and project all of them; ``want`` as in the kernels."""
    mean, directions = principal_directions(references.rows, COMPONENTS, rng)
    projected = np.empty((len(references), directions.shape[1] + 2), np.float32)
    step = rows_at_a_time(references.dimensions, 512)
    for start in range(0, len(references), step):
        part = project(references.rows[start : start + step], mean, directions)
        projected[start : start + step, :-1] = part
        projected[start : start + step, -1] = (part.astype(np.float64) ** 2).sum(1)
    return ProjectedSearch(references, want, mean, directions, projected)


def principal_directions(
    rows: NDArray[Any], count: int, rng: np.random.Generator, sample: int = 2048
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean [d] and ``count`` orthonormal directions [d, count] near the principal ones of ``rows``.

    Three rounds of subspace iteration on ``sample`` rows, drawn by ``rng``. The bound holds for any orthonormal
    directions; good ones only make it tight.
    """
    sample = rows_at_a_time(rows.shape[1], sample, 1 << 26)
    some = rows[np.sort(rng.choice(len(rows), min(sample, len(rows)), replace=False))].astype(np.float32)
    mean = some.mean(0, dtype=np.float64)
    centered = some - mean.astype(np.float32)
    basis = rng.normal(size=(rows.shape[1], min(count, rows.shape[1]))).astype(np.float32)
    for _ in range(3):
        basis = np.linalg.qr(centered.T @ (centered @ basis))[0]
    return mean, np.linalg.qr(basis.astype(np.float64))[0]


def project(rows: NDArray[Any], mean: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float32]:
    """Coordinates of ``rows`` - ``mean`` along ``directions`` and the length of the residual: [n, d] -> [n, k + 1]."""
    centered = rows - mean
    along = centered @ directions
    left = np.einsum("nd,nd->n", centered, centered) - np.einsum("nk,nk->n", along, along)
    return np.concatenate([along, np.sqrt(np.maximum(left, 0))[:, None]], 1).astype(np.float32)


@dataclass(frozen=True)
class GroupedSearch:
    """References prepared for L1: sums over groups of coordinates [n, d / GROUP] and the largest L1 length."""

    references: Points
    want: int
    sums: NDArray[np.float32]
    longest: float

    def __call__(self, queries: Points, numbers: NDArray[np.int64], k: int) -> Best:
        """The k best references of each query; ``numbers`` are the queries' own references or -1."""
        from radii.geometry.search._kernels import group_bounds, sweep

        best, chunk = Best.empty(len(queries), k), rows_at_a_time(queries.dimensions, CHUNK)
        for start in range(0, len(queries), chunk):
            part = slice(start, start + chunk)
            rows, labels = np.array(queries.rows[part], order="C"), fixed(queries.labels[part])
            own, length = group_sums(rows)
            score = best.score[part]
            lower = np.empty((len(rows), TILE), np.float32)
            for first in range(0, len(self.references), TILE):
                sums = self.sums[first : first + TILE]
                slack = self.rounding(length, score[:, -1])
                group_bounds(own, sums, (score[:, -1] + slack).astype(np.float32), lower)
                sweep(
                    rows, labels, numbers[part], self.references.rows, self.references.labels, first,
                    self.want, False, lower[:, : len(sums)], np.zeros(len(rows)), slack, score, best.index[part],
                    zero_of(rows),
                )  # fmt: skip
        return best

    def rounding(self, length: NDArray[np.float64], reach: NDArray[np.float64]) -> NDArray[np.float64]:
        """A bound on the error of each query's computed bounds [n]; uint8 sums below 2^24 have none.

        Stored sums err by one unit of the L1 lengths, adding them by as many
        units of the bound as there are groups; twice that is taken.
        """
        if self.references.rows.dtype == np.uint8 and self.references.dimensions * 255 < 2**24:
            return np.zeros(len(length))
        bound = np.where(np.isfinite(reach), reach, 0.0)
        return 2 * UNIT * (length + self.longest + (self.sums.shape[1] + 4) * bound)


def prepare_l1(references: Points, want: int) -> GroupedSearch:
    """Sum all ``references`` over groups of coordinates; ``want`` as in the kernels."""
    step = rows_at_a_time(references.dimensions, 512)
    parts = [group_sums(references.rows[start : start + step]) for start in range(0, len(references), step)]
    longest = max(float(length.max()) for _, length in parts)
    return GroupedSearch(references, want, np.concatenate([sums for sums, _ in parts]), longest)


def group_sums(rows: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Sums of ``rows`` over GROUP coordinates each [n, ceil(d / GROUP)] and their L1 lengths [n]."""
    wide = rows.astype(np.float64)
    sums = np.add.reduceat(wide, np.arange(0, rows.shape[1], GROUP), axis=1).astype(np.float32)
    return sums, np.abs(wide).sum(1)


def zero_of(rows: NDArray[Any]) -> np.floating[Any]:
    """Zero in the type in which the differences of one block of these rows are summed."""
    return np.float32(0) if rows.dtype == np.uint8 else np.float64(0)


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
        from radii.geometry.search._kernels import sweep

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
