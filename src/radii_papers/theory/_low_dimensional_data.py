"""Open question: does the robust sample complexity fall on data of low dimension? It does; k takes the place of d.

The Gaussian model of :mod:`~radii_papers.theory._gaussian_model` inside a random subspace of k of d dimensions: mean θ
with |θ| = √d and noise only there, while the Linf attacker moves in all d. Noise that one sample just overcomes is
now σ = c √d k^(−1/4). The mean w of n samples stays in the subspace, |w|² = d + σ²k/n, and a random subspace has
|w|₁ = √(2d/π)|w|, so 1% robust error takes

    n = c²√k/(A⁻² − 1),  A = √(2/π) ε + Φ⁻¹(.99) c k^(−1/4):

of order ε²√k, whatever d is (Weinberger's slides ask it about Schmidt et al. 2018). The separation does not vanish;
it is that of the intrinsic dimension.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import sphere
from radii_papers.theory._gaussian_model import LARGEST_C, robust_error, samples_needed
from radii_papers.theory._lines import ResultRow, assume, assume_positive, at_most, equals
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem


def samples_on_subspace(k: float, c: float, epsilon: float) -> float:
    """n for 1% robust error with data in k dimensions: the closed form of the full space with k in place of d.

    Args:
        epsilon: Linf radius of the attack.
    """
    return samples_needed(k, c, epsilon)


def _needed(basis: NDArray[np.float64], c: float, epsilon: float, draw: Generator) -> tuple[float, float]:
    """Error of one sample, and the number of samples for 1% robust error, of one mean and one noise."""
    d, k = basis.shape
    sigma = c * math.sqrt(d) * k**-0.25
    theta = basis @ sphere(1, k, math.sqrt(d), draw)[0]
    noise = sigma * (basis @ draw.standard_normal(k))

    def error(n: float, budget: float) -> float:
        return robust_error(theta + noise / math.sqrt(n), theta, sigma, budget)

    low, high = math.log(1e-3), math.log(1e9)
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if error(math.exp(middle), epsilon) <= 0.01 else (middle, high)
    return error(1.0, 0.0), math.exp(high)


@theorem("low-dimensional-data")
def low_dimensional_data(
    d: Annotated[tuple[int, ...], "dimensions of the space"] = (4000, 16_000),
    k: Annotated[tuple[int, ...], "dimensions of the data"] = (100, 200, 400, 800),
    epsilon: Annotated[float, "Linf budget in all d dimensions"] = 0.5,
    c: Annotated[float, "sigma is c sqrt(d) k^(-1/4)"] = 0.5,
    draws: Annotated[int, "means and noises for each pair of dimensions"] = 60,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Samples for 1% robust error over the dimension of the data, in spaces of several dimensions."""
    assume(0 < c <= LARGEST_C, f"One sample is accurate for c ≤ {LARGEST_C:.3f}", f"c = {c:g}")
    assume(len(d) > 0 and len(k) >= 2 and min(k) >= 50 and max(k) <= min(d) // 4,
           "The data needs at least two dimensions k between 50 and d/4", f"k = {k}, d = {d}")  # fmt: skip
    assume(epsilon > 0 and math.isfinite(samples_on_subspace(min(k), c, epsilon)),
           "1% robust error must be within reach: take a smaller epsilon or c", f"epsilon = {epsilon:g}")  # fmt: skip
    assume(draws >= 10, "The median needs at least 10 draws", draws)
    assume_positive(draws=draws)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("dimensions", len(d) * len(k)) as task:
        for space in d:
            medians = []
            for inner in k:
                draw = numpy_stream(seed, "low-dimensional-data", space, inner)
                basis, _ = np.linalg.qr(draw.standard_normal((space, inner)))
                once, needed = np.array([_needed(basis, c, epsilon, draw) for _ in range(draws)]).T
                medians.append(float(np.median(needed)))
                expected, cell = samples_on_subspace(inner, c, epsilon), f"d={space}, k={inner}"
                rows += [
                    at_most(f"{cell}: error from one sample, no attack", float(np.median(once)), 0.01),
                    equals(f"{cell}: n for 1% robust error over its closed form", medians[-1] / expected, 1, 0.15),
                ]
                picture.append(measured(inner, medians[-1], f"d = {space}"))
                task.advance(note=cell)
            growth = samples_on_subspace(k[-1], c, epsilon) / samples_on_subspace(k[0], c, epsilon)
            name = f"d={space}: n at k={k[-1]} over n at k={k[0]}"
            rows.append(equals(name, medians[-1] / medians[0], growth, 0.15 * growth))
    far = [samples_on_subspace(inner, c, epsilon) for inner in (1e12, 1e14)]
    rows.append(equals("exponent of n in k, 1e12 to 1e14", math.log10(far[1] / far[0]) / 2, 0.5, 0.03))
    for inner in np.geomspace(min(k), max(k), 30):
        picture.append(predicted(float(inner), samples_on_subspace(float(inner), c, epsilon), "c²√k/(A⁻² − 1)"))
    title = f"Samples for 1% robust error of data in k of d dimensions, epsilon = {epsilon:g}"
    return Simulation(tuple(rows), chart(title, "k", "n", picture, log_x=True, log_y=True))
