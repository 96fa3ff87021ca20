"""Exact confidence limits of a proportion (Clopper & Pearson 1934), and of a distribution's certified accuracy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radii.errors import InputError

CONFIDENCE = 0.95


def lower_limits(successes: ArrayLike, trials: int, level: float) -> NDArray[np.float64]:
    """A lower limit of the proportion for each count of ``successes`` k among ``trials`` n, by Beta(k, n - k + 1).

    It is above the truth with probability at most ``level``; it is 0 for k = 0.
    """
    from scipy.special import betaincinv  # stored counts are read without limits

    won = np.asarray(successes)
    limits = betaincinv(np.maximum(won, 1), trials - won + 1, level)
    return np.where(won > 0, limits, 0.0)


def upper_limits(successes: ArrayLike, trials: int, level: float) -> NDArray[np.float64]:
    """An upper limit for each count of ``successes`` of ``trials``: below the truth with probability <= ``level``."""
    return 1 - lower_limits(trials - np.asarray(successes), trials, level)


def clopper_pearson(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of ``successes`` among ``trials``: it covers the truth with probability >= ``confidence``."""
    level = (1 - confidence) / 2
    return float(lower_limits(successes, trials, level)), float(upper_limits(successes, trials, level))


def certified_accuracy_of_distribution(certified: int, n: int, alpha: float = 0.0, confidence: float = 0.95) -> float:
    """A lower bound of P(right and robust) over the distribution that the test points came from.

    If T is the true share, a point is counted with probability at most
    T + (1 - T) alpha, so T >= (q - alpha) / (1 - alpha) with q the exact lower
    limit of the counted share.

    Args:
        alpha: probability that a certificate is false; 0, the default, for deterministic certificates.
        confidence: probability that the bound holds; default 0.95.
    """
    if n < 1 or not 0 <= certified <= n:
        raise InputError(f"The certified points must be 0 to n of n, got {certified} of {n} instead.")
    if not (0 <= alpha < 1 and 0 < confidence < 1):
        raise InputError(f"alpha and confidence must lie between 0 and 1, got {alpha:g} and {confidence:g} instead.")
    counted = float(lower_limits(certified, n, 1 - confidence))
    return max(0.0, (counted - alpha) / (1 - alpha))
