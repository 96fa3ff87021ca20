"""Gradient methods prefer networks that one short perturbation breaks, though robust ones exist.

Points x_i of the sphere of radius √d with labels ±1, a two-layer ReLU network
f with trained biases. At a KKT point of the maximum margin problem the
perturbation δ = η Σ y_j x_j, with |δ| = O(√(d/(c²n))), changes the sign of every
x_i − y_i δ, c being the share of the smaller class (Vardi et al. 2022; the
slides bound |η| by what bounds |δ|; η itself is about 1/n). The theorem needs
n ≤ (d + 1)/(3(max |⟨x_i, x_j⟩| + 1)): one or two random points, but (d + 1)/3
orthogonal ones.
"""

from __future__ import annotations

import math
from typing import Annotated

from numpy.random import Generator

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import balanced_signs, orthogonal
from radii_papers.theory._lines import ResultRow, assume, at_least, equals, reports
from radii_papers.theory._max_margin import (
    assume_dimensions,
    exponent,
    initial_network,
    kkt_point,
    label_direction,
    perturbation_length,
    train,
    universal_perturbation,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem


@theorem("max-margin-bias")
def max_margin_bias(
    d: Annotated[tuple[int, ...], "dimensions"] = (64, 128, 256),
    n: Annotated[int | None, "orthogonal points; √d and d/3 unless given"] = None,
    width: Annotated[int, "hidden units; twice and half of it are tried too"] = 40,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Length of the universal perturbation of true KKT points on orthogonal data, against √(d/n)."""
    assume_dimensions(d, width=width // 2)
    rules = {"n = √d": [round(math.sqrt(dd)) for dd in d], "n = d/3": [dd // 3 for dd in d]}
    if n is not None:
        rules = {f"n = {n}": [n] * len(d)}
    for points in rules.values():
        for dimension, count in zip(d, points, strict=True):
            assume(2 <= count <= (dimension + 1) / 3,
                   "The theorem needs 2 ≤ n ≤ (d + 1)/(3(max|⟨x_i, x_j⟩| + 1)), for orthogonal points (d + 1)/3 = "
                   f"{(dimension + 1) / 3:.1f}", f"n = {count} at d = {dimension}")  # fmt: skip
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("KKT points", len(rules) * len(d) + 2) as task:
        for rule, points in rules.items():
            lengths = []
            for dimension, count in zip(d, points, strict=True):
                lines, length = _kkt_rows(dimension, count, width, numpy_stream(seed, "kkt", dimension, count))
                rows += lines
                lengths.append(length)
                picture.append(measured(dimension, length, rule))
                picture.append(predicted(dimension, perturbation_length(dimension, count), rule))
                task.advance()
            limits = [perturbation_length(dimension, count) for dimension, count in zip(d, points, strict=True)]
            rows.append(equals(f"exponent of |δ| in d for {rule}", exponent(d, lengths), exponent(d, limits), 0.05))
        for other in (width // 2, 2 * width):
            count = next(iter(rules.values()))[0]
            rows += _kkt_rows(d[0], count, other, numpy_stream(seed, "kkt width", other))[0]
            task.advance()
    title = f"Universal perturbation of maximum margin networks, width {width}"
    return Simulation(tuple(rows), chart(title, "d", "length", picture, log_x=True, log_y=True))


def _kkt_rows(d: int, n: int, width: int, draw: Generator) -> tuple[list[ResultRow], float]:
    x, y = orthogonal(n, d, draw), balanced_signs(n, draw)
    trained, _ = train(initial_network(d, width, draw), x, y)
    point = kkt_point(trained, x, y)
    length = universal_perturbation(point.network, x, y, label_direction(x, y), 2 * math.sqrt(d))
    cell = f"d={d}, n={n}, width {width}"
    rows = [
        at_least(f"{cell}: cos(θ, Σλ∇)", point.cosine, 1, 0.005),
        equals(f"{cell}: smallest margin", point.smallest_margin, 1, 0.001),
        equals(f"{cell}: |δ| / √(d/n)", length / perturbation_length(d, n), 1, 0.03),
        reports(f"{cell}: η n", length / math.sqrt(n * d) * n),
    ]
    return rows, length
