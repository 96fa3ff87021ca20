"""Why accuracy may grow like log n: a new point is among the k nearest of a test point with probability k/n.

Whatever the distribution, the n-th of n independent points is equally likely to have any rank among their distances
to a test point. So it changes the k nearest neighbors with probability k/n (n > k), and between n₁ and n₂ points

    k Σ 1/i = k (H(n₂) − H(n₁)) → k ln(n₂/n₁)

points are useful: the same number for every doubling (Prach & Lampert 2025, Eq. 28). For k = 1 these are records,
which are independent, so the variance is Σ (1/i)(1 − 1/i).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import Points, sphere
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, assume_positive, equals, standard_error
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

CLOUDS = ("cube", "Gaussian", "sphere")


def useful(k: int, before: int, after: int) -> float:
    """k (H(after) − H(before)): how many of the points number ``before`` + 1 to ``after`` are among the k nearest."""
    return float(k * (digamma(after + 1) - digamma(before + 1)))


def record_variance(before: int, after: int) -> float:
    """Σ (1/i)(1 − 1/i) for i = ``before`` + 1 to ``after``: the variance for k = 1."""
    squares = float(polygamma(1, before + 1) - polygamma(1, after + 1))
    return useful(1, before, after) - squares


def _cloud(name: str, n: int, d: int, draw: Generator) -> Points:
    if name == "sphere":
        return sphere(n, d, 1.0, draw)
    return draw.random((n, d)) if name == "cube" else draw.standard_normal((n, d))


def changes(distances: NDArray[np.float64], k: int) -> NDArray[np.bool_]:
    """Which points enter the k nearest when they come one after the other: [tests, n] -> [tests, n]."""
    nearest = np.full((len(distances), k), np.inf)
    entered = np.zeros(distances.shape, dtype=bool)
    for i, distance in enumerate(distances.T):
        farthest = nearest.argmax(1)
        rows = np.arange(len(distances))
        entered[:, i] = distance < nearest[rows, farthest]
        nearest[rows, farthest] = np.minimum(distance, nearest[rows, farthest])
    return entered


@theorem("useful-points")
def useful_points(
    n: Annotated[int, "training points, a power of 2"] = 1024,
    k: Annotated[tuple[int, ...], "numbers of neighbors"] = (1, 5),
    d: Annotated[int, "dimension of the data"] = 10,
    training_sets: Annotated[int, "training sets; standard errors are taken over them"] = 150,
    tests: Annotated[int, "test points per training set"] = 8,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Useful points per doubling of the training set, on three kinds of data, against k (H(2n) − H(n))."""
    assume(n >= 64 and n & (n - 1) == 0, "n must be a power of 2, at least 64", n)
    assume(len(k) > 0 and min(k) >= 1 and 2 * max(k) <= n // 8, "Neighbors k must lie between 1 and n/16", k)
    assume(training_sets >= 2, "Standard errors are taken over training_sets, so at least 2", training_sets)
    assume_positive(d=d, tests=tests)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("kinds of data", len(CLOUDS)) as task:
        for cloud in CLOUDS:
            entered = _entered(cloud, n, k, d, training_sets, tests, seed)
            for count, counts in zip(k, entered, strict=True):
                rows += _rows(cloud, count, counts)
                if cloud == CLOUDS[0]:
                    picture += _picture(count, counts)
            task.advance(note=cloud)
    title = "Training points that came among the k nearest of a test point"
    return Simulation(tuple(rows), chart(title, "n", "useful points so far", picture, log_x=True))


def _entered(
    cloud: str, n: int, k: tuple[int, ...], d: int, training_sets: int, tests: int, seed: int
) -> NDArray[np.bool_]:
    """For every k, training set and test point, which points entered: [k, training_sets, tests, n]."""
    entered = np.zeros((len(k), training_sets, tests, n), dtype=bool)
    for number in range(training_sets):
        draw = numpy_stream(seed, "useful-points", cloud, number)
        x, points = _cloud(cloud, tests, d, draw), _cloud(cloud, n, d, draw)
        squares = (x**2).sum(1)[:, None] + (points**2).sum(1) - 2 * x @ points.T
        for row, count in enumerate(k):
            entered[row, number] = changes(squares, count)
    return entered


def _rows(cloud: str, k: int, entered: NDArray[np.bool_]) -> list[ResultRow]:
    """Two doublings, the last point's chance, and for k = 1 the variance of the records."""
    n, rows = entered.shape[-1], []
    for end in (n // 4, n):
        per_set = entered[:, :, end // 2 : end].sum(2).mean(1)
        name = f"{cloud}, k={k}: useful of points {end // 2 + 1} to {end}"
        rows.append(equals(name, per_set.mean(), useful(k, end // 2, end), SIGMAS * standard_error(per_set)))
    late = entered[:, :, n // 2 :].mean(1) * np.arange(n // 2 + 1, n + 1)
    each = late.mean(1)
    rows.append(equals(f"{cloud}, k={k}: chance of point n, times n", each.mean(), k, SIGMAS * standard_error(each)))
    if k == 1:
        single = entered[:, 0, n // 16 :].sum(1)  # one test point per set: independent counts
        expected = record_variance(n // 16, n)
        spread = SIGMAS * expected * math.sqrt(2 / len(single)) + SIGMAS * math.sqrt(expected / len(single))
        rows.append(equals(f"{cloud}, k=1: variance of the number of records", single.var(ddof=1), expected, spread))
    return rows


def _picture(k: int, entered: NDArray[np.bool_]) -> list[Row]:
    total = entered.mean((0, 1)).cumsum()
    marks: list[Row] = []
    for power in range(4, int(math.log2(len(total))) + 1):
        size = 2**power
        marks += [measured(size, total[size - 1], f"k = {k}"), predicted(size, k + useful(k, k, size), f"k = {k}")]
    return marks
