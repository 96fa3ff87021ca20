"""Concentration of measure on the cube and the ball: half of the mass is close to everything.

A_ε is the set of points within L2 distance ε of A. For P(A) ≥ ½
(Ding et al. 2019, Theorem 2.1, after Ledoux 2005):

cube: P(A_ε) ≥ Φ(ε√(2π) + Φ⁻¹(P(A))) ≥ 1 − e^(−πε²)
ball: P(B_ε) ≥ 1 − (1 − ε²/4)^d / P(B) ≥ 1 − e^(−2dCε²) / P(B)

C = (2 − √3)/3 as printed is valid but not sharp; 1/8 is the largest constant
for which the last step holds at every ε. Example 2's second percentage
(97%) follows from the first form for the ball only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import norm

from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, at_least, equals, proportion_error, reports
from radii_papers.theory._uniform_sums import cdf
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

PRINTED_C = (2 - math.sqrt(3)) / 3
SHARP_C = 1 / 8


def cube_bound(epsilon: float, mass: float) -> float:
    """Φ(ε√(2π) + Φ⁻¹(P(A))).

    Args:
        epsilon: L2 distance.
    """
    return float(norm.cdf(epsilon * math.sqrt(2 * math.pi) + norm.ppf(mass)))


def weak_cube_bound(epsilon: float) -> float:
    """1 − e^(−πε²), for P(A) ≥ ½.

    Args:
        epsilon: L2 distance.
    """
    return 1 - math.exp(-math.pi * epsilon**2)


def ball_bound(epsilon: float, mass: float, d: int) -> float:
    """1 − (1 − δ(ε))^(2d)/P(B) with (1 − δ(ε))² = 1 − ε²/4.

    Args:
        epsilon: L2 distance.
    """
    return 1 - (1 - epsilon**2 / 4) ** d / mass


def weak_ball_bound(epsilon: float, mass: float, d: int, c: float = SHARP_C) -> float:
    """1 − e^(−2dCε²)/P(B).

    Args:
        epsilon: L2 distance.
    """
    return 1 - math.exp(-2 * d * c * epsilon**2) / mass


def vulnerable_share(classes: int, neighborhood: float) -> float:
    """1 − k(1 − P(A_ε)) with A the complement of one of k equal classes (Example 2).

    A point of a class is safe only outside A_ε; the k safe parts add up.

    Args:
        neighborhood: P(A_ε), or a lower bound of it.

    Returns:
        The share of points that an attack of length ε reaches, or a lower bound of it.
    """
    return 1 - classes * (1 - neighborhood)


def half_ball_neighborhood(epsilon: float, d: int) -> float:
    """P(x_1 < ε) for x uniform in the unit ball: ½ + ½ I_{ε²}(½, (d+1)/2).

    Args:
        epsilon: L2 distance.
    """
    return 0.5 + 0.5 * float(betainc(0.5, (d + 1) / 2, min(epsilon, 1.0) ** 2))


def ball_coordinate(n: int, d: int, generator: Generator) -> NDArray[np.float64]:
    """First coordinates of n uniform points of the unit d-ball, without the other d − 1.

    Returns:
        [n].
    """
    first = generator.standard_normal(n)
    rest = generator.chisquare(d - 1, n) if d > 1 else np.zeros(n)
    return first / np.sqrt(first**2 + rest) * generator.random(n) ** (1 / d)


def safe_from_slabs(position: NDArray[np.float64], classes: int, reach: float) -> float:
    """Share of points farther than ``reach`` from all other classes, when classes are equal slabs along a line.

    Args:
        position: places of the points along the line: [n].
        reach: length of the attack, in the same unit.

    Returns:
        A share in [0, 1].
    """
    edges = np.quantile(position, np.arange(1, classes) / classes)
    return float((np.abs(position[:, None] - edges) >= reach).all(1).mean())


@theorem("concentration")
def concentration(
    d: Annotated[int, "dimension of cube and ball"] = 784,
    epsilon: Annotated[float, "L2 distance in the cube"] = 0.3,
    ball_epsilon: Annotated[float, "L2 distance in the ball"] = 0.09,
    mass: Annotated[float, "mass of the half-spaces of the cube"] = 0.5,
    samples: Annotated[int, "Monte Carlo points"] = 40_000,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Neighborhoods of half-spaces and of a ball inside the cube against the bounds; Example 2's percentages."""
    assume(0.5 <= mass < 1, "Theorem 2.1 needs P(A) ≥ 1/2", f"mass = {mass:g}")
    assume(epsilon > 0, "Theorem 2.1 needs epsilon > 0", f"epsilon = {epsilon:g}")
    assume(
        0 < ball_epsilon <= 2, "The ball has diameter 2, so 0 < ball_epsilon ≤ 2", f"ball_epsilon = {ball_epsilon:g}"
    )
    assume(d >= 2, "Theorem 2.1 is tested in d ≥ 2", d)
    assume(samples >= 1000, "Shares need at least 1000 samples", samples)
    draw = numpy_stream(seed, "concentration")
    x = draw.random((samples // 10, d), dtype=np.float32)
    rows = _cube_rows(x, epsilon, mass)
    rows += _ball_rows(d, ball_epsilon, samples, draw)
    rows += _example_rows(x, samples, draw)
    marks = _picture(d, x.sum(1, dtype=np.float64) - d / 2, ball_coordinate(samples, d, draw))
    title = f"Mass within distance epsilon of half of the cube or ball, d = {d}"
    return Simulation(tuple(rows), chart(title, "epsilon", "mass", tuple(marks)))


def _cube_rows(x: NDArray[np.float32], epsilon: float, mass: float) -> list[ResultRow]:
    n, d = x.shape
    bound = cube_bound(epsilon, mass)
    axis = min(1.0, mass + epsilon)
    total = x.sum(1, dtype=np.float64) - d / 2
    edge = _quantile_of_sum(mass, d)
    diagonal = cdf(edge + epsilon * math.sqrt(d), d)
    within = (total < edge + epsilon * math.sqrt(d)).mean()
    radius = np.linalg.norm(x.astype(np.float64) - 0.5, axis=1)
    around_center = float((radius < np.quantile(radius, mass) + epsilon).mean())
    return [
        equals("cube: axis half-space, measured", (x[:, 0] < mass + epsilon).mean(), axis, _noise(axis, n)),
        equals("cube: diagonal half-space, measured", within, diagonal, _noise(diagonal, n)),
        at_least("cube: axis half-space over the bound", axis, bound),
        at_least("cube: diagonal half-space over the bound", diagonal, bound),
        at_least("cube: ball around the center over the bound", around_center, bound, _noise(bound, n)),
        at_least("cube: bound over 1 − e^(−πε²)", bound, weak_cube_bound(epsilon)),
    ]


def _quantile_of_sum(mass: float, d: int) -> float:
    """t with P(S − d/2 ≤ t) = mass, by bisection."""
    low, high = 0.0, d / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle, d) < mass else (low, middle)
    return high if mass > 0.5 else 0.0


def _ball_rows(d: int, epsilon: float, samples: int, draw: Generator) -> list[ResultRow]:
    exact = half_ball_neighborhood(epsilon, d)
    bound = ball_bound(epsilon, 0.5, d)
    sharp, printed = (weak_ball_bound(epsilon, 0.5, d, c) for c in (SHARP_C, PRINTED_C))
    return [
        equals(
            "ball: half-ball, measured",
            (ball_coordinate(samples, d, draw) < epsilon).mean(),
            exact,
            _noise(exact, samples),
        ),
        at_least("ball: half-ball over the bound", exact, bound),
        at_least("ball: bound over the exponential, C = 1/8", bound, sharp),
        at_least("ball: C = 1/8 over C as printed", sharp, printed),
    ]


def _example_rows(x: NDArray[np.float32], samples: int, draw: Generator) -> list[ResultRow]:
    """Example 2: 10 equal classes, ε = .5 in the cube and .09 in the ball of dimension 3072."""
    n, d = x.shape
    cube = vulnerable_share(10, cube_bound(0.5, 0.9))
    ball = vulnerable_share(10, ball_bound(0.09, 0.9, 3072))
    diagonal = 1 - safe_from_slabs(x.sum(1, dtype=np.float64) / math.sqrt(d), 10, 0.5)
    slabs = 1 - safe_from_slabs(ball_coordinate(samples, 3072, draw), 10, 0.09)
    return [
        equals("Example 2: cube, 94%", cube, 0.9438, 5e-5),
        equals("Example 2: ball, 97%", ball, 0.9781, 5e-5),
        reports("Example 2: ball by the exponential, C = 1/8", vulnerable_share(10, weak_ball_bound(0.09, 0.9, 3072))),
        reports("Example 2: ball as printed", vulnerable_share(10, weak_ball_bound(0.09, 0.9, 3072, PRINTED_C))),
        at_least("Example 2: diagonal slabs of the cube", diagonal, cube, _noise(cube, n)),
        at_least("Example 2: slabs of the ball", slabs, ball, _noise(ball, samples)),
    ]


def _noise(p: float, trials: int) -> float:
    return SIGMAS * proportion_error(p, trials)


def _picture(d: int, total: NDArray[np.float64], coordinate: NDArray[np.float64]) -> list[Row]:
    """``total`` are the sums of points of the cube less d/2, ``coordinate`` first coordinates in the ball."""
    curves: dict[str, Callable[[float], float]] = {
        "cube, diagonal": lambda e: cdf(e * math.sqrt(d), d),
        "cube, axis": lambda e: min(1.0, 0.5 + e),
        "cube, bound": lambda e: cube_bound(e, 0.5),
        "ball, half": lambda e: half_ball_neighborhood(e, d),
        "ball, bound": lambda e: max(0.0, ball_bound(e, 0.5, d)),
    }
    marks = [
        predicted(float(e), value(float(e)), name) for name, value in curves.items() for e in np.linspace(0, 0.6, 61)
    ]
    for e in np.linspace(0, 0.6, 13):
        marks.append(measured(float(e), (total < e * math.sqrt(d)).mean(), "cube, diagonal"))
        marks.append(measured(float(e), (coordinate < e).mean(), "ball, half"))
    return marks
