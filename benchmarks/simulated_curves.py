"""Scaling curves whose truth is known, to try forecasts on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from radii.forecasting._posterior import Link
from radii.forecasting.law import Observation


@dataclass(frozen=True)
class Truth:
    """A curve through ``value`` at ``anchor`` points that gained ``gain`` by the last doubling.

    The defaults are the middle of the curves of Prach & Lampert 2025, Fig. 1:
    62% at 50,000 points and 5 points per doubling. At ``stop`` the curve ends
    its rise, whatever its form was before.
    """

    link: Link
    ceiling: float
    floor: float = 0.1
    anchor: float = 50_000
    value: float = 0.62
    gain: float = 0.05
    stop: float = 1.0

    def at(self, n: float) -> float:
        """The expected accuracy with ``n`` points."""
        width = self.ceiling - self.floor
        shares = np.array([self.value - self.gain, self.value]) - self.floor
        before, here = self.link.inverse(shares / width)
        doublings = np.log2(n / self.anchor)
        curve = self.floor + width * self.link.rise(np.asarray(here + (here - before) * doublings))
        return min(float(curve), self.stop)

    def observed(
        self,
        sizes: Sequence[int],
        generator: np.random.Generator,
        seeds: int = 3,
        test_points: int = 10_000,
        spread: float = 0.006,
    ) -> list[Observation]:
        """Trainings of every size: all seeds of a size share the noise of their test points."""
        made = []
        for n in sizes:
            truth = self.at(n)
            tested = truth + generator.normal(0, np.sqrt(truth * (1 - truth) / test_points))
            values = np.clip(tested + generator.normal(0, spread, seeds), 0, 1)
            made += [Observation(int(n), seed, float(value)) for seed, value in enumerate(values)]
        return made
