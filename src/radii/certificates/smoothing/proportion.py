"""Exact confidence limits of a proportion (Clopper & Pearson 1934), the one home of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

CONFIDENCE = 0.95


def lower_limits(successes: ArrayLike, trials: int, level: float) -> NDArray[np.float64]:
    """Of each count: the ``level`` quantile of Beta(k, n-k+1), 0 for k = 0; above the truth at most ``level`` often."""
    won = np.asarray(successes)
    found = beta.ppf(level, np.maximum(won, 1), trials - won + 1)
    return np.where(won > 0, found, 0.0)


def upper_limits(successes: ArrayLike, trials: int, level: float) -> NDArray[np.float64]:
    """Of each count: below the truth with probability at most ``level``."""
    return 1 - lower_limits(trials - np.asarray(successes), trials, level)


def clopper_pearson(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval for a binomial proportion: it covers the truth with at least ``confidence``."""
    level = (1 - confidence) / 2
    return float(lower_limits(successes, trials, level)), float(upper_limits(successes, trials, level))
