"""The same Bayes error, another robust error: half-spaces of the unit cube.

Labels 1[x_1 > ½] have a Bayes classifier that fails under ‖δ‖∞ < ε with
probability 2ε. The map T(x) = x where 1[x_1 > ½] = 1[Σx > d/2] and 1 − x
elsewhere preserves the uniform measure, is its own inverse, and carries these
labels to 1[Σx > d/2]. There the Bayes classifier fails with probability
P(|S − d/2| < εd), which tends to 1 (Ding et al. 2019, Example 1 and
Proposition 2.1; the variance of U[0, 1] is 1/12, not 1/4, so the sharp
Chebyshev bound is 1 − 1/(12dε²)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, at_least, at_most, equals, proportion_error, reports
from radii_papers.theory._uniform_sums import central_mass, normal_central_mass
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

PIXELS = 2_000_000  # numbers drawn at a time


def axis_to_diagonal(x: NDArray) -> NDArray:
    """T: x where both half-spaces give it the same label, 1 − x where they differ."""
    agree = (x[:, 0] > 0.5) == (x.sum(1) > x.shape[1] / 2)
    return np.where(agree[:, None], x, 1 - x)


def chebyshev_bound(d: int, epsilon: float, variance: float = 1 / 12) -> float:
    """1 − Var/(dε²); with Var = 1/4 it is the bound as printed, valid but weaker.

    Args:
        epsilon: Linf radius of the attack.
        variance: variance of one coordinate; default 1/12, of a uniform one.
    """
    return max(0.0, 1 - variance / (d * epsilon**2))


@dataclass(frozen=True)
class Sample:
    """What Monte Carlo saw at one dimension: shares of points."""

    axis: float
    diagonal: float
    boxed: float
    label_kept: float
    returned: float
    first_coordinate: float


def simulate(d: int, epsilon: float, samples: int, generator: Generator) -> Sample:
    """Robust errors of both Bayes classifiers, and the map T checked on every point.

    Args:
        epsilon: Linf radius of the attack.
    """
    totals = np.zeros(6)
    done = 0
    while done < samples:
        x = generator.random((min(samples - done, max(1, PIXELS // d)), d))
        image = axis_to_diagonal(x)
        deviation = image.sum(1) - d / 2
        right = deviation > 0
        # In the box a coordinate moves by min(ε, its distance to the wall).
        room = np.minimum(np.where(right[:, None], image, 1 - image), epsilon).sum(1)
        totals += [
            (np.abs(x[:, 0] - 0.5) < epsilon).sum(),
            (np.abs(deviation) < epsilon * d).sum(),
            (np.abs(deviation) < room).sum(),
            (right == (x[:, 0] > 0.5)).sum(),
            np.isclose(axis_to_diagonal(image), x, rtol=0, atol=1e-12).all(1).sum(),
            (image[:, 0] < 0.25).sum(),
        ]
        done += len(x)
    return Sample(*(totals / samples))


@theorem("half-spaces")
def half_spaces(
    d: Annotated[tuple[int, ...], "dimensions"] = (10, 100, 784, 3072),
    epsilon: Annotated[float, "Linf budget, strictly less is allowed to the attacker"] = 8 / 255,
    samples: Annotated[int, "points per dimension"] = 20_000,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Robust error of the Bayes classifier before and after T, against its exact value and the bounds."""
    assume(0 < epsilon < 0.5, "Example 1 has robust error 2 epsilon, so 0 < epsilon < 1/2", f"epsilon = {epsilon:g}")
    assume(all(dimension >= 1 for dimension in d) and len(d) > 0, "Dimensions must be at least 1", d)
    assume(samples >= 100, "Shares need at least 100 samples", samples)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("dimensions", len(d)) as task:
        for dimension in d:
            seen = simulate(dimension, epsilon, samples, numpy_stream(seed, "half-spaces", dimension))
            rows += _rows(dimension, epsilon, samples, seen)
            picture += [measured(dimension, seen.axis, "axis"), measured(dimension, seen.diagonal, "diagonal")]
            task.advance()
    for dimension in np.unique(np.geomspace(min(d), max(max(d), 2), 60).astype(int)).tolist():
        picture += [
            predicted(dimension, 2 * epsilon, "axis"),
            predicted(dimension, central_mass(epsilon * dimension, dimension), "diagonal"),
            predicted(dimension, chebyshev_bound(dimension, epsilon), "Chebyshev, 1/12"),
            predicted(dimension, chebyshev_bound(dimension, epsilon, 1 / 4), "Chebyshev as printed, 1/4"),
        ]
    title = f"Robust error of the Bayes classifier, epsilon = {epsilon:.3g}"
    return Simulation(tuple(rows), chart(title, "d", "robust error", picture, log_x=True))


def _rows(d: int, epsilon: float, samples: int, seen: Sample) -> list[ResultRow]:
    exact = central_mass(epsilon * d, d)
    noise = SIGMAS * proportion_error(exact, samples)
    rows = [
        equals(f"d={d}: labels kept by T", seen.label_kept, 1, 0),
        equals(f"d={d}: T(T(x)) = x", seen.returned, 1, 0),
        equals(
            f"d={d}: mass of x_1 < 1/4 after T", seen.first_coordinate, 0.25, SIGMAS * proportion_error(0.25, samples)
        ),
        equals(
            f"d={d}: axis robust error, 2ε", seen.axis, 2 * epsilon, SIGMAS * proportion_error(2 * epsilon, samples)
        ),
        equals(f"d={d}: diagonal robust error, exact", seen.diagonal, exact, noise),
        at_least(f"d={d}: exact over sharp Chebyshev", exact, chebyshev_bound(d, epsilon)),
        at_least(f"d={d}: exact over Chebyshev as printed", exact, chebyshev_bound(d, epsilon, 1 / 4)),
        at_most(f"d={d}: robust error inside the box", seen.boxed, seen.diagonal),
    ]
    normal = normal_central_mass(epsilon * d, d)
    if d >= 100:
        rows.append(equals(f"d={d}: exact against 2Φ(ε√(12d)) − 1", exact, normal, 0.005))
    else:
        rows.append(reports(f"d={d}: 2Φ(ε√(12d)) − 1", normal))
    return rows
