"""The preprocessing inside a classifier, fitted on the training split."""

from __future__ import annotations

from typing import Literal

import numpy as np

from radii.data.dataset import Dataset

Preprocessing = Literal["none", "center", "standardize"]


def statistics(data: Dataset, mode: Preprocessing) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the training split, in units of [0, 1].

    Args:
        data: the training split.
        mode: ``center`` gives the mean only, which changes no distance (Prach &
            Lampert 2025); ``standardize`` both; ``none`` neither.

    Returns:
        Mean and standard deviation per channel of images, or per coordinate of
        features; empty where the mode gives none. Constant coordinates have 1.
    """
    if mode == "none":
        return (), ()
    axes = (0, 2, 3) if data.is_image else (0,)
    count, total, square = 0, np.zeros(data.shape[0]), np.zeros(data.shape[0])
    for start in range(0, len(data), 4096):
        x = data.x[start : start + 4096].astype(np.float64)
        if data.x.dtype == np.uint8:
            x /= 255
        count += x.size // data.shape[0]
        total += x.sum(axes)
        square += (x * x).sum(axes)
    mean = total / count
    if mode == "center":
        return tuple(mean.tolist()), ()
    std = np.sqrt(np.maximum(square / count - mean * mean, 0))
    return tuple(mean.tolist()), tuple(np.where(std > 1e-8, std, 1.0).tolist())
