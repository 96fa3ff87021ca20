"""The Bernoulli model: what a linear classifier needs many samples for, taking signs gives for free.

x in {±1}^d, x_i = yθ_i with probability ½ + τ, τ = c d^(−¼). The mean w of n
points y_j x_j has binomial coordinates, drawn without any data. Its Linf
robust error is Φ(−(2τ⟨w, θ⟩ − ε|w|₁)/(√(1 − 4τ²)|w|₂)), and 1% needs
n → ε²d/(8πc⁴) samples for ε well below τ: the law has ε² in it, which the
slides drop, so with ε proportional to τ the exponent of d is ½. From ε = 2τ
on no linear classifier works at any n. For ε < 1, sign(x + δ) = sign(x), and
one sample is enough (Schmidt et al. 2018).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import binom, norm

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import bernoulli_model as draw_bernoulli
from radii_papers.theory._lines import ResultRow, assume, at_least, at_most, equals, reports
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

QUANTILE = float(norm.ppf(0.99))
SMALLEST_C = math.sqrt(QUANTILE) / 2  # Φ(−4c²) = 1%


def tau_of(d: float, c: float) -> float:
    """τ = c d^(−¼)."""
    return c * d**-0.25


def robust_error(agreement: NDArray[np.float64], tau: float, epsilon: float) -> float:
    """Normal limit of the robust error of w, given ``agreement`` = w_i θ_i: [d].

    Args:
        agreement: w_i θ_i, [d].
        tau: advantage of the right sign, in (0, ½).
        epsilon: Linf radius of the attack.

    Returns:
        The robust error, in [0, 1].
    """
    margin = 2 * tau * agreement.sum() - epsilon * np.abs(agreement).sum()
    return float(norm.cdf(-margin / (math.sqrt(1 - 4 * tau**2) * np.linalg.norm(agreement))))


def draw_agreement(n: int, d: int, tau: float, generator: Generator) -> NDArray[np.float64]:
    """w_i θ_i of the mean of n samples: (2 Binomial(n, ½ + τ) − n)/n.

    Args:
        tau: advantage of the right sign, in (0, ½).

    Returns:
        [d].
    """
    return (2.0 * generator.binomial(n, 0.5 + tau, d) - n) / n


def predicted_error(n: int, d: float, tau: float, epsilon: float) -> float:
    """:func:`robust_error` with the sums at their expectations, which are exact binomial moments.

    Args:
        tau: advantage of the right sign, in (0, ½).
        epsilon: Linf radius of the attack.

    Returns:
        The predicted robust error, in [0, 1].
    """
    counts = np.arange(n + 1)
    mean_size = float(np.abs(2 * counts / n - 1) @ binom.pmf(counts, n, 0.5 + tau))
    square = 4 * tau**2 + (1 - 4 * tau**2) / n
    return float(norm.cdf(-math.sqrt(d) * (4 * tau**2 - epsilon * mean_size) / math.sqrt((1 - 4 * tau**2) * square)))


def normal_samples_needed(d: float, c: float, ratio: float) -> float:
    """n for 1% at ε = ratio·τ with normal instead of binomial coordinates, by bisection; for any d.

    Args:
        ratio: ε over τ; below 2.
    """
    tau = tau_of(d, c)

    def enough(n: float) -> bool:
        spread = math.sqrt((1 - 4 * tau**2) / n)
        z = 2 * tau / spread
        size = spread * (math.sqrt(2 / math.pi) * math.exp(-z * z / 2) + z * (1 - 2 * float(norm.cdf(-z))))
        margin = math.sqrt(d) * (4 * tau**2 - ratio * tau * size)
        return margin >= QUANTILE * math.sqrt((1 - 4 * tau**2) * (4 * tau**2 + spread**2))

    low, high = 0.0, math.log(1e15)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(math.exp(middle)) else (middle, high)
    return math.exp(high)


def asymptotic_samples(d: float, c: float, epsilon: float) -> float:
    """ε²d/(8πc⁴).

    Args:
        epsilon: Linf radius of the attack.
    """
    return epsilon**2 * d / (8 * math.pi * c**4)


@theorem("bernoulli-model")
def bernoulli_model(
    d: Annotated[tuple[int, ...], "dimensions"] = (10_000, 100_000, 1_000_000),
    ratio: Annotated[float, "budget epsilon over tau; below 2"] = 1.0,
    c: Annotated[float, "tau is c d^(-1/4)"] = 1.25,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Samples a linear classifier needs against the closed form, its exponent, and what signs do."""
    assume(
        c >= SMALLEST_C, f"One sample gives 1% error only for tau ≥ c d^(-1/4) with c ≥ {SMALLEST_C:.3f}", f"c = {c:g}"
    )
    assume(0 < ratio < 2, "No linear classifier is robust at epsilon ≥ 2 tau, so 0 < ratio < 2", f"ratio = {ratio:g}")
    assume(len(d) > 0 and min(d) >= 1000, "Sums over coordinates concentrate for d ≥ 1000", d)
    assume(tau_of(min(d), c) < 0.5, f"tau must be below 1/2, so d > (2c)^4 = {(2 * c) ** 4:.0f}", d)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("dimensions", len(d)) as task:
        for dimension in d:
            lines, dots = _cell(dimension, c, ratio, numpy_stream(seed, "bernoulli-model", dimension))
            rows += lines
            picture += dots
            task.advance()
    rows += _law_rows(c, ratio)
    rows += _sign_rows(c, numpy_stream(seed, "bernoulli-model", "signs"))
    title = f"Bernoulli model: linear classifier at epsilon = {ratio:g} tau"
    return Simulation(tuple(rows), chart(title, "n", "robust error", picture, log_x=True))


