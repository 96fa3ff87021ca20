"""The Gaussian model: one sample makes a classifier accurate, many make it robust.

x ~ N(yθ, σ²I) with |θ| = √d and σ = c d^(1/4) (σ is a standard deviation). The
classifier sign⟨w, x⟩ with w the mean of n points y_i x_i is w ~ N(θ, σ²/n I):
no data needs to exist. Its Linf robust error is
Φ(−(⟨w, θ⟩ − ε|w|₁)/(σ|w|₂)) (Schmidt et al. 2018). For θ in general position
the three sums concentrate, which gives 1% robust error at

    n = c²√d / (A⁻² − 1),  A = √(2/π) ε + Φ⁻¹(.99) c d^(−1/4).

Below n = ε²σ²/(8 log d) every learner has robust error at least (1 − 1/d)·½:
the adversary subtracts the posterior mean of yθ, and what is left carries no
label. (On the slides the ½ has become an exponent.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import norm

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._lines import ResultRow, assume, assume_positive, at_least, at_most, equals, reports
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

QUANTILE = float(norm.ppf(0.99))
FAR, CHUNK = 40_000_000, 1_000_000  # here the lower bound allows a whole sample
LARGEST_C = QUANTILE**-0.5  # Φ(−1/c²) = 1%


def robust_error(w: NDArray, theta: NDArray, sigma: float, epsilon: float) -> float:
    """Φ(−(⟨w, θ⟩ − ε|w|₁)/(σ|w|₂)), exact for the linear classifier w.

    Args:
        w: normal vector of the classifier: [d].
        theta: mean of class +1: [d].
        epsilon: Linf radius of the attack.

    Returns:
        The robust error, in [0, 1].
    """
    margin = w @ theta - epsilon * np.abs(w).sum()
    return float(norm.cdf(-margin / (sigma * np.linalg.norm(w))))


def predicted_error(n: float, d: float, c: float, epsilon: float) -> float:
    """The limit of :func:`robust_error` for the mean of n samples: Φ(−d^¼/c · (1/s − √(2/π) ε)), s² = 1 + σ²/n.

    Args:
        epsilon: Linf radius of the attack.

    Returns:
        The predicted robust error, in [0, 1].
    """
    spread = math.sqrt(1 + c * c * math.sqrt(d) / n)
    return float(norm.cdf(-(d**0.25) / c * (1 / spread - math.sqrt(2 / math.pi) * epsilon)))


def samples_needed(d: float, c: float, epsilon: float) -> float:
    """n at which the robust error is 1%; infinite where no n is enough.

    Args:
        epsilon: Linf radius of the attack.
    """
    a = math.sqrt(2 / math.pi) * epsilon + QUANTILE * c * d**-0.25
    return c * c * math.sqrt(d) / (a**-2 - 1) if a < 1 else math.inf


def lower_bound_samples(d: float, c: float, epsilon: float) -> float:
    """n = ε²σ²/(8 log d): up to here every learner fails.

    Args:
        epsilon: Linf radius of the attack.
    """
    return epsilon**2 * c * c * math.sqrt(d) / (8 * math.log(d))


def lower_bound_error(d: float) -> float:
    """(1 − 1/d)·½; the constant classifier attains ½."""
    return (1 - 1 / d) / 2


@dataclass(frozen=True)
class Draw:
    """One θ with |θ| = √d and one noise direction: the mean of n samples for every n at once."""

    theta: NDArray[np.float64]
    noise: NDArray[np.float64]
    sigma: float

    @classmethod
    def random(cls, d: int, c: float, generator: Generator) -> Draw:
        """θ uniform on its sphere."""
        theta = generator.standard_normal(d)
        return cls(theta * math.sqrt(d) / np.linalg.norm(theta), generator.standard_normal(d), c * d**0.25)

    def mean(self, n: float) -> NDArray[np.float64]:
        """w ~ N(θ, σ²/n I)."""
        return self.theta + self.sigma / math.sqrt(n) * self.noise

    def error(self, n: float, epsilon: float) -> float:
        """Robust error of the mean of n samples."""
        return robust_error(self.mean(n), self.theta, self.sigma, epsilon)

    def samples_needed(self, epsilon: float) -> float:
        """n at which the robust error falls to 1%, by bisection in log n."""
        low, high = math.log(1e-4), math.log(1e9)
        for _ in range(24):
            middle = (low + high) / 2
            low, high = (low, middle) if self.error(math.exp(middle), epsilon) <= 0.01 else (middle, high)
        return math.exp(high)


@theorem("gaussian-model")
def gaussian_model(
    d: Annotated[tuple[int, ...], "dimensions"] = (10_000, 100_000, 1_000_000),
    epsilon: Annotated[tuple[float, ...], "Linf budgets, at most 1/4"] = (0.1, 0.25),
    c: Annotated[float, "sigma is c d^(1/4)"] = 0.6,
    draws: Annotated[int, "draws at a million dimensions; a draw in d scatters by d^(-1/4), so fewer get more"] = 4,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Samples needed for 1% robust error against the closed form, the lower bound, and the exponents."""
    assume(
        0 < c <= LARGEST_C,
        f"One sample gives 1% error only for sigma ≤ c d^(1/4) with c ≤ {LARGEST_C:.3f}",
        f"c = {c:g}",
    )
    assume(
        len(epsilon) > 0 and min(epsilon) > 0 and max(epsilon) <= 0.25, "The theorem needs 0 < epsilon ≤ 1/4", epsilon
    )
    assume(len(d) > 0 and min(d) >= 100, "Sums over coordinates concentrate for d ≥ 100", d)
    assume_positive(draws=draws)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("dimensions", len(d)) as task:
        for dimension in d:
            draw = numpy_stream(seed, "gaussian-model", dimension)
            count = min(math.ceil(draws * 1e6 / dimension), 1000)
            samples = [Draw.random(dimension, c, draw) for _ in range(max(count, draws))]
            rows += _rows(samples, c, epsilon)
            task.advance(note=f"d={dimension}")
            if dimension == max(d):
                picture = _picture(samples, c, epsilon)
    if max(d) >= 1_000_000:
        rows += _at_the_lower_bound(c, max(epsilon), seed)
    far = [samples_needed(big, c, max(epsilon)) for big in (1e12, 1e14)]
    wide = [samples_needed(1e14, c, budget) for budget in (max(epsilon) / 2, max(epsilon))]
    rows.append(equals("exponent of n in d, 1e12 to 1e14", math.log10(far[1] / far[0]) / 2, 0.5, 0.03))
    rows.append(equals("exponent of n in epsilon at d = 1e14", math.log2(wide[1] / wide[0]), 2, 0.1))
    title = f"Gaussian model: robust error of the mean classifier, d = {max(d):.0e}"
    return Simulation(tuple(rows), chart(title, "n", "robust error", picture, log_x=True))


