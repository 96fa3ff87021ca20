"""Pictures of inputs: pixels become PNG data URIs, small enough to stand in the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from radii.errors import InputError


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
    """An image (C, H, W) or (H, W), uint8 or floats in [0, 1], as a PNG data URI; C is 1 or 3."""
    array = np.asarray(pixels.detach().cpu() if hasattr(pixels, "detach") else pixels)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise InputError(f"A picture must be (C, H, W) with 1 or 3 channels, got the shape {array.shape} instead.")
    if array.dtype != np.uint8:
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise InputError(f"Pixels must lie in [0, 1], got [{array.min():.3g}, {array.max():.3g}].")
        array = np.rint(array * 255).astype(np.uint8)
    image = Image.fromarray(array[0] if array.shape[0] == 1 else np.moveaxis(array, 0, -1))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def perturbation(clean: Any, adversarial: Any) -> str:
    """The difference of two images, gray where nothing moved, stretched to the full range."""
    moved = np.asarray(adversarial, dtype=np.float64) - np.asarray(clean, dtype=np.float64)
    most = np.abs(moved).max()
    return data_uri(0.5 + moved / (2 * most) if most > 0 else np.full(moved.shape, 0.5))
