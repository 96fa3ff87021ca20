"""Distributions whose robust accuracy has a closed form: hypercubes, spheres, separated classes.

All points are drawn from ``generator`` and returned as float64 [n, dimension]
(labels as int64 [n]), because they are compared with exact formulas.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from radii.errors import InputError

Points = NDArray[np.float64]
Labels = NDArray[np.int64]
_SCIPY = {"l1": "cityblock", "l2": "euclidean", "linf": "chebyshev"}


def corners(dimension: int) -> NDArray[np.int8]:
    """All corners of {-1, +1}^dimension: [2^dimension, dimension]; bit j of the row number is coordinate j."""
    number = np.arange(1 << dimension)[:, None]
    return ((number >> np.arange(dimension)) & 1).astype(np.int8) * 2 - 1


def random_function(dimension: int, generator: Generator) -> NDArray[np.int8]:
    """A function from the corners of {-1, +1}^``dimension`` to {-1, +1}, uniform by ``generator``: [2^dimension]."""
    return generator.integers(0, 2, 1 << dimension, dtype=np.int8) * 2 - 1


def sphere(n: int, dimension: int, radius: float, generator: Generator) -> Points:
    """``n`` uniform points of the sphere of ``radius`` in R^``dimension``, drawn by ``generator``."""
    direction = generator.standard_normal((n, dimension))
    return radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)


def concentric_spheres(n: int, dimension: int, outer: float, generator: Generator) -> tuple[Points, Labels]:
    """``n`` points in R^``dimension`` by ``generator``: class 0 on the unit sphere, class 1 at radius ``outer``."""
    y = generator.integers(0, 2, n)
    x = sphere(n, dimension, 1.0, generator) * np.where(y == 1, outer, 1.0)[:, None]
    return x, y


def orthogonal(n: int, dimension: int, generator: Generator) -> Points:
    """``n`` orthogonal points of the sphere of radius sqrt(``dimension``), in a random position by ``generator``."""
    if n > dimension:
        raise InputError(f"At most {dimension} points are orthogonal in {dimension} dimensions, got n = {n} instead.")
    basis, _ = np.linalg.qr(generator.standard_normal((dimension, n)))
    return np.sqrt(dimension) * np.ascontiguousarray(basis.T)


def balanced_signs(n: int, generator: Generator) -> Labels:
    """``n`` labels in {-1, +1}, half of each (one more +1 if n is odd), in random order by ``generator``."""
    return generator.permutation(np.where(np.arange(n) % 2 == 0, 1, -1))


def separated_classes(
    classes: int, per_class: int, dimension: int, r: float, norm: Literal["l1", "l2", "linf"], generator: Generator
) -> tuple[Points, Labels]:
    """Classes whose smallest distance is exactly 2r, up to rounding.

    Uniform points are stretched until the closest pair of different classes is 2r apart.
    """
    x = generator.random((classes * per_class, dimension))
    y = np.repeat(np.arange(classes), per_class)
    closest = min(cdist(x[y == c], x[y > c], _SCIPY[norm]).min() for c in range(classes - 1))
    return x * (2 * r / closest), y


def slabs(n: int, dimension: int, gap: float, generator: Generator) -> tuple[Points, Labels]:
    """``n`` uniform points of [0, 1]^``dimension`` without the middle slab of width ``gap``; the label is the side.

    ``generator`` is the source of randomness.
    """
    y = generator.integers(0, 2, n)
    x = generator.random((n, dimension))
    x[:, 0] = x[:, 0] * (1 - gap) / 2 + np.where(y == 1, (1 + gap) / 2, 0.0)
    return x, y


def bernoulli_model(n: int, theta: Points, tau: float, generator: Generator) -> tuple[Points, Labels]:
    """``n`` labels ±1, equally likely; coordinate i is y theta_i with probability 1/2 + tau, else -y theta_i.

    Args:
        theta: the direction that separates the classes [dimension].
        tau: how much a coordinate tells about the label, in [0, 1/2].
    """
    y = generator.integers(0, 2, n) * 2 - 1
    agrees = generator.random((n, len(theta))) < 0.5 + tau
    return np.where(agrees, 1.0, -1.0) * theta * y[:, None], y
