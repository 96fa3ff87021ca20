"""Principal components of a training set, and images with only some of them left.

``pca:1-16,513-3072`` keeps those principal components, 1-based and inclusive,
of the flattened, mean-centered training set (Prach & Lampert 2025, section 6)::

    x  ->  mean + W_S W_S^T (x - mean)

fitted on train, applied to both splits. The exact projection may leave [0, 1];
:meth:`Basis.project` clips it, since a radius always means pixels in [0, 1].
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radii import progress
from radii.data import cache
from radii.data.dataset import Dataset, as_float
from radii.data.variants import Pixels
from radii.errors import InputError
from radii.files import whole_file

Ranges = tuple[tuple[int, int], ...]
CHUNK = 1000


@dataclass(frozen=True)
class Basis:
    """Principal components of a training set with d pixels.

    ``mean`` [d]; ``components`` [d, d], one unit vector per row, by falling
    variance; ``variance`` [d] along each of them (divided by n).
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float32]
    variance: NDArray[np.float64]

    def project(self, x: Pixels, ranges: Ranges, clip: bool = True) -> NDArray[np.float32]:
        """mean + W_S W_S^T (x - mean) in float32, in the shape of ``x``; ``clip``: images are clipped to [0, 1]."""
        d = len(self.mean)
        if int(np.prod(x.shape[1:])) != d:
            raise InputError(f"These components are of {d} pixels, got inputs of shape {tuple(x.shape[1:])} instead.")
        kept = _rows(ranges, d)
        # The fewer of kept and dropped components make the cheaper product: x - the dropped part is the kept part.
        complement = 2 * len(kept) > d
        W = self.components[np.setdiff1d(np.arange(d), kept) if complement else kept]
        mean = self.mean.astype(np.float32)
        out = np.empty(x.shape, np.float32)
        with progress.task("projecting", total=len(x), unit="images") as task:
            for start in range(0, len(x), CHUNK):
                centered = as_float(x[start : start + CHUNK]).reshape(-1, d) - mean
                part = (centered @ W.T) @ W
                kept_part = (centered - part if complement else part) + mean
                out[start : start + CHUNK] = kept_part.reshape(-1, *x.shape[1:])
                task.advance(len(centered))
        return np.clip(out, 0, 1, out=out) if clip and x.ndim == 4 else out


def fit(x: Pixels) -> Basis:
    """All principal components of ``x`` [n, …], from the d x d covariance.

    Products of chunks are float32, their sums float64. One row more or less
    than d changes nothing: with n <= d the last components span the null space.
    """
    d = int(np.prod(x.shape[1:]))
    mean = np.zeros(d)
    for start in range(0, len(x), CHUNK):
        mean += as_float(x[start : start + CHUNK]).reshape(-1, d).sum(0, dtype=np.float64)
    mean /= len(x)
    covariance = np.zeros((d, d))
    with progress.task("principal components", total=len(x), unit="images") as task:
        for start in range(0, len(x), CHUNK):
            centered = (as_float(x[start : start + CHUNK]).reshape(-1, d) - mean).astype(np.float32)
            covariance += centered.T @ centered
            task.advance(len(centered))
    variance, vectors = np.linalg.eigh(covariance / len(x))
    components = np.ascontiguousarray(vectors[:, ::-1].T)
    # A component's sign is arbitrary: its largest entry is made positive, so that equal data give equal bases.
    largest = np.take_along_axis(components, np.abs(components).argmax(1)[:, None], 1)
    components *= np.where(largest < 0, -1.0, 1.0)
    return Basis(mean, components.astype(np.float32), np.maximum(variance[::-1], 0))


def cached_basis(train: Dataset) -> Basis:
    """The components of the training split ``train``, computed once and kept in the cache."""
    path = cache.folder() / "pca" / f"{train.digest[:32]}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:
            return Basis(stored["mean"], stored["components"], stored["variance"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):  # missing or damaged: computed again
        basis = fit(train.x)
    with cache.writing(path), whole_file(path) as file:
        np.savez(file, mean=basis.mean, components=basis.components, variance=basis.variance)
    return basis


def parse_ranges(text: str) -> Ranges:
    """Read ``text`` as ``1-16,513-3072``: 1-based inclusive ranges. They are sorted; touching ones are joined.

    >>> parse_ranges("513-3072,1-8,9-16")
    ((1, 16), (513, 3072))
    """
    ranges: list[tuple[int, int]] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,12})\s*(?:-\s*(\d{1,12})\s*)?", part)
        if match is None or not 1 <= int(match[1]) <= int(match[2] or match[1]):
            raise InputError(f"Components must be given as ranges such as 1-16,513-3072, counted from 1, got {text!r}.")
        ranges.append((int(match[1]), int(match[2] or match[1])))
    ranges.sort()
    joined = [ranges[0]]
    for low, high in ranges[1:]:
        if low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def format_ranges(ranges: Ranges) -> str:
    """The text of ranges, as :func:`parse_ranges` reads it."""
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in ranges)


def _rows(ranges: Ranges, d: int) -> NDArray[np.int64]:
    if ranges[-1][1] > d:
        raise InputError(f"There are {d} principal components, got the range {format_ranges(ranges)} instead.")
    return np.concatenate([np.arange(low - 1, high) for low, high in ranges])
