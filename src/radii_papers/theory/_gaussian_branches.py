"""The two branches of the Gaussian theorem, and the lower bound at dimensions where it speaks of whole samples.

The upper bound of Schmidt et al. 2018 has two branches: for ε ≤ ¼ d^(−1/4) one
sample is enough for a robust classifier, beyond it n of order ε²√d. In the notation of
:mod:`~radii_papers.theory._gaussian_model` the robust error of the mean of n samples tends
to Φ(−d^¼/c · (1/s − √(2/π) ε)), s² = 1 + c²√d/n. At the end of the first branch and n = 1

    Φ(−(1/√(c⁴ + c²/√d) − √(2/π)/(4c))),

which does not depend on d but for the small c²/√d: one sample is enough in any dimension
if c ≤ 0.614. The lower bound n = ε²c²√d/(8 log d) exceeds one sample only from d of order
10⁷ on; there closed forms are exact to many digits, and no data has to be drawn.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._gaussian_model import (
    Draw,
    lower_bound_error,
    lower_bound_samples,
    predicted_error,
    samples_needed,
)
from radii_papers.theory._lines import ResultRow, assume, assume_positive, at_least, at_most, equals, reports
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

LARGEST_C = 0.614  # Φ(−(1/c² − √(2/π)/(4c))) = 1%
LEVEL = 0.01


def branch_end(d: float) -> float:
    """ε = ¼ d^(−1/4), where the first branch of the theorem ends."""
    return 0.25 * d**-0.25


@theorem("gaussian-branches")
def gaussian_branches(
    d: Annotated[tuple[int, ...], "dimensions in which data is drawn"] = (10_000, 100_000, 1_000_000),
    far: Annotated[tuple[float, ...], "dimensions of the closed forms"] = (1e8, 1e10, 1e12, 1e14),
    epsilon: Annotated[float, "Linf budget of the second branch, at most 1/4"] = 0.25,
    c: Annotated[float, "sigma is c d^(1/4)"] = 0.6,
    draws: Annotated[int, "draws at each dimension"] = 20,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """One sample at the end of the first branch, many beyond it, and the lower bound where it allows whole samples."""
    assume(0 < c <= LARGEST_C, f"One sample is robust in the first branch for c ≤ {LARGEST_C:g}", f"c = {c:g}")
    assume(0 < epsilon <= 0.25, "The theorem needs 0 < epsilon ≤ 1/4", epsilon)
    assume(len(d) > 0 and min(d) >= 10_000, "Sums over coordinates concentrate for d ≥ 10,000", d)
    assume(len(far) > 0 and min(far) >= max(d), "The dimensions of the closed forms must be the larger ones", far)
    assume_positive(draws=draws)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    for dimension in d:
        draw, end = numpy_stream(seed, "gaussian-branches", dimension), branch_end(dimension)
        errors = [Draw.random(dimension, c, draw).error(1, end) for _ in range(draws)]
        expected = predicted_error(1, dimension, c, end)
        name = f"d={dimension}, epsilon=d^(-1/4)/4: robust error from one sample"
        rows += [
            at_most(name, float(np.median(errors)), LEVEL),
            equals(f"{name}, against its limit", float(np.median(errors)), expected, 0.4 * expected),
        ]
        picture.append(measured(float(dimension), float(np.median(errors)), "first branch, one sample"))
    for high in (*map(float, d), *far):
        first = predicted_error(1, high, c, branch_end(high))
        picture += [
            predicted(high, first, "first branch, one sample"),
            predicted(high, predicted_error(1, high, c, epsilon), f"epsilon = {epsilon:g}, one sample"),
        ]
    for high in far:
        rows += _far_rows(high, epsilon, c)
    title = f"One sample in the Gaussian model, sigma = {c:g} d^(1/4)"
    return Simulation(tuple(rows), chart(title, "d", "robust error", picture, log_x=True))


def _far_rows(d: float, epsilon: float, c: float) -> list[ResultRow]:
    """Closed forms in one dimension: both branches and the lower bound."""
    at, end = f"d={d:.0e}", branch_end(d)
    few = lower_bound_samples(d, c, epsilon)
    needed = samples_needed(d, c, epsilon)
    return [
        at_most(f"{at}, first branch: robust error from one sample", predicted_error(1, d, c, end), LEVEL),
        at_most(f"{at}, first branch: samples needed", samples_needed(d, c, end), 1),
        at_least(f"{at}, second branch: robust error from one sample", predicted_error(1, d, c, epsilon), 0.5),
        at_least(f"{at}, lower bound: samples that it allows", few, 1),
        at_least(f"{at}, lower bound: robust error of the mean of so many", predicted_error(few, d, c, epsilon),
                 lower_bound_error(d)),
        at_most(f"{at}: lower bound over samples needed", few / needed, 1),
        reports(f"{at}: samples needed over the lower bound, in logarithms of d", needed / few / math.log(d)),
    ]  # fmt: skip
