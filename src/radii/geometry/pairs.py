"""The closest pairs of two classes as pictures: the quickest way to see what limits robustness."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.atomic import write_whole
from radii.data import gallery
from radii.data.dataset import Dataset, as_float
from radii.errors import InputError
from radii.geometry.separation import Separation
from radii.rounding import format_radius


@dataclass(frozen=True)
class PairPicture:
    """Two images [c, h, w] of different classes with their class names, their distance and their row numbers."""

    point: NDArray[Any]
    neighbor: NDArray[Any]
    classes: tuple[str, str]
    distance: float
    indices: tuple[int, int]


def closest_pairs(
    separation: Separation, points: Dataset, references: Dataset, count: int = 8
) -> tuple[PairPicture, ...]:
    """The ``count`` closest pairs of a separation of ``points`` from ``references``, nearest first."""
    if not points.is_image:
        raise InputError(f"Pictures of pairs need images, {points.name} has features of shape {points.shape}.")
    return tuple(
        PairPicture(
            points.x[pair.index],
            references.x[pair.neighbor],
            (points.classes[points.y[pair.index]], references.classes[references.y[pair.neighbor]]),
            pair.distance,
            (pair.index, pair.neighbor),
        )
        for pair in separation.pairs(count)
    )


def write_pairs(pairs: tuple[PairPicture, ...], path: Path) -> Path:
    """Write ``pairs`` as one picture to ``path``: points above, their nearest neighbors of another class below."""
    if not pairs:
        raise InputError("There are no pairs of different classes to draw.")
    rows = [
        ("point", as_float(np.stack([pair.point for pair in pairs]))),
        ("nearest", as_float(np.stack([pair.neighbor for pair in pairs]))),
        ("apart by", np.stack([_gap(pair) for pair in pairs])),
    ]
    headings = [format_radius(float(f"{pair.distance:.3g}")) for pair in pairs]
    write_whole(path, gallery.encode(gallery.draw(rows, headings), path))
    return path


def _gap(pair: PairPicture) -> NDArray[np.float32]:
    """|point - neighbor|, where the two differ: black is equal."""
    images = as_float(np.stack([pair.point, pair.neighbor]))
    return np.abs(images[0] - images[1])
