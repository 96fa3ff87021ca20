"""Sequential tests of a share, against a floor and against a former result: an answer as soon as it is sure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError

Decision = Literal["pass", "fail"]
RESERVE = 0.9  # share of an error rate that is used, so that 10,000 simulated builds show the rate in spite of chance


@dataclass(frozen=True)
class FloorTest:
    """Is the share of successes among ``population`` points at least ``floor``?

    Of N points K are successes. They are drawn without replacement. The test compares two
    hypotheses, K = K1 (the least count at the floor) and K = K0 (the greatest count at the
    floor minus the margin), by the ratio of the probabilities of what was seen,

        R(k, j) = prod_{i<k} (K1 - i) / (K0 - i)  *  prod_{i<j} (N - K1 - i) / (N - K0 - i)

    after k successes and j failures. It fails at R <= alpha and passes at R >= 1/beta. R is a
    martingale of mean 1 under K0, and 1/R under K1 (Wald 1945; Ville 1939), so the error
    probabilities hold at any stopping time, for every N. R rises with k, so K > K1 fails less
    often than K1 does, and K < K0 passes less often than K0. After all points the answer is exact.

    Guarantee, over the random order of the points: a share of at least ``floor`` fails with probability at most
    ``alpha``, a share of at most ``floor - margin`` passes with probability at most ``beta``. Between the two
    either answer may come.

    Args:
        floor: the share required.
        alpha: probability of a false alarm at most.
        beta: probability of a miss at most.
    """

    population: int
    floor: float
    margin: float = 0.05
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            if not 0 < getattr(self, name) < 0.5:
                raise InputError(f"{name} must be above 0 and below 0.5, got {getattr(self, name):g} instead.")
        if not 0 < self.margin < self.floor <= 1:
            raise InputError(
                f"The margin must be above 0 and below the floor {self.floor:g}, got {self.margin:g} instead."
            )
        if self.population < 1:
            raise InputError("A floor is tested on at least one point, got none.")

    @property
    def enough(self) -> int:
        """The least count of successes at the floor, K1."""
        return math.ceil(self.floor * self.population - 1e-9)

    @property
    def too_few(self) -> int:
        """The greatest count of successes at the floor minus the margin, K0; below K1."""
        return min(math.floor((self.floor - self.margin) * self.population + 1e-9), self.enough - 1)

    @cached_property
    def _rise(self) -> NDArray[np.float64]:
        """log of the ratio after k successes alone; infinite where K0 is excluded."""
        return _logs(self.enough, self.too_few, self.population)

    @cached_property
    def _fall(self) -> NDArray[np.float64]:
        """log of the ratio after j failures alone; minus infinity where K1 is excluded."""
        return -_logs(self.population - self.too_few, self.population - self.enough, self.population)

    def known(self, successes: int, failures: int) -> Decision | None:
        """The answer if so many successes and failures leave no other, whatever the other points are."""
        if successes >= self.enough:
            return "pass"
        return "fail" if failures > self.population - self.enough else None

    def decide(self, successes: int, failures: int) -> Decision | None:
        """The answer after so many successes and failures; None: go on."""
        if answer := self.known(successes, failures):
            return answer
        ratio = self._rise[successes] + self._fall[failures]
        if ratio >= -math.log(RESERVE * self.beta):
            return "pass"
        return "fail" if ratio <= math.log(RESERVE * self.alpha) else None

    def least_successes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The boundaries, for simulations: after n points at most ``fails[n]`` successes fail, ``passes[n]`` pass."""
        fails = np.full(self.population + 1, -1)
        passes = np.full(self.population + 1, self.population + 1)
        low = high = 0
        for n in range(self.population + 1):  # both boundaries rise with n
            while low <= n and self.decide(low, n - low) == "fail":
                low += 1
            while high <= n and self.decide(high, n - high) != "pass":
                high += 1
            fails[n], passes[n] = low - 1, high
        return fails, passes


def _logs(more: int, fewer: int, population: int) -> NDArray[np.float64]:
    """sum_{i<k} log((more - i) / (fewer - i)) for k = 0 … population; infinite beyond ``fewer``."""
    steps = np.arange(max(fewer, 0))
    total = np.full(population + 1, np.inf)
    total[: max(fewer, 0) + 1] = np.concatenate([[0.0], np.cumsum(np.log((more - steps) / (fewer - steps)))])
    return total


Change = Literal["dropped", "kept", "open"]
STAKES: NDArray[np.float64] = np.concatenate([np.geomspace(0.01, 0.1, 5)[:-1], np.linspace(0.1, 0.95, 12)])


@dataclass(frozen=True)
class DropTest:
    """Has the share of successes dropped since a former result?

    A paired test on the same points. Each point has a difference X in {-1, 0, 1}: right before and wrong now, equal,
    wrong before and right now. Two bets run along, each a mixture over fixed stakes s, whose wealth is a
    martingale or falls on average while its hypothesis is true (Ville 1939; Waudby-Smith & Ramdas 2024):

        no drop, E[X] >= 0:        mean over s of prod (1 - s X)
        a drop, E[X] <= -margin:   mean over s of prod (1 + s (X + margin))

    A wealth of 1/alpha (1/beta) refutes its hypothesis at any stopping time with an error
    probability of at most alpha (beta). The points are taken as independent draws of the data
    that the model will meet.

    Args:
        margin: a drop of this much must be noticed.
        alpha: probability at most to say ``dropped`` without a drop.
        beta: probability at most to say ``kept`` after a drop of ``margin`` or more.
    """

    margin: float = 0.05
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "margin"):
            if not 0 < getattr(self, name) < 0.5:
                raise InputError(f"{name} must be above 0 and below 0.5, got {getattr(self, name):g} instead.")

    def decide(self, losses: int, gains: int, equal: int) -> Change:
        """The answer after so many points; ``open``: neither hypothesis is refuted yet."""
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
