"""One size for images of many sizes: ``resize:64``, ``resize:64x48``, ``crop:56``, and ``gray``.

``resize:WxH`` scales an image, with its proportions, until it just covers W x H
and takes the center; ``resize:N`` is NxN. The filter is bilinear over the whole
area of a target pixel (antialiased). ``crop:WxH`` takes the center without
scaling. ``gray`` is the luma 0.299 R + 0.587 G + 0.114 B.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]
SIDES = "one side or WIDTHxHEIGHT in pixels, as 64 or 64x48"
MOST = 4096


def parse_size(text: str) -> Size:
    """Width and height from ``text``: ``64`` or ``64x48``.

    >>> parse_size("64")
    (64, 64)
    """
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip().lower())
    size = (int(match[1]), int(match[2] or match[1])) if match and len(text) < 12 else (0, 0)
    if not (min(size) >= 1 and max(size) <= MOST):
        raise InputError(f"A size is {SIDES}, at most {MOST} each, got {text!r} instead.")
    return size


def format_size(size: Size) -> str:
    """The shortest text of a size."""
    return str(size[0]) if size[0] == size[1] else f"{size[0]}x{size[1]}"


def resized(image: Image, size: Size) -> Image:
    """The center of ``image``, as large as the proportions of ``size`` allow, scaled to ``size``."""
    from PIL import Image as Pillow

    width, height = size
    scale = min(image.width / width, image.height / height)
    left, top = (image.width - width * scale) / 2, (image.height - height * scale) / 2
    box = (left, top, left + width * scale, top + height * scale)
    return image.resize(size, Pillow.Resampling.BILINEAR, box=box)


def cropped(image: Image, size: Size, where: str) -> Image:
    """The center of ``image`` in ``size``; ``where`` is its place in error messages."""
    left, top = (image.width - size[0]) // 2, (image.height - size[1]) // 2
    if left < 0 or top < 0:
        raise InputError(
            f"The image at {where} is {image.width} x {image.height} and cannot be cropped to {size[0]} x {size[1]}: "
            "use resize."
        )
    return image.crop((left, top, left + size[0], top + size[1]))


def apply_step(image: Image, step: str, where: str) -> Image:
    """``image`` after ``step``: ``resize:…``, ``crop:…`` or ``gray``; ``where`` is its place in error messages."""
    kind, _, argument = step.partition(":")
    if kind == "gray":
        return image.convert("L") if image.mode != "F" else image
    size = parse_size(argument)
    return resized(image, size) if kind == "resize" else cropped(image, size, where)


def resize(x: NDArray[Any], size: Size) -> NDArray[Any]:
    """Every image of ``x`` [n, c, h, w] scaled to ``size``; uint8 stays uint8, float32 float32."""
    return _each(x, size, f"resize:{format_size(size)}")


def crop(x: NDArray[Any], size: Size) -> NDArray[Any]:
    """The centers of the images of ``x`` [n, c, h, w] in ``size``."""
    return _each(x, size, f"crop:{format_size(size)}")


def gray(x: NDArray[Any]) -> NDArray[Any]:
    """Images [n, 1, h, w] of the luma of ``x`` [n, c, h, w]; uint8 is rounded to the nearest level."""
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise InputError(f"gray needs images [n, c, h, w] of 1 or 3 channels, got shape {tuple(x.shape)} instead.")
    if x.shape[1] == 1:
        return x
    out = np.empty((len(x), 1, *x.shape[2:]), x.dtype)
    for start in range(0, len(x), 1024):
        part = np.einsum("nchw,c->nhw", x[start : start + 1024].astype(np.float64), [0.299, 0.587, 0.114])
        out[start : start + 1024, 0] = np.rint(part) if x.dtype == np.uint8 else np.clip(part, 0, 1)
    return out


def _each(x: NDArray[Any], size: Size, step: str) -> NDArray[Any]:
    from PIL import Image as Pillow

    if x.ndim != 4:
        raise InputError(f"{step} needs images [n, c, h, w], got inputs of shape {tuple(x.shape)} instead.")
    out = np.empty((len(x), x.shape[1], size[1], size[0]), x.dtype)
    for row, image in enumerate(x):
        for number, channel in enumerate(image):
            plane = Pillow.fromarray(np.ascontiguousarray(channel))
            out[row, number] = np.asarray(apply_step(plane, step, f"row {row}"))
    return out if x.dtype == np.uint8 else np.clip(out, 0, 1)
