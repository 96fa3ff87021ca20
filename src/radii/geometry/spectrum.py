"""The principal-component spectrum: in how few directions the data varies (Prach & Lampert 2025, Sec. 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii import progress
from radii.data.dataset import Dataset, as_float
from radii.data.subspace import cached_basis
from radii.errors import InputError
from radii.geometry.search._l2_l1 import TILE, center_of, scalar_products
from radii.geometry.search.points import Points, labelled, rows_at_a_time
from radii.randomness import numpy_stream

MOST_COORDINATES = 4096  # up to so many, the covariance is made: 134 MB
MOST_POINTS, MOST_PRODUCTS = 8192, 1e13  # up to so many, the Gram matrix: 537 MB, about a minute of one core
LEADING, OVERSAMPLED, ITERATIONS = 256, 16, 4


@dataclass(frozen=True)
class Spectrum:
    """Variances [d] of the principal components, falling."""

    variance: NDArray[np.float64]

    def share(self, first: int, last: int) -> float:
        """The share of all variance in components ``first``..``last``, 1-based and inclusive."""
        if not 1 <= first <= last <= len(self.variance):
            raise InputError(f"Components must lie in 1..{len(self.variance)}, got {first}..{last} instead.")
        total = float(self.variance.sum())
        return float(self.variance[first - 1 : last].sum()) / total if total else 0.0

    def components_for(self, share: float) -> int:
        """How many leading components hold a ``share`` of the variance."""
        total = float(self.variance.sum())
        return int(np.searchsorted(np.cumsum(self.variance), share * total * (1 - 1e-12)) + 1) if total else 0

    def rows(self) -> list[dict[str, float]]:
        """Tidy rows ``components``, ``share``: the variance held by the first k, k doubling."""
        d = len(self.variance)
        counts = sorted({min(2**power, d) for power in range(d.bit_length() + 1)})
        return [{"components": k, "share": self.share(1, k)} for k in counts]

    def summary(self) -> dict[str, Any]:
        """Components needed for 50, 90, 99 and 99.9% of the variance."""
        return {f"{share:g}": self.components_for(share) for share in (0.5, 0.9, 0.99, 0.999)}


def principal_spectrum(train: Dataset) -> Spectrum:
    """The spectrum of a training set's flattened, mean-centered inputs.

    With up to 4,096 coordinates from the d x d covariance, whose components are kept in the cache; with up to 8,192
    points from the n x n Gram matrix, which has the same eigenvalues; with more of both the first 256 variances
    come from a randomized subspace iteration (Halko, Martinsson & Tropp 2011, Algorithm 4.4). The rest of the
    variance, which is known exactly, is then spread evenly: the number of components for a share is an upper bound
    beyond the first 256.
    """
    n, d = len(train), int(np.prod(train.shape))
    if d <= MOST_COORDINATES:
        return Spectrum(cached_basis(train).variance)
    if n <= MOST_POINTS and n * n * d <= MOST_PRODUCTS:
        return Spectrum(_by_gram(labelled(train.x, train.y)))
    return Spectrum(_randomized(train.x.reshape(n, -1)))


def _blocks(flat: NDArray[Any]) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Rows of pixels in [0, 1], about 64 MB at a time."""
    step = max(1, (1 << 24) // flat.shape[1])
    for start in range(0, len(flat), step):
        yield slice(start, start + step), as_float(np.asarray(flat[start : start + step]))


def _mean(flat: NDArray[Any]) -> NDArray[np.float64]:
    return sum((rows.sum(0, dtype=np.float64) for _, rows in _blocks(flat)), np.zeros(flat.shape[1])) / len(flat)


def _by_gram(points: Points) -> NDArray[np.float64]:
    """Variances [min(n, d)] from the Gram matrix, centered after the products (which are exact for uint8)."""
    rows, n, block = points.rows, len(points), rows_at_a_time(points.dimensions, TILE, 1 << 27)
    gram, center = np.empty((n, n)), center_of(rows)
    with progress.task("spectrum", total=n, unit="points") as task:
        for start in range(0, n, block):
            part = slice(start, start + block)
            for first in range(0, start + 1, block):
                other = slice(first, first + block)
                gram[part, other] = scalar_products(rows[part], rows[other], center)
                gram[other, part] = gram[part, other].T
            task.advance(len(rows[part]))
    mean = gram.mean(0)
    gram -= mean
    gram -= mean[:, None] - mean.mean()
    variance = np.linalg.eigvalsh(gram) / n / points.levels**2
    return np.maximum(variance[::-1][: min(n, points.dimensions)], 0)


def _randomized(flat: NDArray[Any]) -> NDArray[np.float64]:
    """The leading variances by subspace iteration, and the rest of the variance spread evenly."""
    n, d = flat.shape
    mean, count = _mean(flat).astype(np.float32), LEADING + OVERSAMPLED
    basis = numpy_stream(0, "spectrum").normal(size=(d, count)).astype(np.float32)
    total, variance = 0.0, np.zeros(count)
    with progress.task("spectrum", total=ITERATIONS * n, unit="points") as task:
        for _ in range(ITERATIONS):
            basis = np.linalg.qr(basis)[0]
            product, total = np.zeros((d, count), np.float32), 0.0
            small = np.zeros((count, count))
            for _, rows in _blocks(flat):
                centered = rows - mean
                along = centered @ basis
                product += centered.T @ along
                small += along.T.astype(np.float64) @ along
                total += float(np.einsum("nd,nd->", centered, centered, dtype=np.float64))
                task.advance(len(rows))
            variance = np.linalg.eigvalsh(small)[::-1] / n
            basis = product
    variance, rest = np.maximum(variance[:LEADING], 0), min(n - 1, d) - LEADING
    return np.concatenate([variance, np.full(rest, max(total / n - variance.sum(), 0.0) / rest)])
