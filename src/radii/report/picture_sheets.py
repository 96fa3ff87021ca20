"""Many small pictures in one: inputs, and what attacks added to them, small enough for a page of a thousand points.

A sheet is one WebP file of tiles. Differences have a few levels only, in parts of the largest change of their tile; a
browser adds them to the input again. What is then shown is off by at most a quarter of that change.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PIXELS = 1_200_000  # of one sheet
SIDE = 96  # pixels of a tile at most
BUDGET = 2_600_000  # bytes of all sheets together, before base64
LOSSLESS = 800_000  # bytes of the inputs up to which no pixel is changed
LEVELS = (7, 3, 2)  # of a difference to either side, fewer where the budget is small
MIDDLE, REACH = 128, 126  # a difference of level l of L is the gray MIDDLE + l * REACH / L


@dataclass(frozen=True)
class Sheet:
    """Tiles of equal size in one picture, row by row.

    Attributes:
        source: a data URI.
        columns: tiles in a row.
        count: tiles.
        scales: of differences the largest change of each tile, in [0, 1].
    """

    source: str = field(repr=False)
    columns: int
    count: int
    width: int
    height: int
    scales: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        size = {"columns": self.columns, "rows": ceil(self.count / self.columns), "width": self.width}
        return {"source": self.source, **size, "height": self.height, "scales": list(self.scales)}


@dataclass(frozen=True)
class Sheets:
    """The inputs of a page, their neighbors, and the differences of each view.

    Attributes:
        shrunk: pixels of the data along each side of a shown pixel.
        exact: whether the inputs are shown as they are.
    """

    inputs: Sheet
    neighbors: Sheet | None
    differences: tuple[Sheet | None, ...]
    shrunk: int
    exact: bool


def drawn(inputs: Any, neighbors: Any, differences: Sequence[Any]) -> Sheets:
    """Sheets of images within the budget: first the differences lose levels, then the inputs lose detail.

    Args:
        inputs: [n, c, h, w] in [0, 1], c is 1 or 3.
        neighbors: [m, c, h, w]; none is None.
        differences: for each view [k, c, h, w] in [-1, 1].
    """
    side = max(inputs.shape[2:])
    tiles = max(len(inputs), *(len(own) for own in differences), 1)
    shrunk = max(ceil(side / SIDE), ceil(sqrt(tiles * inputs.shape[2] * inputs.shape[3] / PIXELS)))
    small = _shrunk(inputs, shrunk)
    clean = _webp(_levels(small))
    exact = len(clean) <= LOSSLESS
    if not exact:
        clean = _webp(_levels(small), quality=90)
    near = None if neighbors is None else _levels(_shrunk(neighbors, shrunk))
    beside = b"" if near is None else _webp(near, quality=None if exact else 80)
    moved = [_shrunk(own, shrunk) for own in differences]
    for levels in LEVELS:
        coded = [_webp(_quantized(own, levels)) if len(own) else b"" for own in moved]
        if len(clean) + len(beside) + sum(map(len, coded)) <= BUDGET:
            break
    return Sheets(
        _sheet(clean, small),
        None if near is None else _sheet(beside, near),
        tuple(_sheet(code, own, _scales(own)) if len(own) else None for code, own in zip(coded, moved, strict=True)),
        shrunk,
        exact and shrunk == 1,
    )


def _shrunk(images: Any, factor: int) -> NDArray[np.float64]:
    """Means over squares of ``factor`` pixels; what is left at the lower and right edge is cut."""
    own = np.asarray(images, np.float64)
    n, c, h, w = own.shape
    tall, wide = min(factor, h), min(factor, w)
    fit = own[:, :, : h // tall * tall, : w // wide * wide]
    return fit.reshape(n, c, h // tall, tall, w // wide, wide).mean((3, 5))


def _levels(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.rint(255 * images.clip(0, 1)).astype(np.uint8)


def _scales(moved: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(f"{most:.4g}") for most in np.abs(moved).max((1, 2, 3)))


def _quantized(moved: NDArray[np.float64], levels: int) -> NDArray[np.uint8]:
    most = np.maximum(np.abs(moved).max((1, 2, 3), keepdims=True), 1e-12)
    steps = np.rint(levels * moved / most)
    return np.rint(MIDDLE + steps * REACH / levels).astype(np.uint8)


def _columns(count: int) -> int:
    return max(1, ceil(sqrt(count)))


def _webp(tiles: NDArray[np.uint8], quality: int | None = None) -> bytes:
    """The tiles [n, c, h, w] as one file.

    Args:
        quality: of lossy compression; None keeps every pixel.
    """
    n, c, h, w = tiles.shape
    columns = _columns(n)
    rows = ceil(n / columns)
    whole = np.zeros((rows * columns, h, w, c), np.uint8)
    whole[:n] = np.moveaxis(tiles, 1, -1)
    sheet = whole.reshape(rows, columns, h, w, c).transpose(0, 2, 1, 3, 4).reshape(rows * h, columns * w, c)
    file = io.BytesIO()
    lossless = {"lossless": True} if quality is None else {"quality": quality}
    Image.fromarray(sheet if c == 3 else sheet[..., 0]).convert("RGB").save(file, "WEBP", **lossless)
    return file.getvalue()


def _sheet(code: bytes, tiles: NDArray[Any], scales: tuple[float, ...] = ()) -> Sheet:
    uri = "data:image/webp;base64," + base64.b64encode(code).decode()
    count, _, height, width = tiles.shape
    return Sheet(uri, _columns(count), count, width, height, scales)
