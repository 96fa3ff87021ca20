"""How accuracy grows with the amount of data, and how much data a target needs.

The law (chance floor plus sigmoid in ln n):

    accuracy(n) = c0 + (c1 - c0) F(a + b ln n),   c0 = 1 / classes,   c1 ≤ ceiling

fitted by :mod:`radii.forecasting._posterior` under four sigmoids F and two priors of
the ceiling, and reported as their :mod:`~radii.forecasting.envelope`. Data do not show
how a curve bends beyond them; therefore a law forecasts only up to the factor that
holding out its own largest sizes has validated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from radii.errors import InputError
from radii.forecasting._posterior import Family, Sizes
from radii.forecasting.envelope import Envelope, envelope, with_median
from radii.tables import Estimate


@dataclass(frozen=True)
class Observation:
    """One training: its size, its seed and the accuracy reached, in [0, 1]."""

    n: int
    seed: int
    value: float


@dataclass(frozen=True)
class Needed:
    """The data that a target needs, as a 90% interval; None where it lies beyond ``limit``.

    ``never`` is the probability that no amount suffices, if the curve keeps its form.
    """

    target: float
    low: float | None
    median: float | None
    high: float | None
    never: float
    limit: float

    @property
    def words(self) -> str:
        """``60,000 to 90,000 training points (median 71,000)``; ends beyond the limit are said to be so."""
        limit = f"more than {_count(self.limit)}"
        if self.low is None:
            return f"{limit} training points; how many, these data cannot tell"
        middle = "" if self.median is None else f" (median {_count(self.median)})"
        if self.high is None:
            return f"at least {_count(self.low)} training points{middle}; no upper limit can be given ({limit})"
        return f"{_count(self.low)} to {_count(self.high)} training points{middle}"

    def summary(self) -> dict[str, float | str | None]:
        """As JSON data."""
        return {**asdict(self), "words": self.words}


@dataclass(frozen=True)
class ScalingLaw:
    """A fitted law; it refuses to forecast sizes beyond ``limit``."""

    sizes: Sizes
    family: Family
    envelope: Envelope
    hold_outs: tuple[HoldOut, ...]

    @property
    def validated_factor(self) -> int:
        """The largest power of two such that its hold-out and every smaller one hold."""
        factor = 1
        for each in self.hold_outs:
            if not each.holds:
                break
            factor = each.factor
        return factor

    @property
    def smallest(self) -> int:
        """The smallest size measured."""
        return int(self.sizes.n[0])

    @property
    def largest(self) -> int:
        """The largest size measured."""
        return int(self.sizes.n[-1])

    @property
    def limit(self) -> int:
        """The largest size that this law forecasts."""
        return self.largest * self.validated_factor

    def predict(self, n: float) -> Estimate:
        """The expected accuracy with ``n`` training points; refused where nothing validates it."""
        self._check(n)
        return self.envelope.at(n)

    def doubling(self, n: float) -> Estimate:
        """What doubling ``n`` adds to the accuracy."""
        self._check(n)
        self._check(2 * n)
        return self.envelope.gain(n, 2.0)

    def needed(self, target: float) -> Needed:
        """The data at which the law reaches ``target``; sizes below the smallest measured count as that."""
        floor = self.family.floor
        if not floor < target < 1:
            raise InputError(f"A target must lie above chance ({floor:.3g}) and below 1, got {target:.6g} instead.")
        ends = self.envelope.log_needed(target)
        low, median, high = (self._within(end) for end in (ends.low, ends.value, ends.high))
        return Needed(target, low, median, high, self.envelope.never(target), float(self.limit))

    def refusal(self, n: float) -> str | None:
        """Why the law makes no forecast at ``n``; None where it does."""
        if not math.isfinite(n) or n < self.smallest:
            return f"No forecast below the smallest size measured ({_count(self.smallest)}), got {_count(n)}."
        if n <= self.limit * (1 + 1e-9):
            return None
        return (
            f"No forecast at {_count(n)}: that is {n / self.largest:.3g} times the largest size measured "
            f"({_count(self.largest)}) and these data validate {self._validity()}."
        )

    def _validity(self) -> str:
        if self.validated_factor > 1:
            limit = f"a factor of {self.validated_factor}, up to {_count(self.limit)}"
            return f"{limit}; measure larger sizes to forecast further"
        if not self.hold_outs:
            return f"no extrapolation, which takes {FEWEST} sizes of half the largest and below that rise with n"
        missed = next(each for each in self.hold_outs[0].held_out if not each.plausible)
        return (
            f"no extrapolation: smaller sizes forecast {missed.forecast.low:.1%} to {missed.forecast.high:.1%} at "
            f"{_count(missed.n)}, where {missed.observed:.1%} was measured"
        )

    def _check(self, n: float) -> None:
        reason = self.refusal(n)
        if reason is not None:
            raise InputError(reason)

    def _within(self, log_n: float) -> float | None:
        return None if log_n > math.log(self.limit) + 1e-9 else max(math.exp(log_n), float(self.smallest))

    def summary(self) -> dict[str, Any]:
        """The law as JSON data: links with weights, spread of seeds, hold-outs, and the limit of its forecasts."""
        return {
            "floor": self.family.floor,
            "highest_ceiling": self.family.highest,
            "test_points": self.family.test_points,
            "sizes": [int(n) for n in self.sizes.n],
            "means": self.sizes.mean.tolist(),
            "seeds": self.sizes.seeds.tolist(),
            "spread_between_seeds": self.envelope.spread,
            "links": {
                each.curves.link.name: weights.tolist()
                for each, weights in zip(self.envelope.posteriors, self.envelope.weights, strict=True)
            },
            "validated_factor": self.validated_factor,
            "limit": self.limit,
            "hold_outs": [each.summary() for each in self.hold_outs],
        }


def fit(
    observations: Sequence[Observation],
    classes: int,
    test_points: int,
    *,
    ceiling: float = 1.0,
    floor: float | None = None,
) -> ScalingLaw:
    """The law behind ``observations``, with the factor by which they may be extrapolated.

    Deterministic; about a tenth of a CPU second for the fit and for every factor that is validated.

    Args:
        observations: sizes, seeds and values; at least three sizes.
        ceiling: the highest possible accuracy, for instance the clean accuracy if the values are certified;
            default 1.
        floor: the lowest; default 1 / ``classes``. Certified accuracy can be below chance where margins are small.
    """
    if classes < 2 or test_points < 1:
        raise InputError(f"A law needs at least 2 classes and 1 test point, got {classes} and {test_points} instead.")
    family = Family(1 / classes if floor is None else floor, ceiling, test_points)
    if not 0 <= family.floor < ceiling <= 1:
        raise InputError(f"Floor and ceiling must be 0 <= floor < ceiling <= 1, got {family.floor:.6g}, {ceiling:.6g}.")
    _check_each(observations, ceiling)
    sizes = Sizes.of([(each.n, each.value) for each in observations])
    if len(sizes.n) < FEWEST:
        raise InputError(f"A scaling law needs at least {FEWEST} sizes, got {len(sizes.n)}; measure more sizes.")
    _check_floor(sizes, family)
    return ScalingLaw(sizes, family, envelope(sizes, family), _hold_outs(sizes, family))


def _check_each(observations: Sequence[Observation], ceiling: float) -> None:
    seen = set()
    for each in observations:
        if each.n < 1:
            raise InputError(f"Every size n must be at least 1, got {each.n}.")
        if not 0 <= each.value <= ceiling:
            raise InputError(f"Values must lie in [0, {ceiling:.4g}], got {each.value:.6g} at n = {_count(each.n)}.")
        if (each.n, each.seed) in seen:
            raise InputError(f"Every size and seed must come once, got n = {_count(each.n)}, seed {each.seed} twice.")
        seen.add((each.n, each.seed))


def _check_floor(sizes: Sizes, family: Family) -> None:
    noise = np.sqrt(0.25 / family.test_points + sizes.scatter / sizes.seeds**2)
    low = np.flatnonzero(sizes.mean < family.floor - 2 * noise)
    if len(low):
        raise InputError(
            f"At n = {_count(sizes.n[low[0]])} the mean {sizes.mean[low[0]]:.1%} lies below the floor "
            f"({family.floor:.1%}), where the law starts; leave such sizes out or set the floor to 0."
        )


def _count(n: float) -> str:
    """A size as people write it, to three digits: ``71,200``."""
    if not math.isfinite(n):
        return str(n)
    return f"{float(f'{n:.3g}'):,.0f}" if n != round(n) or n >= 1e6 else f"{int(n):,}"


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


def _hold_outs(sizes: Sizes, family: Family) -> tuple[HoldOut, ...]:
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
