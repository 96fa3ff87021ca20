"""The envelope: the forecasts of all plausible links and ceiling priors together.

A single sigmoid is overconfident beyond the data (its nominal 90% intervals cover
0 to 97% at 20 times the data). The envelope of the plausible ones has at least its
nominal coverage for curves of these families.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from radii.forecasting._posterior import LINKS, Curves, Family, Floats, Posterior, Sizes, posterior
from radii.tables import Estimate

PLAUSIBLE = 0.02  # a link with less posterior weight, under both priors, is left out
TAILS = (0.05, 0.95)


def with_median(estimate: Estimate) -> dict[str, float]:
    """An estimate of an envelope as JSON data: its value is the median, its interval a 90% one."""
    return {"low": estimate.low, "median": estimate.value, "high": estimate.high}


@dataclass(frozen=True)
class Envelope:
    """Posteriors of all links; intervals reach from the lowest 5% to the highest 95% of the plausible ones.

    If the true ceiling is the highest, the 5-95% interval under a prior undercovers. So the intervals under
    the highest ceiling are added where the data permits it; medians and probabilities do not use them.
    """

    posteriors: tuple[Posterior, ...]
    weights: Floats  # (links, 2): the posterior of the link under the uniform and the spiked prior
    highest: Floats  # (links,): evidence of the highest ceiling over that of all links, spiked prior

    @property
    def spread(self) -> float:
        """The standard deviation τ between seeds."""
        return float(self.weights.mean(axis=1) @ [each.spread for each in self.posteriors])

    def at(self, n: float) -> Estimate:
        """The value of the curve at ``n``."""
        return self.interval(lambda curves: curves.at(n))

    def gain(self, n: float, factor: float) -> Estimate:
        """How much the curve rises from ``n`` to ``factor`` times ``n``."""
        return self.interval(lambda curves: curves.at(factor * n) - curves.at(n))

    def log_needed(self, target: float) -> Estimate:
        """ln n at which the curve reaches ``target``; ends are infinite where it may never."""
        return self.interval(lambda curves: curves.log_needed(target))

    def never(self, target: float) -> float:
        """The probability that the ceiling is not above ``target``, averaged over links and priors."""
        shares = [each.mass[:2] @ (each.curves.ceiling <= target) for each in self.posteriors]
        return float((self.weights * shares).sum() / 2)

    def interval(self, values: Callable[[Curves], Floats]) -> Estimate:
        """The median of ``values`` over all links together, with the envelope of their 5-95% intervals."""
        lows, highs, pooled, masses = [], [], [], []
        for each, weights, highest in zip(self.posteriors, self.weights, self.highest, strict=True):
            if weights.max() <= PLAUSIBLE:
                continue
            numbers = values(each.curves)
            for mass in each.mass[: 3 if highest > PLAUSIBLE else 2]:
                low, high = quantiles(numbers, mass, TAILS)
                lows.append(low)
                highs.append(high)
            pooled.append(numbers)
            masses.append(weights @ each.mass[:2])
        (median,) = quantiles(np.concatenate(pooled), np.concatenate(masses), (0.5,))
        return Estimate(median, min(lows), max(highs))


def envelope(sizes: Sizes, family: Family) -> Envelope:
    """The posteriors of all links for the observed ``sizes`` and ``family``, and their weights (equal a priori)."""
    posteriors = tuple(posterior(sizes, family, link) for link in LINKS)
    evidence = np.array([each.log_evidence for each in posteriors])
    weights = np.exp(evidence - evidence.max(axis=0))
    spiked = np.exp(evidence[:, 1] - evidence.max()).sum()
    highest = np.exp(evidence[:, 2] - evidence.max()) / spiked
    return Envelope(posteriors, (weights / weights.sum(axis=0))[:, :2], highest)


def quantiles(values: Floats, mass: Floats, shares: tuple[float, ...]) -> list[float]:
    """The smallest of ``values`` at or below which the ``shares`` of ``mass`` lie; values may be infinite."""
    order = np.argsort(values)
    below = np.cumsum(mass[order])
    places = np.searchsorted(below, np.array(shares) * below[-1])
    return [float(values[order[place]]) for place in places]
