"""The exact distribution of a sum of d uniform numbers (Irwin–Hall), and its normal limit."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

SMALL = 20  # up to here the alternating sum is exact to 1e-8; from here the integral is
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(600)


def central_mass(reach: float, d: int) -> float:
    """P(|S − d/2| < reach) for S a sum of d independent U[0, 1].

    Up to 20 terms by the Irwin–Hall sum; above by inverting the
    characteristic function, (2/π) ∫ sin(at)/t · (sin(t/2)/(t/2))^d dt, whose
    integrand is below 1e-10 beyond t = 2π.
    """
    if reach <= 0:
        return 0.0
    if reach >= min(d / 2, 12 * math.sqrt(d / 12)):
        return 1.0
    if d <= SMALL:
        return 2 * _irwin_hall(d / 2 + reach, d) - 1
    end = min(2 * math.pi, 40 / math.sqrt(d))
    t = end / 2 * (_NODES + 1)
    values = np.sin(reach * t) / t * np.sinc(t / (2 * math.pi)) ** d
    return float(2 / math.pi * end / 2 * (_WEIGHTS @ values))


def _irwin_hall(s: float, d: int) -> float:
    """P(S ≤ s) = (1/d!) Σ_k (−1)^k C(d, k) (s − k)^d over k ≤ s."""
    terms = ((-1) ** k * math.comb(d, k) * (s - k) ** d for k in range(math.floor(s) + 1))
    return math.fsum(terms) / math.factorial(d)


def cdf(deviation: float, d: int) -> float:
    """P(S − d/2 ≤ deviation)."""
    return 0.5 + math.copysign(central_mass(abs(deviation), d), deviation) / 2


def normal_central_mass(reach: float, d: int, variance: float = 1 / 12) -> float:
    """The normal limit 2Φ(reach/√(d Var)) − 1; Var U[0, 1] is 1/12.

    Args:
        variance: variance of one summand; default 1/12.
    """
    return float(2 * norm.cdf(reach / math.sqrt(d * variance)) - 1)
