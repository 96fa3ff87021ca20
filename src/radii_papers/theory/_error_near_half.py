"""How many samples keep a linear classifier near chance in the Bernoulli model: what γ in the lower bound means.

The theorem says that a linear classifier from n samples has expected robust error at least ½ − γ while n is of order
ε²γ²d, up to logarithms (Schmidt et al. 2018; Eq. 18 of the slides, which drop ε²). For the mean of n samples the
robust error is Φ(−√d (4τ² − ε m(n))/(√(1 − 4τ²) s(n))) with m, s the mean size and the root mean square of its
coordinates (:mod:`~radii_papers.theory._bernoulli_model`), so it is ½ − γ where this margin is q = Φ⁻¹(½ + γ). For ε
well below τ = c d^(−¼) that is

    n(γ) = ε²d/(8πc⁴) · (1 + q √(π/2)/(ε√d))²,

which hardly depends on γ: almost as many samples keep the error at 49% as at 1%. The order γ² of the bound is
safe, but it is the bound that is loose.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from scipy.stats import norm

from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._bernoulli_model import (
    SMALLEST_C,
    asymptotic_samples,
    draw_agreement,
    predicted_error,
    robust_error,
    tau_of,
)
from radii_papers.theory._lines import (
    SIGMAS,
    ResultRow,
    assume,
    assume_positive,
    at_least,
    equals,
    reports,
    standard_error,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

FAR = 1e12  # dimensions of the closed form's exponents


def samples_at(gamma: float, d: float, c: float, epsilon: float) -> float:
    """n(γ), at which the robust error of the mean of n samples is ½ − γ, for ε well below τ.

    Args:
        epsilon: Linf radius of the attack.
    """
    q = float(norm.ppf(0.5 + gamma))
    return asymptotic_samples(d, c, epsilon) * (1 + q * math.sqrt(math.pi / 2) / (epsilon * math.sqrt(d))) ** 2


def lower_bound_order(gamma: float, d: float, epsilon: float) -> float:
    """ε²γ²d/log(d/γ), the order of the samples up to which the error is at least ½ − γ.

    Args:
        epsilon: Linf radius of the attack.
    """
    return epsilon**2 * gamma**2 * d / math.log(d / gamma)


@theorem("error-near-half")
def error_near_half(
    d: Annotated[int, "dimension in which samples are drawn"] = 1_000_000,
    gammas: Annotated[tuple[float, ...], "how far below one half the robust error may fall"] = (0.1, 0.3, 0.45, 0.49),
    ratio: Annotated[float, "budget epsilon over tau"] = 0.5,
    c: Annotated[float, "tau is c d^(-1/4)"] = 0.8,
    draws: Annotated[int, "training sets"] = 12,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Samples at which the robust error is one half less gamma, drawn and in closed form, and their exponents."""
    assume(c >= SMALLEST_C, f"One sample gives 1% error only for c ≥ {SMALLEST_C:.3f}", f"c = {c:g}")
    assume(0 < ratio <= 0.6, "The closed form is for epsilon well below tau: 0 < ratio ≤ 0.6", f"ratio = {ratio:g}")
    assume(len(gammas) > 0 and 0 < min(gammas) <= max(gammas) < 0.5, "gamma must lie between 0 and 1/2", gammas)
    assume(d >= 1_000_000, "Sums over coordinates concentrate, and tau is small, for d ≥ 1,000,000", d)
    assume_positive(draws=draws)
    assume(draws >= 2, "Standard errors need at least 2 draws", draws)
    tau = tau_of(d, c)
    epsilon = ratio * tau
    rows: list[ResultRow] = []
    picture: list[Row] = []
    for gamma in gammas:
        n = max(1, round(samples_at(gamma, d, c, epsilon)))
        draw = numpy_stream(seed, "error-near-half", n)
        errors = [robust_error(draw_agreement(n, d, tau, draw), tau, epsilon) for _ in range(draws)]
        name = f"γ={gamma:g}, n={n}: robust error"
        expected, noise = predicted_error(n, d, tau, epsilon), SIGMAS * standard_error(errors) + 0.002
        rows.append(equals(f"{name}, against binomial sums", float(np.mean(errors)), expected, noise))
        enough = next(m for m in range(1, 20 * n) if predicted_error(m, d, tau, epsilon) <= 0.5 - gamma)
        rows.append(
            equals(f"γ={gamma:g}: n by binomial sums over n(γ)", enough / samples_at(gamma, d, c, epsilon), 1, 0.2)
        )
        rows.append(reports(f"γ={gamma:g}: samples over the order of the lower bound",
                            n / lower_bound_order(gamma, d, epsilon)))  # fmt: skip
        picture.append(measured(gamma, n, "mean classifier"))
    rows += _far_rows(c)
    for gamma in np.linspace(0.005, 0.495, 60):
        picture += [
            predicted(float(gamma), samples_at(float(gamma), d, c, epsilon), "mean classifier"),
            predicted(float(gamma), lower_bound_order(float(gamma), d, epsilon), "ε²γ²d/log(d/γ)"),
        ]
    title = f"Samples at which a linear classifier has robust error ½ − γ, d = {d:.0e}"
    return Simulation(tuple(rows), chart(title, "γ", "n", picture, log_y=True))


def _far_rows(c: float) -> list[ResultRow]:
    """Exponents at a fixed epsilon, and that the bound's order stays below what the mean needs."""
    epsilon = 0.05 * tau_of(FAR, c)

    def slope(first: float, second: float, change: float) -> float:
        return math.log(second / first) / math.log(change)

    base = samples_at(0.25, FAR, c, epsilon)
    rows = [
        equals("exponent of n in d, fixed ε", slope(base, samples_at(0.25, 10 * FAR, c, epsilon), 10), 1, 0.03),
        equals("exponent of n in ε", slope(base, samples_at(0.25, FAR, c, 2 * epsilon), 2), 2, 0.05),
        equals("exponent of n in γ", slope(samples_at(0.025, FAR, c, epsilon), base, 10), 0, 0.03),
    ]
    least = min(samples_at(g, FAR, c, epsilon) / lower_bound_order(g, FAR, epsilon) for g in (0.01, 0.1, 0.25, 0.49))
    return [*rows, at_least("d=1e12: n over the order of the lower bound, least over γ", least, 1)]
