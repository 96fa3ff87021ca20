"""The posterior of a scaling curve by exact summation over a grid.

Four numbers describe a curve under one link: its values at the smallest and
the largest size, its ceiling, and the spread τ between seeds. Four is few
enough to sum over a grid: no sampler, no starting point, the same answer every
time. Three passes move the grid to where the mass is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri

from radii.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Link:
    """A sigmoid F from (-∞, ∞) to (0, 1) and its inverse.

    A curve c0 + (c1 - c0) F(a + b ln n) rises from the floor c0 to the ceiling c1; which sigmoid it follows cannot be
    seen from a few sizes, so several are kept.
    """

    name: str
    rise: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]


def _gompertz(z: Floats) -> Floats:
    """exp(-exp(-z)): leaves the floor fast and nears the ceiling slowly."""
    return np.exp(-np.exp(-np.clip(z, -700, 700)))


def _gompertz_inverse(share: Floats) -> Floats:
    return -np.log(-np.log(share))


def _weibull(z: Floats) -> Floats:
    """1 - exp(-exp(z)), which is Weibull's law in n: leaves the floor slowly and nears the ceiling fast."""
    return -np.expm1(-np.exp(np.clip(z, -700, 700)))


def _weibull_inverse(share: Floats) -> Floats:
    return np.log(-np.log1p(-share))


LINKS = (
    Link("logit", expit, logit),
    Link("probit", ndtr, ndtri),
    Link("gompertz", _gompertz, _gompertz_inverse),
    Link("weibull", _weibull, _weibull_inverse),
)


# Priors of the ceiling, in this order: uniform up to the highest; half of the mass on the highest; all of it.
# nodes for the value at the smallest size, at the largest, for the ceiling and for τ, in every pass
PASSES = ((15, 15, 10, 8), (15, 15, 10, 8), (25, 25, 20, 8))
SPREAD = (3e-4, 0.1)  # of τ: from a thirtieth of a point to ten points, uniform in its logarithm
REACH = 6.0  # standard deviations around the observed ends where the first grid looks
TINY = np.finfo(np.float64).tiny
NEGLIGIBLE = 1e-4  # of the highest marginal mass: cut off by the next pass

Window = list[tuple[float, float]]


@dataclass(frozen=True)
class Sizes:
    """The observations as the likelihood needs them: per size the mean, the seeds and their scatter."""

    n: Floats
    mean: Floats
    seeds: NDArray[np.int64]
    scatter: Floats  # sum of squares around the mean

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Sizes:
        """From pairs (n, value), one for each seed."""
        sizes = sorted({n for n, _ in pairs})
        groups = [np.array([value for n, value in pairs if n == size]) for size in sizes]
        return cls(
            np.array(sizes, dtype=float),
            np.array([group.mean() for group in groups]),
            np.array([len(group) for group in groups]),
            np.array([((group - group.mean()) ** 2).sum() for group in groups]),
        )

    def up_to(self, largest: float) -> Sizes:
        """Only the sizes of at most ``largest``."""
        keep = self.n <= largest
        return Sizes(self.n[keep], self.mean[keep], self.seeds[keep], self.scatter[keep])


@dataclass(frozen=True)
class Family:
    """What all curves have in common: floor, highest ceiling, and the test points behind every value."""

    floor: float
    highest: float
    test_points: int


@dataclass(frozen=True)
class Curves:
    """Curves floor + (ceiling - floor) F(start + slope ln(n / smallest)), an array for each of their numbers."""

    link: Link
    family: Family
    smallest: float
    start: Floats
    slope: Floats
    ceiling: Floats

    def at(self, n: float) -> Floats:
        """The value of every curve at ``n``."""
        floor = self.family.floor
        return floor + (self.ceiling - floor) * self.link.rise(self.start + self.slope * np.log(n / self.smallest))

    def log_needed(self, target: float) -> Floats:
        """ln n at which every curve reaches ``target``; infinite where its ceiling is too low."""
        floor = self.family.floor
        needed = np.full(self.start.shape, np.inf)
        possible = self.ceiling > target
        share = (target - floor) / (self.ceiling[possible] - floor)
        needed[possible] = (self.link.inverse(share) - self.start[possible]) / self.slope[possible]
        return needed + np.log(self.smallest)

    def only(self, kept: NDArray[np.bool_]) -> Curves:
        """Some of the curves, in one row."""
        return replace(self, start=self.start[kept], slope=self.slope[kept], ceiling=self.ceiling[kept])


@dataclass(frozen=True)
class Posterior:
    """Curves of one link with their masses under the priors."""

    curves: Curves
    mass: Floats  # (priors, curves), each row sums to 1
    log_evidence: Floats  # (priors,)
    spread: float  # posterior mean of τ


@dataclass(frozen=True)
class _Grid:
    """One pass: the curves on the nodes of a window, and their masses there, τ on the last axis."""

    curves: Curves
    tau: Floats
    mass: Floats  # (priors, first, last, ceiling, τ)
    log_evidence: Floats


