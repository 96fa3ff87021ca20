"""Holding out sizes: a law is trusted as far as smaller sizes forecast the larger ones.

Holding out the largest size only is too weak a test: a fit that is wrong at 20
times the data passes it. To speak of a factor, all sizes within that factor
are held out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from radii.errors import InputError
from radii.forecasting.envelope import envelope, with_median
from radii.forecasting.posterior import Family, Sizes
from radii.tables import Estimate

FEWEST = 3  # sizes that a curve of three parameters is fitted to; one more to be tried beyond a doubling
TAIL = 1.645  # standard deviations to the ends of a 90% interval
REFUTED = 2.326 / TAIL  # to the ends of a 98% one: one mean in ten misses 90% by chance, which refutes nothing


@dataclass(frozen=True)
class HeldOut:
    """A size that the fit did not see: its observed mean beside the interval forecast for it."""

    n: int
    observed: float
    forecast: Estimate

    @property
    def covered(self) -> bool:
        """Whether the mean lies in the 90% interval."""
        return self.forecast.low <= self.observed <= self.forecast.high

    @property
    def plausible(self) -> bool:
        """Whether the mean lies in the interval stretched to 98%."""
        at = self.forecast
        below, above = REFUTED * (at.value - at.low), REFUTED * (at.high - at.value)
        return -below <= self.observed - at.value <= above


@dataclass(frozen=True)
class HoldOut:
    """A fit to the sizes up to the largest divided by ``factor``, tried on all larger ones."""

    factor: int
    fitted: tuple[int, ...]
    held_out: tuple[HeldOut, ...]

    @property
    def coverage(self) -> float:
        """The share of held-out means inside their 90% intervals."""
        return sum(each.covered for each in self.held_out) / len(self.held_out)

    @property
    def bias(self) -> float:
        """Mean of forecast minus observed: positive where the forecast promised too much."""
        return float(np.mean([each.forecast.value - each.observed for each in self.held_out]))

    @property
    def holds(self) -> bool:
        """Whether the factor is validated: no held-out mean refutes its forecast."""
        return all(each.plausible for each in self.held_out)

    def summary(self) -> dict[str, Any]:
        """As JSON data."""
        held_out = [{**vars(each), "forecast": with_median(each.forecast)} for each in self.held_out]
        return {**vars(self), "held_out": held_out, "coverage": self.coverage, "bias": self.bias, "holds": self.holds}


def hold_outs(sizes: Sizes, family: Family) -> tuple[HoldOut, ...]:
    """A hold-out of ``sizes`` in ``family`` for each power of two that leaves enough sizes, until one fails."""
    results: list[HoldOut] = []
    factor = 2
    while not results or results[-1].holds:
        part = sizes.up_to(sizes.n[-1] / factor)
        if len(part.n) < FEWEST + (factor > 2):
            break
        try:
            results.append(_held_out(sizes, part, family, factor))
        except InputError:  # no rising curve describes these sizes, so they forecast nothing
            break
        factor *= 2
    return tuple(results)


def _held_out(sizes: Sizes, part: Sizes, family: Family, factor: int) -> HoldOut:
    law = envelope(part, family)
    tried = []
    for n, mean, seeds in list(zip(sizes.n, sizes.mean, sizes.seeds, strict=True))[len(part.n) :]:
        curve = law.at(n)
        noise = law.spread**2 / seeds + curve.value * (1 - curve.value) / family.test_points
        # the forecast is of the curve; a measured mean scatters around it
        low = curve.value - math.hypot(curve.value - curve.low, TAIL * math.sqrt(noise))
        high = curve.value + math.hypot(curve.high - curve.value, TAIL * math.sqrt(noise))
        tried.append(HeldOut(int(n), float(mean), Estimate(curve.value, low, high)))
    return HoldOut(factor, tuple(int(n) for n in part.n), tuple(tried))
