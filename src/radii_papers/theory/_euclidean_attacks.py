"""Open question: is it the same for L2? Yes at equal length, with bounds that meet; no for attacks of constant length.

In the Gaussian model an L2 attacker of radius ρ moves the score of w by ρ|w|, so the robust error of the mean of n
samples is Φ(−(⟨w, θ⟩ − ρ|w|)/(σ|w|)), and 1% takes

    n = σ²/(A⁻² − 1),  A = (ρ + Φ⁻¹(.99) σ)/√d.

With ρ = ε√d, the length of an Linf step of ε, this is the Linf law with ε in place of √(2/π) ε: of order ε²√d for
σ = c d^(1/4). With a constant ρ it tends to (Φ⁻¹(.99))² c⁴ and does not grow at all.

Every learner fails below n = σ²/(d/ρ² − 1): the posterior mean of yθ, of length √(dn/(n + σ²)), is then within the
attacker's reach, who subtracts it (the argument of Schmidt et al. 2018, whose cost of a logarithm comes from Linf).
Over this bound the mean classifier takes a factor that tends to 1.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from scipy.stats import norm

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._gaussian_model import LARGEST_C, QUANTILE, Draw
from radii_papers.theory._lines import ResultRow, assume, at_least, at_most, equals
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

LEVEL = 0.01


def samples_against_l2(d: float, c: float, rho: float) -> float:
    """σ²/(A⁻² − 1) with σ = c d^(1/4): samples for 1% robust error; infinite where no n is enough.

    Args:
        rho: L2 radius of the attack.
    """
    a = rho / math.sqrt(d) + QUANTILE * c * d**-0.25
    return c * c * math.sqrt(d) / (a**-2 - 1) if a < 1 else math.inf


def hopeless_samples(d: float, c: float, rho: float) -> float:
    """σ²/(d/ρ² − 1): up to here the posterior mean lies within the attacker's reach.

    Args:
        rho: L2 radius of the attack, below √d.
    """
    return c * c * math.sqrt(d) / (d / rho**2 - 1)


def l2_error(draw: Draw, n: float, rho: float) -> float:
    """Exact robust error of the mean of n samples.

    Args:
        rho: L2 radius of the attack.
    """
    w = draw.mean(n)
    length = float(np.linalg.norm(w))
    return float(norm.cdf(-(w @ draw.theta / length - rho) / draw.sigma))


def _needed(draw: Draw, rho: float) -> float:
    low, high = math.log(1e-4), math.log(1e9)
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if l2_error(draw, math.exp(middle), rho) <= LEVEL else (middle, high)
    return math.exp(high)


@theorem("euclidean-attacks")
def euclidean_attacks(
    d: Annotated[tuple[int, ...], "dimensions in which data is drawn"] = (10_000, 100_000, 1_000_000),
    epsilon: Annotated[float, "length of the attack over sqrt(d)"] = 0.25,
    rho: Annotated[float, "length of the attack that does not grow with d"] = 2.0,
    c: Annotated[float, "sigma is c d^(1/4)"] = 0.6,
    draws: Annotated[int, "means and noises at each dimension"] = 6,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Samples for 1% robust error against L2 attacks of growing and of constant length, with the lower bound."""
    assume(0 < c <= LARGEST_C, f"One sample is accurate for c ≤ {LARGEST_C:.3f}", f"c = {c:g}")
    assume(0 < epsilon <= 0.5, "epsilon must lie in (0, 1/2]", epsilon)
    assume(0 < rho <= 10, "rho must lie in (0, 10]", rho)
    assume(len(d) > 0 and min(d) >= 10_000, "Sums over coordinates concentrate for d ≥ 10,000", d)
    assume(draws >= 2, "The median needs at least 2 draws", draws)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("dimensions", len(d)) as task:
        for dimension in d:
            draw = numpy_stream(seed, "euclidean-attacks", dimension)
            samples = [Draw.random(dimension, c, draw) for _ in range(max(draws, draws * 100_000 // dimension))]
            lengths = {f"ρ = {epsilon:g}√d": epsilon * math.sqrt(dimension), f"ρ = {rho:g}": rho}
            for name, length in lengths.items():
                needed = float(np.median([_needed(one, length) for one in samples]))
                expected = samples_against_l2(dimension, c, length)
                rows.append(equals(f"d={dimension}, {name}: n for 1% robust error over its closed form",
                                   needed / expected, 1, 0.1))  # fmt: skip
                picture.append(measured(dimension, needed, name))
            rows += _hopeless_rows(samples, epsilon * math.sqrt(dimension), c)
            task.advance(note=f"d={dimension}")
    rows += _far_rows(c, epsilon, rho)
    for dimension in np.geomspace(min(d), 1e8, 30):
        long = epsilon * math.sqrt(dimension)
        picture += [
            predicted(float(dimension), samples_against_l2(dimension, c, long), f"ρ = {epsilon:g}√d"),
            predicted(float(dimension), samples_against_l2(dimension, c, rho), f"ρ = {rho:g}"),
            predicted(float(dimension), hopeless_samples(dimension, c, long), "no learner below"),
        ]
    title = "Samples for 1% robust error against L2 attacks"
    return Simulation(tuple(rows), chart(title, "d", "n", picture, log_x=True, log_y=True))


def _hopeless_rows(samples: list[Draw], rho: float, c: float) -> list[ResultRow]:
    """At the lower bound: the posterior mean and the error of the mean classifier."""
    d = len(samples[0].theta)
    few = hopeless_samples(d, c, rho)
    reach = [float(np.linalg.norm(one.mean(few))) * few / (few + one.sigma**2) for one in samples]
    errors = [l2_error(one, few, rho) for one in samples]
    return [
        equals(
            f"d={d}: posterior mean over the attacker's reach at n = {few:.3g}", float(np.mean(reach)) / rho, 1, 0.02
        ),
        at_least(f"d={d}: robust error of the mean there", float(np.mean(errors)), 0.5, 0.05),
    ]


def _far_rows(c: float, epsilon: float, rho: float) -> list[ResultRow]:
    """Exponents of the closed forms, and the two bounds that meet."""
    ends = (1e14, 1e16)
    long = [samples_against_l2(end, c, epsilon * math.sqrt(end)) for end in ends]
    short = [samples_against_l2(end, c, rho) for end in ends]
    meet = long[1] / hopeless_samples(ends[1], c, epsilon * math.sqrt(ends[1]))
    return [
        equals("ρ = ε√d: exponent of n in d, 1e14 to 1e16", math.log10(long[1] / long[0]) / 2, 0.5, 0.01),
        equals("constant ρ: exponent of n in d, 1e14 to 1e16", math.log10(short[1] / short[0]) / 2, 0, 0.01),
        equals("constant ρ: n at d = 1e16 over (Φ⁻¹(.99))² c⁴", short[1] / (QUANTILE**2 * c**4), 1, 0.01),
        at_most("ρ = ε√d: n at d = 1e16 over the lower bound", meet, 1, 0.01),
    ]
