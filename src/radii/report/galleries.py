"""Pictures of inputs: pixels become PNG data URIs, small enough to stand in the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from radii.data.dataset import Data
from radii.data.gallery import picture
from radii.geometry.audit import Audit
from radii.geometry.audit_tables import closest_pairs
from radii.tables import format_radius


@dataclass(frozen=True)
class Picture:
    """One picture and what to say under it."""

    source: str  # a data URI
    caption: str = ""


@dataclass(frozen=True)
class Example:
    """An input and its pictures side by side: clean, perturbation, adversarial."""

    title: str
    pictures: tuple[Picture, ...]
    note: str = ""


@dataclass(frozen=True)
class Gallery:
    """A grid of examples."""

    title: str
    examples: tuple[Example, ...]
    note: str = ""


def data_uri(pixels: Any) -> str:
    """An image as a PNG data URI; see :func:`radii.data.gallery.picture` for what ``pixels`` may be."""
    file = io.BytesIO()
    picture(pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def perturbation(clean: Any, adversarial: Any) -> str:
    """The difference of two images, gray where nothing moved, stretched to the full range.

    Args:
        clean: the input, pixels in [0, 1].
    """
    moved = np.asarray(adversarial, dtype=np.float64) - np.asarray(clean, dtype=np.float64)
    most = np.abs(moved).max()
    return data_uri(0.5 + moved / (2 * most) if most > 0 else np.full(moved.shape, 0.5))


def closest_pairs_gallery(audit: Audit, data: Data) -> Gallery:
    """The closest pairs of training images: what sets the separation."""
    examples = tuple(
        Example(
            f"{format_radius(float(f'{pair.distance:.3g}'))} apart",
            tuple(
                Picture(data_uri(image), f"{name}, image {index}")
                for image, name, index in zip((pair.point, pair.neighbor), pair.classes, pair.indices, strict=True)
            ),
        )
        for pair in closest_pairs(audit.train, data.train, data.train)
    )
    note = f"Each training image beside its nearest one of another class, in {audit.norm}, nearest first."
    return Gallery(data.name, examples, note)
