"""Training points that are chosen from or made of others; the test split stays as it is.

``rest:N`` is what ``subset:N`` leaves out, ``deform:K`` are K elastic deformations of
every image, ``draw:N`` are N draws of a small generator. They serve as extra
training data: ``--extra mnist+deform:4``. A made image is new only as far as its
maker is: all knowledge of the classes comes from the images it was made of.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from radii.data.dataset import Dataset, as_float, balanced_order
from radii.errors import InputError
from radii.randomness import numpy_stream

SMOOTHNESS, STRENGTH = 4.0, 34.0  # pixels of an image with 28 a side: Simard et al. 2003
COMPONENTS = 128  # of the generator
CHUNK = 2000


def subset(points: Dataset, count: int) -> Dataset:
    """``count`` class-balanced ``points``, see :meth:`Dataset.subset`."""
    return points.subset(count)


def rest(points: Dataset, count: int) -> Dataset:
    """What ``subset(points, count)`` leaves out.

    Raises:
        InputError: nothing is left out.
    """
    if not 0 < count < len(points):
        raise InputError(f"The rest of {points.name} is without 1 to {len(points) - 1} points, got {count} instead.")
    return points.take(balanced_order(points.y, 0)[count:])


def deform(points: Dataset, copies: int) -> Dataset:
    """``copies`` elastic deformations of every one of the images ``points``.

    Every pixel is read at a place moved by a smooth random field: uniform noise,
    blurred by a Gaussian of 4 pixels and multiplied by 34, which moves pixels by 1.4 of 28
    (other sizes in proportion). What comes from outside the image is its nearest edge pixel.

    Raises:
        InputError: ``copies`` is below 1, or inputs are not images.
    """
    if copies < 1 or not points.is_image:
        raise InputError(f"Deformed copies need images and a number of at least 1, got {points.shape} and {copies}.")
    parts = [
        _deformed(points.x[start : start + CHUNK], copy, start)
        for copy in range(copies)
        for start in range(0, len(points), CHUNK)
    ]
    return replace(points, x=np.concatenate(parts), y=np.tile(points.y, copies), known_digest=None)


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

    Raises:
        InputError: ``count`` is below 1, or a class has no points.
    """
    labels = np.unique(points.y)
    if count < 1 or len(labels) < len(points.classes):
        raise InputError(f"Draws need points of every class and a number of at least 1, got {count} instead.")
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
