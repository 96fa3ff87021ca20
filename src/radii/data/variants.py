"""Variants of a dataset: the same images with other pixel distributions, same shape, same range.

On pixels v in [0, 1] (Ding et al. 2019, sections 3 and 4)::

    binarize    1[v >= 0.5]
    saturate:p  sign(2v-1) |2v-1|^(2/p) / 2 + 1/2, p = inf is binarize
    gamma:g     v^g
    scale:a     a (v - 0.5) + 0.5, 0 <= a <= 1
    smooth:s    max(v, mean of s pixels along the rows' axis), mirror border
    smooth2d:s  the same with the s x s square of the paper's text
    edges       Canny edges with sigma 1

and, fitted on the training split, ``pca:ranges`` (:mod:`radii.data.subspace`)
and ``subset:n``. ``rest:N`` is what ``subset:N`` leaves out, ``deform:K`` are K elastic deformations of every
training image, ``draw:N`` are N draws of a small generator; they serve as extra training data
(``--extra mnist+deform:4``), and all that they know of the classes comes from the images they were made of.

A pixelwise map of uint8 images is a table of 256 float32
values, computed in float64 and rounded once: exact, and as fast as a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from radii import progress
from radii.data.dataset import Dataset, as_float, balanced_order
from radii.errors import InputError
from radii.process import physical_memory
from radii.randomness import numpy_stream

Pixels = NDArray[Any]
CHUNK = 2048


def binarize(x: Pixels) -> NDArray[np.uint8]:
    """1[v >= 0.5] of the pixels v of ``x``, as uint8 0 and 255."""
    threshold = 128 if x.dtype == np.uint8 else 0.5  # 127/255 < 0.5 < 128/255
    out = np.empty(x.shape, np.uint8)
    for rows in _chunks(len(x)):
        np.multiply(x[rows] >= threshold, 255, out=out[rows], casting="unsafe")
    return out


def saturate(x: Pixels, p: float) -> Pixels:
    """sign(2v-1) |2v-1|^(2/p) / 2 + 1/2 of the pixels v of ``x`` (Ding et al. 2019, section 3.1); p = 2: no change."""
    if not p > 0:
        raise InputError(f"saturate needs p > 0, got {p:g} instead.")
    if p == np.inf:
        return binarize(x)

    def curve(v: NDArray[np.float64]) -> NDArray[np.float64]:
        centered = 2 * v - 1
        return np.sign(centered) * np.abs(centered) ** (2 / p) / 2 + 0.5

    return _pointwise(x, curve)


def gamma(x: Pixels, g: float) -> Pixels:
    """v^g of the pixels v of ``x`` (Ding et al. 2019, section 4.1); g < 1 brightens."""
    if not 0 < g < np.inf:
        raise InputError(f"gamma needs a finite exponent above 0, got {g:g} instead.")
    return _pointwise(x, lambda v: v**g)


def scale(x: Pixels, a: float) -> Pixels:
    """a (v - 0.5) + 0.5 of the pixels v of ``x`` (Ding et al. 2019, section 5.2); a < 1 reduces the contrast."""
    if not 0 <= a <= 1:
        raise InputError(f"scale needs a factor in [0, 1], so that pixels stay in [0, 1], got {a:g} instead.")
    return _pointwise(x, lambda v: a * (v - 0.5) + 0.5)


def smooth(x: Pixels, s: int) -> Pixels:
    """max(v, mean of s pixels along axis -2) of ``x``, mirror border, window [i - s/2, i + s/2 - 1] for even s.

    The published tables of Ding et al. 2019 belong to this one-dimensional filter
    (it reproduces their volumes -1265 and -1234 exactly); the square filter of
    their text is :func:`smooth2d`.
    """
    return _smooth(x, s, axes=(-2,))


def smooth2d(x: Pixels, s: int) -> Pixels:
    """max(v, mean of the s x s square around v) of ``x``, mirror border (text of Ding et al. 2019, section 3.1)."""
    return _smooth(x, s, axes=(-2, -1))


def edges(x: Pixels) -> NDArray[np.uint8]:
    """Canny edges of ``x`` with sigma 1 (Ding et al. 2019, section 4.2), as uint8 0 and 255.

    Color images are first made grey by the luma 0.299 R + 0.587 G + 0.114 B and
    get the same edge map in every channel, so that the shape stays.
    """
    from skimage.feature import canny

    _need_images(x, "edges")
    out = np.empty(x.shape, np.uint8)
    with progress.task("edges", total=len(x), unit="images") as task:
        for rows in _chunks(len(x), 256):
            for number, image in enumerate(_grey(as_float(x[rows])), rows.start):
                out[number] = 255 * canny(image, sigma=1.0)
            task.advance(rows.stop - rows.start)
    return out


def _pointwise(x: Pixels, curve: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Pixels:
    """``curve`` of every pixel of ``x`` in [0, 1], as float32; evaluated in float64 and rounded once.

    Memory: the result and one chunk. uint8 images need only the 256 grey levels.
    """
    _need_images(x, "a pixelwise variant")
    out = np.empty(x.shape, np.float32)
    table = np.clip(curve(np.arange(256) / 255), 0, 1).astype(np.float32)
    # Chunks that stay in the processor's cache: np.take widens the indices to 8 bytes.
    for rows in _chunks(len(x), max(1, 200_000 // math.prod(x.shape[1:]))):
        if x.dtype == np.uint8:
            np.take(table, x[rows], out=out[rows], mode="clip")  # "clip" avoids a buffered copy
        else:
            out[rows] = np.clip(curve(x[rows].astype(np.float64)), 0, 1)
    return out


def _smooth(x: Pixels, s: int, axes: tuple[int, ...]) -> Pixels:
    """Sums of grey levels are integers, so one float32 division makes every result correctly rounded."""
    _need_images(x, "smooth")
    if s != int(s) or not 1 <= s <= min(x.shape[axis] for axis in axes):
        raise InputError(f"smooth needs a whole length from 1 to the image's side, got {s:g} for {x.shape[1:]} images.")
    s = int(s)
    exact = x.dtype == np.uint8
    count = s ** len(axes)
    out = np.empty(x.shape, np.float32)
    for rows in _chunks(len(x)):
        pixels = x[rows].astype(np.int32 if exact else np.float64)
        total = pixels
        for axis in axes:
            total = _window_sum(total, s, axis)
        best = np.maximum(pixels * count, total)
        out[rows] = best.astype(np.float32) / np.float32(255 * count) if exact else np.minimum(best / count, 1)
    return out


def _window_sum(values: NDArray, s: int, axis: int) -> NDArray:
    """Sums over windows [i - s//2, i - s//2 + s - 1] along ``axis``; the border mirrors about the edge pixel."""
    before, size = s // 2, values.shape[axis]
    padding = [(0, 0)] * values.ndim
    padding[axis] = (before, s - 1 - before)
    padded = np.pad(values, padding, mode="reflect")
    total = np.zeros_like(values)
    for shift in range(s):
        total += np.take(padded, range(shift, shift + size), axis=axis)
    return total


def _grey(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """[n, c, h, w] to [n, h, w]: the channel itself, the luma of RGB, else the mean of the channels."""
    channels = images.shape[1]
    weights = np.array([0.299, 0.587, 0.114] if channels == 3 else [1 / channels] * channels, np.float32)
    return images[:, 0] if channels == 1 else np.einsum("nchw,c->nhw", images, weights)


def _need_images(x: Pixels, what: str) -> None:
    if x.ndim != 4:
        raise InputError(f"{what} needs [n, c, h, w] images, got inputs of shape {tuple(x.shape)} instead.")


def _chunks(count: int, size: int = CHUNK) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


SMOOTHNESS, STRENGTH = 4.0, 34.0  # pixels of an image with 28 a side: Simard et al. 2003
COMPONENTS = 128  # of the generator
DEFORMED_TOGETHER = 2000


def subset(points: Dataset, count: int) -> Dataset:
    """``count`` class-balanced ``points``, see :meth:`Dataset.subset`."""
    return points.subset(count)


def rest(points: Dataset, count: int) -> Dataset:
    """What ``subset(points, count)`` leaves out."""
    if not 0 < count < len(points):
        raise InputError(f"The rest of {points.name} is without 1 to {len(points) - 1} points, got {count} instead.")
    return points.take(balanced_order(points.y, 0)[count:])


def deform(points: Dataset, copies: int) -> Dataset:
    """``copies`` elastic deformations of every one of the images ``points``.

    Every pixel is read at a place moved by a smooth random field: uniform noise,
    blurred by a Gaussian of 4 pixels and multiplied by 34, which moves pixels by 1.4 of 28
    (other sizes in proportion). What comes from outside the image is its nearest edge pixel.
    """
    if copies < 1 or not points.is_image:
        raise InputError(f"Deformed copies need images and a number of at least 1, got {points.shape} and {copies}.")
    _check_fits(points, copies * len(points))
    parts = [
        _deformed(points.x[start : start + DEFORMED_TOGETHER], copy, start)
        for copy in range(copies)
        for start in range(0, len(points), DEFORMED_TOGETHER)
    ]
    return replace(points, x=np.concatenate(parts), y=np.tile(points.y, copies), known_digest=None)


def _check_fits(points: Dataset, count: int) -> None:
    """Refuse ``count`` made points that the memory of this machine cannot hold."""
    memory, wanted = physical_memory(), count * prod(points.shape) * 4
    if memory is not None and wanted > memory:
        raise InputError(
            f"{count:,} points like those of {points.name} take {wanted / 1e9:,.0f} GB, and this machine has "
            f"{memory / 1e9:,.0f}; make fewer."
        )


def _deformed(x: NDArray[np.generic], copy: int, start: int) -> NDArray[np.generic]:
    count, _, height, width = x.shape
    scale = min(height, width) / 28
    noise = numpy_stream(0, "deform", copy, start).uniform(-1, 1, (2, count, height, width)).astype(np.float32)
    blur = SMOOTHNESS * scale  # divides the noise by 2 sqrt(pi) blur, hence the square of the scale below
    moved = STRENGTH * scale**2 * gaussian_filter(noise, (0, 0, blur, blur), mode="constant")
    rows = np.clip(np.arange(height, dtype=np.float32)[:, None] + moved[0], 0, height - 1)
    columns = np.clip(np.arange(width, dtype=np.float32) + moved[1], 0, width - 1)
    top, left = (np.minimum(at.astype(np.int64), end - 2) for at, end in ((rows, height), (columns, width)))
    down, right = (rows - top)[:, None], (columns - left)[:, None]
    image, pixels = np.arange(count)[:, None, None], as_float(x).transpose(0, 2, 3, 1)

    def at(i: int, j: int) -> NDArray[np.float32]:
        return pixels[image, top + i, left + j].transpose(0, 3, 1, 2)

    upper, lower = ((1 - right) * at(i, 0) + right * at(i, 1) for i in (0, 1))
    result = np.clip((1 - down) * upper + down * lower, 0, 1)
    return np.round(255 * result).astype(np.uint8) if x.dtype == np.uint8 else result.astype(np.float32)


def draw(points: Dataset, count: int) -> Dataset:
    """``count`` draws of a generator that is fitted to ``points``, classes in turn.

    The generator is a Gaussian for each class: its mean, and the class's variances along
    the first 128 principal components of all points, which are drawn
    independently. It knows colors and coarse shapes, and no details.
    """
    labels = np.unique(points.y)
    if count < 1 or len(labels) < len(points.classes):
        raise InputError(f"Draws need points of every class and a number of at least 1, got {count} instead.")
    _check_fits(points, count)
    x = as_float(np.asarray(points.x)).reshape(len(points), -1)
    mean = x.mean(0)
    values, vectors = np.linalg.eigh(np.cov((x - mean).T).astype(np.float64))
    basis = vectors[:, np.argsort(values)[::-1][:COMPONENTS]].T.astype(np.float32)
    y = np.resize(labels, count).astype(np.int64)
    made = np.empty((count, x.shape[1]), np.float32)
    for label in labels:
        own, rows = x[points.y == label], np.flatnonzero(y == label)
        spread = ((own - own.mean(0)) @ basis.T).std(0)
        normal = numpy_stream(0, "draw", int(label)).standard_normal((len(rows), len(basis))).astype(np.float32)
        made[rows] = own.mean(0) + (normal * spread) @ basis
    images = made.reshape(-1, *points.shape)
    if points.is_image:
        images = np.clip(images, 0, 1)
    if points.x.dtype == np.uint8:
        images = np.round(255 * images).astype(np.uint8)
    return replace(points, x=images, y=y, known_digest=None)
