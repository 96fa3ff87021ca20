"""From certified test points to the distribution they came from."""

from __future__ import annotations

from radii.certificates.smoothing.proportion import lower_limits
from radii.errors import InputError


def certified_accuracy_of_distribution(certified: int, n: int, alpha: float = 0.0, confidence: float = 0.95) -> float:
    """A lower bound of P(right and robust) over the distribution, at ``confidence``.

    ``certified`` of ``n`` independent test points were right and certified at
    the radius in question, each false certificate having probability at most
    ``alpha``. If T is the true share, a point is counted with probability at
    most T + (1 - T) alpha, so T >= (q - alpha) / (1 - alpha) with q the exact
    lower bound of the counted share. Deterministic certificates have alpha 0.
    """
    if n < 1 or not 0 <= certified <= n:
        raise InputError(f"The certified points must be 0 to n of n, got {certified} of {n} instead.")
    if not (0 <= alpha < 1 and 0 < confidence < 1):
        raise InputError(f"alpha and confidence must lie between 0 and 1, got {alpha:g} and {confidence:g} instead.")
    counted = float(lower_limits(certified, n, 1 - confidence))
    return max(0.0, (counted - alpha) / (1 - alpha))
