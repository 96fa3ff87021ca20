"""Two laws of the distance to the nearest of n points, and the dimension each reads from it.

Prach & Lampert 2025, supplement, Eq. 33 and 34: the power law r = (cn)^(-1/d),
and its linearization r = a (1 - ln(n)/d), which is only near it while ln n is
far below d. They are not the same number, on true cubes neither, and they
extrapolate to very different n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NeighborLaw:
    """A fitted law: its dimension, and ln r (power law) or r (linear law) where ln n = 0."""

    dimension: float
    intercept: float
    is_power: bool

    @classmethod
    def power(cls, sizes: Array | Sequence[int], distances: Array) -> NeighborLaw:
        """ln r = intercept - ln(n)/d, by least squares."""
        slope, intercept = np.polyfit(np.log(sizes), np.log(distances), 1)
        return cls(-1 / float(slope), float(intercept), is_power=True)

    @classmethod
    def linear(cls, sizes: Array | Sequence[int], distances: Array) -> NeighborLaw:
        """r = intercept (1 - ln(n)/d), by least squares."""
        slope, intercept = np.polyfit(np.log(sizes), distances, 1)
        return cls(-float(intercept / slope), float(intercept), is_power=False)

    def log10_samples(self, distance: float) -> float:
        """log10 of the n at which the nearest neighbor is at ``distance``: an extrapolation."""
        if self.is_power:
            return self.dimension * (self.intercept - math.log(distance)) / math.log(10)
        return self.dimension * (1 - distance / self.intercept) / math.log(10)
