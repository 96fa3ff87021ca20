"""A two-layer network that is robust on the same points: one neuron per point (Vardi et al. 2022).

Its radius is (1 − m)/2 √d with m = max |⟨x_i, x_j⟩|/d, many times the length of
the perturbation that breaks a network found by a gradient method.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import Labels, Points, balanced_signs, sphere
from radii_papers.theory._lines import ResultRow, assume, at_least, at_most, equals, reports
from radii_papers.theory._max_margin import TwoLayerNetwork, assume_dimensions, exponent, perturbation_length
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem


def robust_two_layer(x: Points, y: Labels) -> tuple[TwoLayerNetwork, float]:
    """One neuron per point, Σ y_i max(0, ⟨x_i, x⟩ − (1 + m)d/2), and its radius (1 − m)/2 √d.

    Neuron i is on at x_i with (1 − m)d/2 to spare and off by as much at every
    other point, and a step of length t changes ⟨x_i, x⟩ by at most t√d.

    Args:
        x: points of length √d whose scalar products are at most m d, m < 1: [n, d].
        y: their labels, −1 or 1: [n].
    """
    d = x.shape[1]
    inner = np.abs(x @ x.T - d * np.eye(len(x))).max() / d
    return TwoLayerNetwork(x, np.full(len(x), -(1 + inner) * d / 2), y.astype(float)), (1 - inner) / 2 * math.sqrt(d)


@theorem("robust-network")
def robust_network(
    d: Annotated[tuple[int, ...], "dimensions"] = (100, 200, 400, 800),
    n: Annotated[int | None, "points; √d unless given"] = None,
    restarts: Annotated[int, "random starts of the attack"] = 10,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """The explicit network attacked below its radius, and walked out of it at exactly that radius."""
    assume_dimensions(d, restarts=restarts)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    radii = []
    for dimension in d:
        count = round(math.sqrt(dimension)) if n is None else n
        assume(count >= 2, "Two classes need n ≥ 2", f"n = {count}")
        draw = numpy_stream(seed, "robust-network", dimension)
        x, y = sphere(count, dimension, math.sqrt(dimension), draw), balanced_signs(count, draw)
        network, radius = robust_two_layer(x, y)
        radii.append(radius)
        broken = _attack(network, x, y, 0.99 * radius, restarts, draw)
        exits = [_exit(network, x[i], int(y[i])) for i in range(count)]
        rows += [
            at_most(f"d={dimension}, n={count}: points broken at .99 R", broken, 0),
            equals(f"d={dimension}, n={count}: way out towards 0, over R", np.min(exits) / radius, 1, 1e-6),
            reports(f"d={dimension}, n={count}: R / √d", radius / math.sqrt(dimension)),
        ]
        picture += [
            measured(dimension, radius, "robust network, R"),
            predicted(dimension, math.sqrt(dimension) / 2, "½√d, the limit"),
            predicted(dimension, perturbation_length(dimension, count), "maximum margin, √(d/n)"),
        ]
    rows.append(at_least("exponent of R in d, at least 1/2", exponent(d, radii), 0.5))
    return Simulation(tuple(rows), chart("Robust networks exist", "d", "length", picture, log_x=True, log_y=True))


def _exit(network: TwoLayerNetwork, x: NDArray[np.float64], y: int) -> float:
    """The length at which y f(x − t x/|x|) stops being positive, by bisection."""
    length = float(np.linalg.norm(x))
    low, high = 0.0, length
    for _ in range(60):
        middle = (low + high) / 2
        inside = y * network(x[None] * (1 - middle / length))[0] > 0
        low, high = (middle, high) if inside else (low, middle)
    return high


def _attack(network: TwoLayerNetwork, x: Points, y: Labels, radius: float, restarts: int, draw: Generator) -> int:
    """Points whose sign is broken by projected gradient descent or by walking to a point of the other class."""
    broken = np.zeros(len(x), dtype=bool)
    for restart in range(restarts):
        if restart == 0:
            goals = x[np.where(y[:, None] != y, x @ x.T, -np.inf).argmax(1)]
            step = radius * (goals - x) / np.linalg.norm(goals - x, axis=1, keepdims=True)
        else:
            step = sphere(len(x), x.shape[1], radius, draw)
        for _ in range(30):
            broken |= y * network(x + step) <= 0
            active = ((x + step) @ network.w.T + network.b > 0) * network.a
            slope = y[:, None] * (active @ network.w)
            slope /= np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-12)
            step = step - 0.2 * radius * slope
            step *= np.minimum(1, radius / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-12))
    return int(broken.sum())