def _needed(d: int, tau: float, epsilon: float) -> int:
    """The smallest n whose predicted error is at most 1%."""
    n = 1
    while predicted_error(n, d, tau, epsilon) > 0.01:
        n += 1
        assume(n < 5000, "The number of samples needed must stay below 5000: take ratio farther from 2", f">{n}")
    return n


def _cell(d: int, c: float, ratio: float, draw: Generator) -> tuple[list[ResultRow], list[Row]]:
    tau = tau_of(d, c)
    epsilon = ratio * tau
    needed = _needed(d, tau, epsilon)
    sizes = sorted({1, *np.geomspace(1, 3 * needed, 8).astype(int).tolist(), *range(max(1, needed - 3), needed + 4)})
    errors = {n: robust_error(draw_agreement(n, d, tau, draw), tau, epsilon) for n in sizes}
    least = next((n for n in sizes if n >= needed - 3 and errors[n] <= 0.01), math.inf)
    few = max(1, needed // 8)
    rows = [
        at_most(f"d={d}: error from one sample", robust_error(draw_agreement(1, d, tau, draw), tau, 0.0), 0.01),
        equals(f"d={d}: n for 1% robust error", least, needed, max(1.0, 0.05 * needed)),
        at_least(
            f"d={d}: robust error at n = {few}", robust_error(draw_agreement(few, d, tau, draw), tau, epsilon), 0.5
        ),
    ]
    series = f"d = {d:.0e}"
    dots = [measured(n, error, series) for n, error in errors.items()]
    curve = np.unique(np.geomspace(1, 3 * needed, 30).astype(int)).tolist()
    dots += [predicted(n, predicted_error(n, d, tau, epsilon), series) for n in curve]
    return rows, dots


def _law_rows(c: float, ratio: float) -> list[ResultRow]:
    """Asymptotics in closed form, where no simulation reaches."""
    ends = [normal_samples_needed(d, c, ratio) for d in (1e14, 1e16)]
    small = 0.1 * tau_of(1e18, c)
    law = normal_samples_needed(1e18, c, 0.1) / asymptotic_samples(1e18, c, small)
    blind = robust_error(np.ones(10_000), tau_of(1e4, c), 2 * tau_of(1e4, c))
    return [
        equals("exponent of n in d for epsilon ∝ tau", math.log10(ends[1] / ends[0]) / 2, 0.5, 0.03),
        equals("n over ε²d/(8πc⁴) at ε = tau/10, d = 1e18", law, 1, 0.05),
        at_least("error of the perfect w = θ at epsilon = 2 tau", blind, 0.5, 1e-9),
    ]


def _sign_rows(c: float, draw: Generator, d: int = 1000, epsilon: float = 0.9, tests: int = 1000) -> list[ResultRow]:
    """One sample, real points, the strongest perturbation of a linear classifier, with and without signs."""
    theta = draw.choice([-1.0, 1.0], d)
    x, y = draw_bernoulli(1, theta, tau_of(d, c), draw)
    w = y[0] * x[0]
    points, labels = draw_bernoulli(tests, theta, tau_of(d, c), draw)
    moved = points - epsilon * labels[:, None] * np.sign(w)
    clean = float((labels * (points @ w) <= 0).mean())
    signs = float((labels * (np.sign(moved) @ w) <= 0).mean())
    return [
        reports("one sample, epsilon = .9: linear robust error", float((labels * (moved @ w) <= 0).mean())),
        equals("one sample, epsilon = .9: robust error after signs, over clean", signs, clean, 0),
        at_most("one sample, epsilon = .9: robust error after signs", signs, 0.01),
    ]