def _rows(samples: list[Draw], c: float, epsilon: tuple[float, ...]) -> list[ResultRow]:
    d = len(samples[0].theta)
    one = float(np.median([sample.error(1, 0.0) for sample in samples]))
    limit = -norm.ppf(predicted_error(1, d, c, 0.0))
    rows = [
        at_most(f"d={d}: error from one sample", one, 0.01),
        equals(f"d={d}: its normal quantile", -norm.ppf(one), limit, 0.05 * limit),
    ]
    for budget in epsilon:
        cell = f"d={d}, epsilon={budget:g}"
        needed = samples_needed(d, c, budget)
        median = np.median([sample.samples_needed(budget) for sample in samples])
        exact = needed >= 1 and d >= 10_000
        name = f"{cell}: n for 1% robust error"
        rows.append(equals(name, median, needed, 0.05 * needed) if exact else reports(name, median))
        few = lower_bound_samples(d, c, budget)
        errors = [sample.error(few, budget) for sample in samples]
        # Given the samples, the mean of yθ is m = w n/(n + σ²); subtracting it from x leaves no trace of y.
        reach = max(np.abs(sample.mean(few)).max() * few / (few + sample.sigma**2) for sample in samples)
        rows += [
            at_most(f"{cell}: posterior mean within the budget at n = {few:.3g}", reach / budget, 1),
            at_least(f"{cell}: robust error of the mean at that n", float(np.mean(errors)), lower_bound_error(d)),
        ]
    return rows


def _at_the_lower_bound(c: float, epsilon: float, seed: int) -> list[ResultRow]:
    """Three learners on as many whole samples as the lower bound allows, θ drawn from the prior N(0, I) of its proof.

    The posterior mean of yθ being within the budget is what defeats every
    learner, not only these: the adversary subtracts it.
    """
    allowed = lower_bound_samples(FAR, c, epsilon)
    n, sigma, cell = max(1, math.floor(allowed)), c * FAR**0.25, f"d=4e7, epsilon={epsilon:g}"
    sums, reach = np.zeros((3, 3)), 0.0
    draw = numpy_stream(seed, "gaussian-model", "lower bound")
    for _ in range(FAR // CHUNK):
        theta = draw.standard_normal(CHUNK)
        mean = theta + sigma / math.sqrt(n) * draw.standard_normal(CHUNK)
        reach = max(reach, float(np.abs(mean).max()) * n / (n + sigma**2))
        for number, w in enumerate((mean, np.sign(mean), mean * (np.abs(mean) > 2 * sigma))):
            sums[number] += w @ theta, np.abs(w).sum(), w @ w
    errors = norm.cdf(-(sums[:, 0] - epsilon * sums[:, 1]) / (sigma * np.sqrt(sums[:, 2])))
    return [
        reports(f"{cell}: samples at the lower bound", allowed),
        at_most(f"{cell}: posterior mean over the budget at the lower bound", reach / epsilon, 1),
        *(
            at_least(f"{cell}: robust error of {learner} at the lower bound", error, lower_bound_error(FAR))
            for learner, error in zip(("the mean", "its signs", "its large entries"), errors, strict=True)
        ),
    ]


def _picture(samples: list[Draw], c: float, epsilon: tuple[float, ...]) -> list[Row]:
    d = len(samples[0].theta)
    picture: list[Row] = []
    for budget in (0.0, *epsilon):
        series = f"epsilon = {budget:g}"
        top = max(4 * samples_needed(d, c, budget), 4.0)
        for n in np.geomspace(0.25, top, 40):
            picture.append(predicted(float(n), predicted_error(float(n), d, c, budget), series))
        for n in np.geomspace(0.25, top, 8):
            picture.append(measured(float(n), samples[0].error(float(n), budget), series))
    return picture
