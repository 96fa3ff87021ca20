"""Pictures of inputs in one sheet, for example one row per variant and one column per class. Pillow only."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from radii.data import subspace, variant_chain
from radii.data.dataset import Data, as_float
from radii.errors import InputError

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
CELL, GAP, HEADING = 64, 4, 22
INK, PAPER = (32, 33, 36), (255, 255, 255)


def examples(data: Data, chains: Sequence[str], columns: int = 10) -> list[tuple[str, NDArray[np.float32]]]:
    """The first training image of each class, as it is and under chains of variants.

    Only these images are changed; ``pca`` is still fitted on the whole training
    split, so it must come first in its chain.

    Args:
        data: the dataset; it must have images.
        chains: variants, each as ``smooth:3+saturate:8``.
        columns: the largest number of classes; default 10.

    Returns:
        (text, images [k, c, h, w]) for the original and each chain.
    """
    if not data.train.is_image:
        raise InputError(f"A gallery needs images, {data.name} has features of shape {data.shape}.")
    first = [int(np.argmax(data.train.y == label)) for label in np.unique(data.train.y)[:columns]]
    few = data.train.take(np.array(first))
    rows = [("original", as_float(few.x))]
    for text in chains:
        shown = Data(few, few, data.name)
        for place, part in enumerate(text.split("+")):
            shown = _changed(shown, variant_chain.parse(part), data if place == 0 else None)
        rows.append((text, as_float(shown.train.x)))
    return rows


def _changed(few: Data, variant: variant_chain.Variant, whole: Data | None) -> Data:
    if variant.kind in variant_chain.POINTS:
        raise InputError(f"{variant} says which points there are, not how images look: leave it out of the gallery.")
    if variant.kind != "pca":
        return variant.apply(few)
    if whole is None:
        raise InputError("In a gallery pca must be the first variant of its chain.")
    ranges = subspace.parse_ranges(variant.argument)
    images = replace(few.train, x=subspace.cached_basis(whole.train).project(few.train.x, ranges), known_digest=None)
    return Data(images, images, few.name)


def draw(rows: Sequence[tuple[str, NDArray[np.float32]]], headings: Sequence[str]) -> Image.Image:
    """Draw ``rows`` of (text, images in [0, 1]), texts at the left, ``headings`` above; pixels become whole squares."""
    count, _, height, width = rows[0][1].shape
    factor = max(1, CELL // max(height, width))
    high, wide = height * factor, width * factor
    font = ImageFont.load_default(size=13)
    left = GAP * 2 + int(max(font.getlength(text) for text, _ in rows))
    size = (left + count * (wide + GAP), HEADING + len(rows) * (high + GAP))
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    for column, heading in enumerate(headings[:count]):
        pen.text((left + column * (wide + GAP), GAP), _fitting(heading, wide, font), INK, font)
    for row, (text, images) in enumerate(rows):
        top = HEADING + row * (high + GAP)
        pen.text((GAP, top + high // 2 - 8), text, INK, font)
        for column, image in enumerate(images):
            sheet.paste(
                picture(image).resize((wide, high), Image.Resampling.NEAREST), (left + column * (wide + GAP), top)
            )
    return sheet


def encode(sheet: Image.Image, path: Path) -> bytes:
    """The bytes of the picture ``sheet`` in the format that the suffix of ``path`` names."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"The gallery must be a {', '.join(FORMATS)} file, got {path.name!r} instead.")
    buffer = io.BytesIO()
    sheet.save(buffer, format=FORMATS[path.suffix.lower()])
    return buffer.getvalue()


def picture(pixels: Any) -> Image.Image:
    """A picture of ``pixels`` (C, H, W) or (H, W), uint8 or floats in [0, 1], array or tensor; C is 1 or 3."""
    array = np.asarray(pixels.detach().cpu() if hasattr(pixels, "detach") else pixels)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise InputError(f"A picture must be (C, H, W) with 1 or 3 channels, got the shape {array.shape} instead.")
    if array.dtype != np.uint8:
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise InputError(f"Pixels must lie in [0, 1], got [{array.min():.3g}, {array.max():.3g}].")
        array = np.rint(array * 255).astype(np.uint8)
    return Image.fromarray(array[0] if array.shape[0] == 1 else np.moveaxis(array, 0, -1))


def _fitting(text: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    while len(text) > 1 and font.getlength(text) > width:
        text = text[:-1]
    return text
