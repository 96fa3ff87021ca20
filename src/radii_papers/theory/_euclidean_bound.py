"""How many points make 1-NN robust where only an L2-robust classifier exists: √d enters to the power d.

Points of different classes are more than 2δ apart in L2. A training point closer than s = 2(δ − δ') to x makes
1-NN in the L2 metric robust at x with radius δ' (:mod:`~radii_papers.theory._nearest_neighbor_bound` has the triangle
inequality). A box of side s/√d has diameter s, so

    |B| = ⌈√d/s⌉^d = O(c^d d^(d/2)),  c = 1/s,

boxes cover the cube, and 37 |B| points are enough for 99% (remark after Theorem 2 of Prach & Lampert 2025). No other
cover saves the power: a set of diameter s has at most the volume V_d (s/2)^d of a ball, so a cover has at least
1/(V_d (s/2)^d) sets, and per dimension the boxes are √(2πe)/2 = 2.07 times as many. Training points cannot do better
either: n of them have at most n V_d s^d of the cube within s.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import gammaln

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import slabs
from radii_papers.theory._lines import (
    SIGMAS,
    ResultRow,
    assume,
    assume_positive,
    at_least,
    at_most,
    equals,
    proportion_error,
    standard_error,
)
from radii_papers.theory._nearest_neighbor_bound import (
    NearestNeighbor,
    atoms,
    grid_points,
    rare_atoms_robust_accuracy,
    robust_accuracies,
    robust_accuracy_bound,
)
from radii_papers.theory.result import Simulation, chart, predicted, theorem

FAR = 10_000  # dimensions where the order of both counts is seen


def log_boxes(dimension: int, reach: float) -> float:
    """log |B| = d log ⌈√d/s⌉, boxes of diameter s that cover the cube.

    Args:
        reach: s = 2(δ − δ').
    """
    return dimension * math.log(math.ceil(math.sqrt(dimension) / reach - 1e-9))


def log_ball(dimension: int, radius: float) -> float:
    """log of the volume V_d r^d of a ball."""
    return dimension * (math.log(radius) + math.log(math.pi) / 2) - float(gammaln(dimension / 2 + 1))


@theorem("euclidean-bound")
def euclidean_bound(
    d: Annotated[tuple[int, ...], "dimensions of the data, each with |B| of at most 5000"] = (2, 3, 4),
    delta: Annotated[float, "L2 margin of the robust classifier that exists; below 1/2"] = 0.45,
    radius: Annotated[float | None, "L2 radius at which 1-NN is judged; delta/2 unless given"] = None,
    training_sets: Annotated[int, "training sets to average over"] = 12,
    tests: Annotated[int, "test points per training set"] = 1000,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Robust accuracy of 1-NN in the L2 metric at 37 |B| points, and why fewer boxes or points do not do."""
    assume(0 < delta < 0.5, "The data here has two classes more than 2 delta apart in [0, 1]^d, so 0 < delta < 1/2",
           f"delta = {delta:g}")  # fmt: skip
    at = delta / 2 if radius is None else radius
    assume(0 < at < delta, f"The remark holds for radii between 0 and delta = {delta:g}", f"radius = {at:g}")
    assume_positive(tests=tests)
    assume(training_sets >= 2, "Averages need training_sets of at least 2", training_sets)
    assume(len(d) > 0 and min(d) >= 1, "Dimensions must be at least 1", d)
    reach = 2 * (delta - at)
    largest = max(math.exp(min(log_boxes(dimension, reach), 50.0)) for dimension in d)
    assume(largest <= 5000.5, "|B| must be at most 5000: take fewer dimensions or a larger margin", f"{largest:.3g}")
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("dimensions", len(d)) as task:
        for dimension in d:
            rows += _robust_rows(dimension, delta, at, training_sets, tests, seed)
            rows.append(_reach_row(dimension, tests, training_sets, seed))
            task.advance()
    for dimension in range(1, 41):
        picture += [
            predicted(dimension, log_boxes(dimension, reach) / math.log(10), "boxes of diameter s"),
            predicted(dimension, -log_ball(dimension, reach / 2) / math.log(10), "at least, by volume"),
            predicted(dimension, dimension * math.log10(math.ceil(1 / reach - 1e-9)), "boxes of side s, for Linf"),
        ]
    rows += _order_rows(reach)
    title = f"log10 of the sets that cover the cube, s = {reach:g}"
    return Simulation(tuple(rows), chart(title, "d", "log10 of their number", picture))


def _robust_rows(d: int, delta: float, at: float, training_sets: int, tests: int, seed: int) -> list[ResultRow]:
    """1-NN on easy data and on atoms of mass 1/n, at 37 |B| points."""
    count = round(math.exp(log_boxes(d, 2 * (delta - at))))
    n, corners = 37 * count, grid_points(delta, d)
    mass = np.full(corners, 1 / n)
    mass[0] = 1 - (corners - 1) / n
    samplers = {
        "slabs": lambda m, draw: slabs(m, d, 2 * delta + 0.01 * (1 - 2 * delta), draw),
        "rare atoms, own labels": atoms(d, mass, np.arange(corners)),
    }
    rows = []
    for name, sample in samplers.items():
        pairs = []
        for number in range(training_sets):
            draw = numpy_stream(seed, "euclidean-bound", name, d, number)
            model = NearestNeighbor.of(*sample(n, draw), p=2)
            pairs.append(robust_accuracies(model, *sample(tests, draw), at))
        certified, attacked = np.array(pairs).T
        error = SIGMAS * standard_error(certified)
        cell = f"d={d}, n={n}, {name}"
        rows += [
            at_least(f"{cell}, certified", certified.mean(), robust_accuracy_bound(n, count), error),
            at_least(f"{cell}, attacked − certified", attacked.mean() - certified.mean(), 0),
        ]
    expected = rare_atoms_robust_accuracy(n, corners)
    error = max(error, SIGMAS * proportion_error(expected, tests * training_sets))  # all points may be right
    return [*rows, equals(f"{cell}, exact", certified.mean(), expected, error)]


def _reach_row(d: int, tests: int, training_sets: int, seed: int) -> ResultRow:
    """The share of a uniform cube within s of n training points, s such that their balls have half its volume."""
    n, shares = 2000, []
    reach = math.exp(-(math.log(2 * n) + log_ball(d, 1.0)) / d)
    for number in range(training_sets):
        draw = numpy_stream(seed, "euclidean-bound", "reach", d, number)
        distance, _ = cKDTree(draw.random((n, d))).query(draw.random((tests, d)))
        shares.append(float((distance < reach).mean()))
    name = f"d={d}: share of the cube within reach of {n} points, whose balls have half its volume"
    return at_most(name, float(np.mean(shares)), 0.5, SIGMAS * standard_error(shares))


def _order_rows(reach: float) -> list[ResultRow]:
    """Both counts are c^d d^(d/2), with constants c that differ by √(2πe)/2."""
    order = FAR / 2 * math.log(FAR)
    boxes, least = log_boxes(FAR, reach), -log_ball(FAR, reach / 2)
    ratio = math.log(math.sqrt(2 * math.pi * math.e) / 2)
    return [
        equals(f"d={FAR}: c of the boxes, times s", math.exp((boxes - order) / FAR) * reach, 1, 0.01),
        equals(f"d={FAR}: log c of the boxes less log c of any cover", (boxes - least) / FAR, ratio, 0.01),
        at_least(f"d={FAR}: log of the boxes over log of those for Linf",
                 boxes / (FAR * math.log(math.ceil(1 / reach - 1e-9))), 1),
    ]  # fmt: skip
