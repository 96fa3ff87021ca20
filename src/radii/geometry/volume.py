"""Perturbable volume: how much of an Linf ball lies in the box (Ding et al. 2019, Sec. 5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.geometry.search.points import rows_at_a_time
from radii.threat import Box


def log_volume(x: Any, epsilon: float, box: Box | None = (0.0, 1.0), block: int = 4096) -> NDArray[np.float64]:
    """log2 of the volume of the Linf ball around each row of ``x`` [n, …] inside the box: [n] bits.

    sum_i log2(min(x_i + eps, high) - max(x_i - eps, low)), Ding et al. 2019, Sec. 5.1. It is least,
    d·log2(eps), where every pixel lies at an end of the box, and greatest where every pixel is ``epsilon`` away.

    Args:
        x: points [n, …]; uint8 counts as multiples of 1/255.
        box: the range of the inputs; default (0, 1). None: d·log2(2 eps) for every point.
        block: points at a time, at most; fewer where they are long.
    """
    if not epsilon > 0:
        raise InputError(f"epsilon must be positive, got {epsilon:g} instead.")
    rows = np.asanyarray(x)
    rows = rows.reshape(len(rows), -1)
    block = rows_at_a_time(rows.shape[1], block)
    if box is None:
        return np.full(len(rows), rows.shape[1] * np.log2(2 * epsilon))
    low, high = box
    if rows.dtype == np.uint8:  # 256 values: look the logarithm up
        levels = np.arange(256) / 255
        room = np.log2(np.minimum(levels + epsilon, high) - np.maximum(levels - epsilon, low))
        blocks = [room[rows[i : i + block]].sum(1) for i in range(0, len(rows), block)]
    else:
        blocks = [_bits(rows[i : i + block].astype(np.float64), epsilon, low, high) for i in range(0, len(rows), block)]
    return np.concatenate(blocks)


def _bits(rows: NDArray[np.float64], epsilon: float, low: float, high: float) -> NDArray[np.float64]:
    if rows.min() < low or rows.max() > high:
        raise InputError(f"Inputs must lie in the box [{low:g}, {high:g}], got [{rows.min():.3g}, {rows.max():.3g}].")
    return np.log2(np.minimum(rows + epsilon, high) - np.maximum(rows - epsilon, low)).sum(1)


def volume_range(dimensions: int, epsilon: float) -> tuple[float, float]:
    """The least and the greatest mean log2 volume at ``epsilon`` of any data in [0, 1]^``dimensions``."""
    return dimensions * float(np.log2(epsilon)), dimensions * float(np.log2(min(2 * epsilon, 1.0)))