def posterior(sizes: Sizes, family: Family, link: Link) -> Posterior:
    """The posterior of the curves of ``family`` under ``link``, from the observed ``sizes``.

    Observed means have the variance τ²/S + p(1-p)/N: seeds average out the
    first part only, since all of them are tested on the same N points.
    """
    window = _first_window(sizes, family)
    for nodes in PASSES:
        grid = _summed(sizes, family, link, window, nodes)
        window = _narrowed(window, grid.mass)
    mass = grid.mass.sum(axis=-1)
    kept = mass.max(axis=0) > 1e-9  # curves of no weight need not be carried along
    spread = float((grid.mass.sum(axis=(1, 2, 3)) @ grid.tau).mean())
    mass = mass[:, kept] / np.maximum(mass[:, kept].sum(axis=1, keepdims=True), TINY)
    return Posterior(grid.curves.only(kept), mass, grid.log_evidence, spread)


def _first_window(sizes: Sizes, family: Family) -> Window:
    free = int((sizes.seeds - 1).sum())
    spread = 4 * np.sqrt(sizes.scatter.sum() / free) + 0.002 if free >= 3 else SPREAD[1]
    ends = []
    for k in (0, -1):
        error = np.sqrt(spread**2 / sizes.seeds[k] + 0.25 / family.test_points)
        low, high = sizes.mean[k] - REACH * error, sizes.mean[k] + REACH * error
        ends.append((max(low, family.floor), min(high, family.highest)))
    return [*ends, (0.0, 1.0), (float(np.log(SPREAD[0])), float(np.log(SPREAD[1])))]


def _summed(sizes: Sizes, family: Family, link: Link, window: Window, counts: tuple[int, ...]) -> _Grid:
    """Prior times likelihood on every node, normalized.

    Priors: three of the ceiling, both ends uniform below it, ln τ uniform. The third axis is the root of
    (ceiling - last) / (highest - last), which puts nodes where a curve bends; its last node is the highest ceiling.
    """
    steps = [(high - low) / count for (low, high), count in zip(window, counts, strict=True)]
    first, last, root, log_tau = (
        low + (np.arange(count, dtype=np.float64) + 0.5) * step
        for (low, _), count, step in zip(window, counts, steps, strict=True)
    )
    curves, rising = _curves(sizes, family, link, first, last, np.append(root**2, 1.0))
    score = _log_likelihood(sizes, curves, np.exp(log_tau))
    score[~rising] = -np.inf
    top = score.max()
    if not np.isfinite(top):
        raise InputError("The values fall as the data grows: no rising curve describes them.")
    within = (family.highest - last[:, None]) * 2 * root * steps[2] / (family.highest - family.floor)
    below = 2 * steps[0] * steps[1] * steps[3] / (curves.ceiling - family.floor) ** 2
    uniform = below * np.pad(within, ((0, 0), (0, 1)))
    highest = below * np.pad(np.zeros_like(within), ((0, 0), (0, 1)), constant_values=1.0)
    joint = np.exp(score - top) * np.stack([uniform, (uniform + highest) / 2, highest])[..., None]
    total = np.maximum(joint.sum(axis=(1, 2, 3, 4), keepdims=True), TINY)  # data may rule the highest out
    return _Grid(curves, np.exp(log_tau), joint / total, np.log(total.ravel()) + top)


def _curves(
    sizes: Sizes, family: Family, link: Link, first: Floats, last: Floats, share: Floats
) -> tuple[Curves, NDArray[np.bool_]]:
    """The curves through all pairs of ends under all ceilings, and which of them rise."""
    ceiling = last[:, None] + (family.highest - last[:, None]) * share
    ceiling = np.broadcast_to(ceiling, (len(first), *ceiling.shape))
    width = ceiling - family.floor
    with np.errstate(divide="ignore", invalid="ignore"):  # where the first end is not below the ceiling
        start = link.inverse((first[:, None, None] - family.floor) / width)
        end = link.inverse((last[:, None] - family.floor) / width)
        slope = (end - start) / np.log(sizes.n[-1] / sizes.n[0])
        rising = (first[:, None] < last)[:, :, None] & (slope > 0) & np.isfinite(slope) & np.isfinite(start)
    start, slope = np.where(rising, start, 0.0), np.where(rising, slope, 1.0)
    return Curves(link, family, float(sizes.n[0]), start, slope, ceiling), rising


def _log_likelihood(sizes: Sizes, curves: Curves, tau: Floats) -> Floats:
    """Of the seeds' scatter and of their means, for every curve (leading axes) and τ (last axis)."""
    score = -((sizes.seeds - 1).sum() * np.log(tau) + sizes.scatter.sum() / (2 * tau**2))
    for n, mean, seeds in zip(sizes.n, sizes.mean, sizes.seeds, strict=True):
        value = curves.at(n)[..., None]
        variance = tau**2 / seeds + value * (1 - value) / curves.family.test_points
        score = score - 0.5 * (np.log(variance) + (mean - value) ** 2 / variance)
    return score


def _narrowed(window: Window, mass: Floats) -> Window:
    """The part of every axis that holds the mass, and one cell on both sides."""
    cut: Window = []
    for axis, (low, high) in enumerate(window):
        others = tuple(k for k in range(5) if k != axis + 1)
        marginal = mass.sum(axis=others)
        marginal = marginal[:-1] if axis == 2 else marginal  # the spike is no part of the axis of ceilings
        held = np.flatnonzero(marginal > NEGLIGIBLE * marginal.max())
        step = (high - low) / len(marginal)
        cut.append((max(low, low + (held[0] - 1) * step), min(high, low + (held[-1] + 2) * step)))
    return cut
