"""An exact group-sequential binomial test: is a success probability above p, said as soon as it is sure.

Successes are counted at a few growing sample sizes, the looks. The test passes
at look k if at most ``allowed[k]`` samples failed so far. What this spends of
the error probability alpha is computed exactly, by dynamic programming over
failure counts at the boundary p, so no sample is wasted on slack; fewer
failures only become likelier above p, so the boundary is the worst case.
Stopping early without passing can only lower the error, which leaves the
futility stop free to be anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from radii.errors import InputError

GROWTH = 1.15  # of the sample size from look to look
FIRST, LAST = 0.5, 0.25  # shares of alpha kept for the first and for the last look
MISSED = 0.1  # P(early stop) of a point that the full test accepts with probability 1/2
EARLIEST = 16  # samples after which a point without a chance may be dropped
NEGLIGIBLE = 1e-30  # probabilities below it are left out of sums: together far less than SLACK
DOWN = 1 - 1e-12  # normal quantiles in float64 are good to far better: radii are rounded down, levels up by it
SLACK = 1e-9  # relative, for the rounding of the dynamic programming in float64


@dataclass(frozen=True)
class SequentialTest:
    """H0: success probability <= ``p``, rejected with probability at most ``spent`` <= alpha.

    ``allowed[k]`` failures at look ``looks[k]`` still pass (-1: nothing does);
    ``hopeless[k]`` failures or more end the sampling without passing.
    ``spent_at_half`` is the chance to pass of a class with probability 1/2.
    """

    p: float
    looks: tuple[int, ...]
    allowed: tuple[int, ...]
    hopeless: tuple[int, ...]
    spent: float
    spent_at_half: float


@lru_cache(maxsize=256)
def sequential_test(p: float, alpha: float, looks: tuple[int, ...], rivals: int = 0) -> SequentialTest:
    """The test of H0: probability <= ``p`` at level ``alpha`` over ``looks``.

    ``rivals`` more classes are counted on the same samples. At most one class
    can be above one half, so a false pass of any of them costs at most
    ``rivals`` times the chance of a class at 1/2; alpha is lowered by that.
    """
    _check(p, alpha, looks)
    budget = alpha * (1 - SLACK)
    for _ in range(20):
        allowed, spent = _boundary(p, budget, looks)
        half = passing(looks, allowed, 0.5)
        if spent + rivals * half <= alpha * (1 - SLACK):
            return SequentialTest(p, looks, allowed, _futility(p, alpha, looks, allowed), spent, half)
        budget = min(budget, alpha - rivals * half) * 0.9
        if budget <= 0:
            break
    never = (-1,) * len(looks)
    return SequentialTest(p, looks, never, (0,) * len(looks), 0.0, 0.0)


def look_sizes(levels: Sequence[float], alpha: float, most: int) -> tuple[int, ...]:
    """Sample sizes of common looks of the tests at the probabilities ``levels``.

    Each test's first look that can pass, on a FIRST share of alpha; from the
    smallest of them to ``most`` by GROWTH; and before it by doubling, where
    nothing can pass but what is hopeless can go.
    """
    firsts = [min(most, _first(level, alpha)) for level in levels]
    start = min(firsts)
    early = {EARLIEST << step for step in range(30) if EARLIEST << step <= start // 2}
    steps = max(1, math.ceil(math.log(most / start) / math.log(GROWTH)))
    grown = {round(start * (most / start) ** (step / steps)) for step in range(steps + 1)}
    return tuple(sorted(early | grown | set(firsts)))


def _first(p: float, alpha: float) -> int:
    return math.ceil(math.log(FIRST * alpha * (1 - SLACK)) / math.log(p))


def fewest_samples(p: float, alpha: float) -> int:
    """ln(alpha) / ln(p): below it not even a sample without failures is evidence at level alpha."""
    return math.ceil(math.log(alpha) / math.log(p)) if 0 < p < 1 else 1


def passing(looks: tuple[int, ...], allowed: tuple[int, ...], p: float) -> float:
    """P(failures at some look k of ``looks`` are at most allowed[k]) for success probability ``p``, exactly."""
    state, seen, passed = np.ones(1), 0, 0.0
    width = max(allowed, default=-1) + 1
    for look, bound in zip(looks, allowed, strict=True):
        state = _drawn(state, look - seen, p, width)
        passed += float(state[: bound + 1].sum())
        state[: bound + 1] = 0
        seen = look
    return passed


def _drawn(state: NDArray[np.float64], samples: int, p: float, width: int) -> NDArray[np.float64]:
    """Distribution of the failures after ``samples`` more draws; counts of ``width`` or more never pass again."""
    if width == 0:
        return np.zeros(0)
    chance = binom.pmf(np.arange(min(samples, width - 1) + 1), samples, 1 - p)
    counted = np.flatnonzero(chance > NEGLIGIBLE)
    if len(counted) == 0:
        return np.zeros(width)
    low, high = int(counted[0]), int(counted[-1]) + 1
    moved = np.convolve(state, chance[low:high])[: width - low]
    return np.concatenate([np.zeros(low), moved])


def _boundary(p: float, alpha: float, looks: tuple[int, ...]) -> tuple[tuple[int, ...], float]:
    """Failures allowed at each look, spending FIRST of alpha at once, all but LAST on the way, the rest at the end."""
    width = int(binom.ppf(alpha, looks[-1], 1 - p)) + 2  # the fixed-sample test allows fewer failures than this
    starts = _first(p, alpha)
    state, seen, spent, allowed = np.ones(1), 0, 0.0, []
    for look in looks:
        state = _drawn(state, look - seen, p, width)
        seen = look
        total = spent + np.cumsum(state)
        bound = int(np.searchsorted(total, alpha * _share(look, starts, looks[-1]), side="right")) - 1
        spent = float(total[bound]) if bound >= 0 else spent
        state[: bound + 1] = 0
        allowed.append(bound)
    return tuple(allowed), spent


def _share(look: int, first: int, last: int) -> float:
    """The part of alpha that may be spent by ``look``."""
    if look < first:
        return 0.0
    if look == last:
        return 1.0
    return FIRST + (1 - FIRST - LAST) * math.log(look / first) / math.log(last / first)


def _futility(p: float, alpha: float, looks: tuple[int, ...], allowed: tuple[int, ...]) -> tuple[int, ...]:
    """Failures from which on sampling ends: the test cannot pass any more, or is unlikely to.

    The reference is the probability at which the fixed-sample test passes
    every other time; a share MISSED of such points is dropped, spread evenly over the looks.
    """
    last = looks[-1]
    worth = 1 - (int(binom.ppf(alpha, last, 1 - p)) + 0.5) / last
    hopeless = max(allowed) + 1
    state, seen, given_up, stops = np.ones(1), 0, 0.0, []
    for number, look in enumerate(looks):
        state = _drawn(state, look - seen, worth, hopeless)
        seen = look
        tail = given_up + np.cumsum(state[::-1])
        stop = len(state) - int(np.searchsorted(tail, MISSED * (number + 1) / len(looks), side="right"))
        stop = max(stop, allowed[number] + 1, 1 if number + 1 < len(looks) else 0)
        given_up += float(state[stop:].sum())
        state[stop:] = 0
        stops.append(stop)
    return tuple(stops)


def _check(p: float, alpha: float, looks: tuple[int, ...]) -> None:
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1, got {alpha:g} instead.")
    if not 0.5 <= p < 1:
        raise InputError(f"The probability to exceed must lie in [0.5, 1), got {p:g} instead.")
    if not looks or looks[0] < 1 or any(second <= first for first, second in pairwise(looks)):
        raise InputError(f"Sample sizes of the looks must be growing whole numbers from 1 on, got {looks} instead.")
