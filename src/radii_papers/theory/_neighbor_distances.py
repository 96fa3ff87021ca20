"""How fast nearest neighbors come closer, and what a fitted dimension extrapolates to.

If a point is within r of a test point with probability c r^d, the median
distance r* to the nearest of n points satisfies
(1/(2cn))^(1/d) ≤ r* ≤ (1/(cn))^(1/d) (Prach & Lampert 2025, Eq. 33), so for
log n ≪ d roughly C(1 − log(2n)/d) ≤ r* ≤ C(1 − log(n)/d); Eq. 35 prints the two
ends exchanged. Two estimators of d follow, the slope of log r over log n and
the ratio −a/b of a line r = a + b log n. They are not the same number, and
extrapolate to very different n.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from radii.geometry.neighbor_curve import NeighborLaw
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, at_least, at_most, equals, reports
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

Array = NDArray[np.float64]
SMALLEST = 48


def bracket(n: float, d: float, c: float = 1.0) -> tuple[float, float]:
    """Eq. 33: where the median distance to the nearest of n points lies.

    Args:
        c: the constant of the law P(r) = c r^d; default 1.
    """
    return (1 / (2 * c * n)) ** (1 / d), (1 / (c * n)) ** (1 / d)


def linear_bracket(n: float, d: float) -> tuple[float, float]:
    """Eq. 35 with its ends in order, in units of C: 1 − log(2n)/d and 1 − log(n)/d."""
    return 1 - math.log(2 * n) / d, 1 - math.log(n) / d


def exact_median(n: float, d: float) -> float:
    """The median itself, for c = 1: 1 − (1 − r^d)^n = ½."""
    return float((-math.expm1(-math.log(2) / n)) ** (1 / d))


def law_distances(n: int, d: int, replicates: int, generator: Generator) -> Array:
    """Nearest of n distances that follow P(r) = r^d on [0, 1]: the smallest of n uniform numbers, to the 1/d.

    Returns:
        [replicates].
    """
    smallest = -np.expm1(np.log(generator.random(replicates)) / n)
    return smallest ** (1 / d)


def cube_distances(sizes: list[int], d: int, queries: int, generator: Generator) -> Array:
    """Mean L2 distance to the nearest of the first n uniform points of the unit cube, for each n."""
    centers = generator.random((queries, d))
    nearest = np.full(queries, np.inf)
    means, done = [], 0
    for size in sizes:
        while done < size:
            count = min(size - done, 5000)
            nearest = np.minimum(nearest, cdist(centers, generator.random((count, d))).min(1))
            done += count
        means.append(float(nearest.mean()))
    return np.array(means)


@theorem("neighbor-distances")
def neighbor_distances(
    d: Annotated[int, "true dimension"] = 28,
    n: Annotated[int, "largest number of points; halved down to 48"] = 50_000,
    replicates: Annotated[int, "test points of the exact law"] = 20_000,
    queries: Annotated[int, "test points in the cube"] = 300,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Medians against bracket and exact value; both dimensions on the law and on a cube; what they extrapolate to."""
    assume(d >= 2, "Eq. 33 is run for d ≥ 2", d)
    assume(4 * SMALLEST <= n <= 1_000_000, f"Curves need n from {4 * SMALLEST} to 1000000", n)
    assume(replicates >= 1000 and queries >= 50, "At least 1000 replicates and 50 queries", (replicates, queries))
    sizes = [n >> k for k in range(int(math.log2(n / SMALLEST)) + 1)][::-1]
    draw = numpy_stream(seed, "neighbor-distances")
    medians = np.array([float(np.median(law_distances(size, d, replicates, draw))) for size in sizes])
    cube = cube_distances(sizes, d, queries, draw)
    rows = _bracket_rows(sizes, d, medians, replicates) + _linear_rows(d)
    rows += _estimator_rows(np.array(sizes, dtype=float), d, medians, cube)
    picture: list[Row] = []
    for size, median, distance in zip(sizes, medians, cube / cube[0] * medians[0], strict=True):
        low, high = bracket(size, d)
        picture += [
            measured(size, median, "law, median"),
            measured(size, distance, "cube, mean, scaled"),
            predicted(size, low, "bracket, low"),
            predicted(size, high, "bracket, high"),
        ]
    title = f"Distance to the nearest of n points, d = {d}"
    return Simulation(tuple(rows), chart(title, "n", "distance", picture, log_x=True, log_y=True))


def _bracket_rows(sizes: list[int], d: int, medians: Array, replicates: int) -> list[ResultRow]:
    """The median of m draws scatters by 1/(2√m f), where the density at the median is f = ½ log(2) d/r*."""
    rows = []
    for size, median in list(zip(sizes, medians, strict=True))[:: max(1, len(sizes) // 3)]:
        low, high = bracket(size, d)
        exact = exact_median(size, d)
        noise = SIGMAS * exact / (math.sqrt(replicates) * math.log(2) * d)
        rows += [
            equals(f"n={size}: median distance", median, exact, noise),
            at_least(f"n={size}: exact median over (2n)^(−1/d)", exact, low),
            at_most(f"n={size}: exact median under n^(−1/d)", exact, high),
        ]
    return rows


def _linear_rows(d: int) -> list[ResultRow]:
    low, high = linear_bracket(1000, d)
    return [
        at_most("Eq. 35 at n=1000: lower end under upper end", low, high),
        reports("Eq. 35 at n=1000: lower end, 1 − log(2n)/d", low),
        reports("Eq. 35 at n=1000: upper end, 1 − log(n)/d", high),
        reports("n^(−1/d) at n=1000, which 1 − log(n)/d stands for", 1000 ** (-1 / d)),
    ]


def _estimator_rows(sizes: Array, d: int, medians: Array, cube: Array) -> list[ResultRow]:
    exact = np.array([exact_median(size, d) for size in sizes])
    power, line = NeighborLaw.power(sizes, medians), NeighborLaw.linear(sizes, medians)
    expected = NeighborLaw.linear(sizes, exact).dimension
    cube_power, cube_line = NeighborLaw.power(sizes, cube), NeighborLaw.linear(sizes, cube)
    target = float(exact[-1]) / 2
    truth = math.log10(math.log(2)) - d * math.log10(target)
    return [
        equals("law: d by the power-law slope", power.dimension, d, 0.01 * d),
        equals("law: d by the line in log n", line.dimension, expected, 0.01 * expected),
        at_most("cube: d by the power-law slope", cube_power.dimension, d),
        at_least("cube: d by the line in log n, over the slope", cube_line.dimension, cube_power.dimension),
        equals("law: log10 n for half the distance, power law", power.log10_samples(target), truth, 0.02 * truth),
        at_most("law: log10 n for half the distance, line", line.log10_samples(target), truth),
        reports("cube: log10 n for half the distance, power law", cube_power.log10_samples(cube[-1] / 2)),
        reports("cube: log10 n for half the distance, line", cube_line.log10_samples(cube[-1] / 2)),
    ]
