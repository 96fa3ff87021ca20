"""Two models on the same points: the difference of two shares with its interval, and whether it can be chance.

Of n points the second model wins X and loses m - X, so that X is binomial (m, B) and m binomial (n, T): the
difference is T (2B - 1). McNemar's exact test asks whether B = 1/2. The interval melds the exact limits of T and B
(Fay & Lumbard 2021, doi:10.1002/sim.8829), so that test and interval always agree: the 95% interval excludes 0
exactly when p < 0.05. Sentences warn where the models met different attacks or proofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import beta, binomtest

from radii.errors import InputError

NODES = 200  # of the quadrature over T


@dataclass(frozen=True)
class PairedDifference:
    """The share of successes of a second model minus that of a first, on the same points.

    Attributes:
        value: the difference.
        low: lower end of the melded interval of Fay & Lumbard (2021).
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
    """Compare successes of two models point by point; the interval excludes 0 where p < 1 - ``confidence``.

    Args:
        first: successes of the first model [n].
        second: successes of the second model on the same points [n].
    """
    if len(first) != len(second) or not len(first):
        raise InputError(f"Models are compared on the same points, got {len(first)} and {len(second)} of them.")
    lost, won = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    n, level = len(first), (1 - confidence) / 2
    chance = binomtest(lost, lost + won).pvalue if lost + won else 1.0
    low, high = _lower_limit(won, lost, n, level), -_lower_limit(lost, won, n, level)
    return PairedDifference((won - lost) / n, low, high, lost, won, float(chance))


def _lower_limit(won: int, lost: int, n: int, level: float) -> float:
    """The melded lower limit of T (2B - 1): its quantile ``level`` under the lower limits of B and T.

    B has the distribution Beta(won, lost + 1). Where B - 1/2 is below zero the larger T is the worse, so T is
    Beta(m + 1, n - m) there, and Beta(m, n - m + 1) above.
    """
    m = won + lost
    if won == 0:  # B is 0: all that is lost is at most the upper limit of T
        return -float(beta.ppf(1 - level, m + 1, n - m)) if m < n else -1.0
    split = beta(won, lost + 1)
    above = split.cdf(0.5) < level  # McNemar's one-sided test rejects "no better"
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    share = (nodes + 1) / 2
    if above:
        total = beta.ppf(share, m, n - m + 1)
    else:
        total = beta.ppf(share, m + 1, n - m) if m < n else np.ones(NODES)

    def excess(difference: float) -> float:
        return float(weights @ split.cdf((1 + difference / total) / 2)) / 2 - level

    return float(brentq(excess, 0.0, 1.0) if above else brentq(excess, -1.0, 0.0))


def unlike_attacks(attacks: Mapping[str, str]) -> tuple[str, ...]:
    """A warning if models met different attacks."""
    if len(set(attacks.values())) < 2:
        return ()
    return (
        f"The models met different attacks ({_each(attacks)}). Weaker attacks leave more points unbroken, so their "
        "unbroken shares cannot be compared.",
    )


def unlike_certificates(certificates: Mapping[str, str]) -> tuple[str, ...]:
    """A warning if the proofs of models come from different methods."""
    if len(set(certificates.values())) < 2:
        return ()
    return (
        f"The proofs come from different methods ({_each(certificates)}). A difference of proved shares may come from "
        "the method and not from the model.",
    )


def _each(words: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {word}" for name, word in words.items())
