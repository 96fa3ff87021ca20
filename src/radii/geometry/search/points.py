"""Points: labelled rows as the neighbor searches read them, flat and in their own type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError


@dataclass(frozen=True)
class Points:
    """Rows [n, d] of uint8 or float32 (possibly memory-mapped) with one label each.

    uint8 counts grey levels, so distances are divided by 255 on the way out
    and everything before is whole-number arithmetic.
    """

    rows: NDArray[Any]  # [n, d]
    labels: NDArray[np.int64]  # [n]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def dimensions(self) -> int:
        """Coordinates of one row."""
        return int(self.rows.shape[1])

    @property
    def levels(self) -> float:
        """How many stored units make 1.0: 255 for uint8 pixels."""
        return 255.0 if self.rows.dtype == np.uint8 else 1.0

    def take(self, index: slice | NDArray[np.integer]) -> Points:
        """Some of the rows."""
        return Points(self.rows[index], self.labels[index])


def labelled(x: Any, y: Any, name: str = "x") -> Points:
    """Arrays, memory maps or CPU tensors as :class:`Points`; large inputs are copied only if their type must change.

    Args:
        x: [n, …] uint8 or floating point; float64 and float16 become float32, the
            type in which classifiers see their inputs.
        y: [n] whole numbers.
    """
    rows, labels = np.asanyarray(x), np.asarray(y)
    if rows.ndim < 2 or len(rows) == 0:
        raise InputError(f"{name} must be at least one row of inputs [n, …], got shape {rows.shape} instead.")
    if labels.shape != (len(rows),):
        raise InputError(f"{name} must have one label for every row, got {len(rows)} rows and labels {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise InputError(f"Labels of {name} must be whole numbers, got {labels.dtype} instead.")
    flat = rows.reshape(len(rows), -1)
    if flat.dtype.kind == "f" and flat.dtype != np.float32:
        flat = flat.astype(np.float32)
    if flat.dtype not in (np.uint8, np.float32):
        raise InputError(f"{name} must be uint8 pixels or floating point features, got {flat.dtype} instead.")
    if flat.shape[1] == 0:
        raise InputError(f"{name} must have at least one coordinate, got shape {rows.shape} instead.")
    return Points(fixed(flat), fixed(labels.astype(np.int64, copy=False)))


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of ``array``: kernels are compiled once for it, not again for read-only memory maps."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def check_finite(points: Points, name: str, block: int = 1 << 16) -> None:
    """Refuse NaN and infinities in ``points``, called ``name``, ``block`` rows at a time: they have no distance."""
    if points.rows.dtype == np.uint8:
        return
    for start in range(0, len(points), block):
        if not np.isfinite(points.rows[start : start + block].sum(dtype=np.float64)):
            raise InputError(f"{name} must hold finite numbers, got NaN or infinity in rows from {start} on.")


def rows_at_a_time(dimensions: int, usual: int, numbers: int = 1 << 23) -> int:
    """The ``usual`` number of rows, or fewer where rows of ``dimensions`` would hold more than ``numbers`` in all."""
    return max(1, min(usual, numbers // dimensions))
