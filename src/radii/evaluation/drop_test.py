"""A sequential paired test: has a share dropped since a former result, on the same points?

Each point has a difference X in {-1, 0, 1}: right before and wrong now, equal, wrong before
and right now. Two bets run along, each a mixture over fixed stakes s, whose wealth is a
martingale or falls on average while its hypothesis is true (Ville 1939; Waudby-Smith & Ramdas 2024):

    no drop, E[X] >= 0:        mean over s of prod (1 - s X)
    a drop, E[X] <= -margin:   mean over s of prod (1 + s (X + margin))

A wealth of 1/alpha (1/beta) refutes its hypothesis at any stopping time with an error
probability of at most alpha (beta). The points are taken as independent draws of the data
that the model will meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError

Change = Literal["dropped", "kept", "open"]
STAKES: NDArray[np.float64] = np.concatenate([np.geomspace(0.01, 0.1, 5)[:-1], np.linspace(0.1, 0.95, 12)])


@dataclass(frozen=True)
class DropTest:
    """Has the share of successes dropped?

    Args:
        margin: a drop of this much must be noticed.
        alpha: probability at most to say ``dropped`` without a drop.
        beta: probability at most to say ``kept`` after a drop of ``margin`` or more.

    Raises:
        InputError: a number is out of its range.
    """

    margin: float = 0.05
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "margin"):
            if not 0 < getattr(self, name) < 0.5:
                raise InputError(f"{name} must be above 0 and below 0.5, got {getattr(self, name):g} instead.")

    def decide(self, losses: int, gains: int, equal: int) -> Change:
        """The answer after so many points; ``open``: neither hypothesis is refuted yet.

        Args:
            losses: points that were right before and are wrong now.
            gains: points that were wrong before and are right now.
            equal: the other points.
        """
        if _wealth(losses * np.log1p(STAKES) + gains * np.log1p(-STAKES)) >= -math.log(self.alpha):
            return "dropped"
        stakes = STAKES / (1 - self.margin)
        terms = (losses, self.margin - 1), (gains, self.margin + 1), (equal, self.margin)
        if _wealth(sum(count * np.log1p(stakes * step) for count, step in terms)) >= -math.log(self.beta):
            return "kept"
        return "open"


def _wealth(logs: NDArray[np.float64] | float) -> float:
    """The log of the mean of exp(logs)."""
    return float(np.logaddexp.reduce(logs) - math.log(len(STAKES)))
