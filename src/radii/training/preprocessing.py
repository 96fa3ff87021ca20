"""The preprocessing a classifier carries inside, fitted on the training split."""

from __future__ import annotations

from typing import Literal

import numpy as np

from radii.data.dataset import Dataset

Preprocessing = Literal["none", "center", "standardize"]


def statistics(data: Dataset, mode: Preprocessing) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel (images) or coordinate (features), in [0, 1] units.

    ``center`` gives the mean alone, which leaves every distance as it is
    (Prach & Lampert 2025); ``none`` gives nothing; constant coordinates keep std 1.
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
