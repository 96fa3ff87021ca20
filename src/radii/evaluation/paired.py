"""Two models on the same points: the difference of two shares with its interval, and whether it can be chance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from radii.errors import InputError


@dataclass(frozen=True)
class PairedDifference:
    """The share of successes of a second model minus that of a first, on the same points.

    Attributes:
        value: the difference.
        low: lower end of Newcombe's interval (1998, method 10).
        high: upper end.
        lost: points on which only the first succeeds.
        won: points on which only the second succeeds.
        p_value: of the exact test of McNemar (1947), two-sided: the chance of so uneven a split without a difference.
    """

    value: float
    low: float
    high: float
    lost: int
    won: int
    p_value: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def paired_difference(
    first: NDArray[np.bool_], second: NDArray[np.bool_], confidence: float = 0.95
) -> PairedDifference:
    """Compare successes of two models point by point.

    Args:
        first: successes of the first model [n].
        second: successes of the second model on the same points [n].
        confidence: of the interval.

    Raises:
        InputError: the lengths differ, or there is no point.
    """
    if len(first) != len(second) or not len(first):
        raise InputError(f"Models are compared on the same points, got {len(first)} and {len(second)} of them.")
    both, lost, won = (int(np.sum(kind)) for kind in (first & second, first & ~second, second & ~first))
    n = len(first)
    (one, one_low, one_high), (two, two_low, two_high) = (_wilson(both + extra, n, confidence) for extra in (lost, won))
    together = _correlation(both, won, lost, n - both - lost - won)
    below = _joined(two - two_low, one_high - one, together)
    above = _joined(two_high - two, one - one_low, together)
    value = two - one
    chance = binomtest(lost, lost + won).pvalue if lost + won else 1.0
    return PairedDifference(value, max(value - below, -1.0), min(value + above, 1.0), lost, won, float(chance))


def _wilson(successes: int, n: int, confidence: float) -> tuple[float, float, float]:
    """A share with the ends of Wilson's score interval."""
    interval = binomtest(successes, n).proportion_ci(confidence, "wilson")
    return successes / n, float(interval.low), float(interval.high)


def _correlation(both: int, second: int, first: int, neither: int) -> float:
    """Newcombe's phi with its continuity correction; 0 where a margin is empty."""
    product = (both + second) * (first + neither) * (both + first) * (second + neither)
    if product == 0:
        return 0.0
    excess, half = both * neither - second * first, (both + second + first + neither) / 2
    return (excess if excess < 0 else max(excess - half, 0.0)) / sqrt(product)


def _joined(one: float, other: float, correlation: float) -> float:
    return sqrt(max(one * one - 2 * correlation * one * other + other * other, 0.0))
