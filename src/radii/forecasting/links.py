"""Links: sigmoids F from (-∞, ∞) to (0, 1) that a scaling curve may follow.

A curve c0 + (c1 - c0) F(a + b ln n) rises from the floor c0 to the ceiling c1;
which sigmoid it follows cannot be seen from a few sizes, so several are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Link:
    """A sigmoid F and its inverse."""

    name: str
    rise: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]


def _gompertz(z: Floats) -> Floats:
    """exp(-exp(-z)): leaves the floor fast and nears the ceiling slowly."""
    return np.exp(-np.exp(-np.clip(z, -700, 700)))


def _gompertz_inverse(share: Floats) -> Floats:
    return -np.log(-np.log(share))


def _weibull(z: Floats) -> Floats:
    """1 - exp(-exp(z)), which is Weibull's law in n: leaves the floor slowly and nears the ceiling fast."""
    return -np.expm1(-np.exp(np.clip(z, -700, 700)))


def _weibull_inverse(share: Floats) -> Floats:
    return np.log(-np.log1p(-share))


LINKS = (
    Link("logit", expit, logit),
    Link("probit", ndtr, ndtri),
    Link("gompertz", _gompertz, _gompertz_inverse),
    Link("weibull", _weibull, _weibull_inverse),
)
