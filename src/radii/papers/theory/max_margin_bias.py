"""Gradient methods prefer networks that one short perturbation breaks, though robust ones exist.

Points x_i of the sphere of radius √d with labels ±1, a two-layer ReLU network
f with trained biases. At a KKT point of the maximum margin problem the
perturbation δ = η Σ y_j x_j, with |δ| = O(√(d/(c²n))), changes the sign of every
x_i − y_i δ, c being the share of the smaller class (Vardi et al. 2022; the
slides bound |η| by what bounds |δ|; η itself is about 1/n). The theorem needs
n ≤ (d + 1)/(3(max |⟨x_i, x_j⟩| + 1)): one or two random points, but (d + 1)/3
orthogonal ones. A network with one neuron per point has radius (1 − m)/2 √d
on the same data, m = max |⟨x_i, x_j⟩|/d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from radii import progress
from radii.data.synthetic import Labels, Points, balanced_signs, orthogonal, sphere
from radii.papers.theory.max_margin import Network, kkt_point, stationarity, train, universal_perturbation
from radii.papers.theory.result import (
    Chart,
    Evidence,
    Mark,
    Row,
    assume,
    assume_positive,
    at_least,
    at_most,
    equals,
    measured,
    predicted,
    reports,
    theorem,
)
from radii.randomness import numpy_stream

INITIAL_SCALE = 0.3


def label_direction(x: Points, y: Labels) -> NDArray[np.float64]:
    """Σ y_i x_i as a unit vector."""
    total = y @ x
    return total / np.linalg.norm(total)


def perturbation_length(d: int, n: int) -> float:
    """√(d/n): the length of the universal perturbation of a maximum margin network on balanced orthogonal points.

    Its positive neurons follow the sum of the positive points and its negative
    ones the other sum; x_i − y_i η Σ y_j x_j crosses zero at η = 1/n.
    """
    return math.sqrt(d / n)


def exponent(d: Sequence[int], lengths: Sequence[float]) -> float:
    """Slope of log length over log d; ¼ for √(d/n) with n = √d, 0 with n = d/3."""
    return float(np.polyfit(np.log(d), np.log(lengths), 1)[0])


def _initial(d: int, width: int, draw: Generator) -> Network:
    return Network.random(d, width, draw).scaled(INITIAL_SCALE)


def _assume_dimensions(d: tuple[int, ...], **counts: int) -> None:
    assume(len(d) >= 2 and min(d) >= 10, "An exponent needs at least two dimensions of at least 10", d)
    assume_positive(**counts)


@theorem("gradient-flow")
def gradient_flow(
    d: Annotated[tuple[int, ...], "dimensions"] = (100, 200, 400),
    width: Annotated[int, "hidden units"] = 200,
    networks: Annotated[int, "networks per dimension"] = 5,
    loss: Annotated[float, "exponential loss to train to"] = 1e-30,
    seed: int = 0,
) -> Evidence:
    """Length of the universal perturbation of trained networks on n = √d random points, against a random direction."""
    _assume_dimensions(d, width=width, networks=networks)
    assume(0 < loss < 1, "The flow is known to converge once the loss is below 1", f"loss = {loss:g}")
    rows: list[Row] = []
    picture: list[Mark] = []
    averages: list[float] = []
    with progress.task("networks", len(d) * networks) as task:
        for dimension in d:
            points, found = round(math.sqrt(dimension)), []
            for number in range(networks):
                draw = numpy_stream(seed, "gradient-flow", dimension, number)
                found.append(_trained(dimension, width, loss, draw))
                task.advance(note=f"d={dimension}")
            log_losses, lengths, random_lengths, cosines = np.array(found).T
            averages.append(float(lengths.mean()))
            rows += [
                at_most(f"d={dimension}: largest log10 of the loss", log_losses.max(), math.log10(loss)),
                at_most(f"d={dimension}: |δ| over the random direction's", (lengths / random_lengths).max(), 0.5),
                at_most(f"d={dimension}: |δ| / √(d/n)", averages[-1] / perturbation_length(dimension, points), 2),
                reports(f"d={dimension}: |δ| / √d", averages[-1] / math.sqrt(dimension)),
                reports(f"d={dimension}: cos(θ, −∇L), 1 at KKT points", cosines.max()),
            ]
            picture.append(measured(dimension, averages[-1], "trained"))
    limits = [perturbation_length(dimension, round(math.sqrt(dimension))) for dimension in d]
    rows.append(equals("exponent of |δ| in d for n = √d", exponent(d, averages), exponent(d, limits), 0.1))
    for dimension, limit in zip(d, limits, strict=True):
        picture.append(predicted(dimension, limit, "√(d/n)"))
        picture.append(predicted(dimension, math.sqrt(dimension), "the points, √d"))
    title = f"Universal perturbation at loss {loss:g}, width {width}"
    return Evidence(tuple(rows), Chart(title, "d", "length", tuple(picture), log_x=True, log_y=True))


def _trained(d: int, width: int, loss: float, draw: Generator) -> tuple[float, float, float, float]:
    """log10 L, the length along Σ y_i x_i and along a random line, and cos(θ, −∇L)."""
    n = round(math.sqrt(d))
    x, y = sphere(n, d, math.sqrt(d), draw), balanced_signs(n, draw)
    network, log_loss = train(_initial(d, width, draw), x, y, loss)
    longest = 4 * math.sqrt(d)
    line = sphere(1, d, 1.0, draw)[0]
    aside = min(universal_perturbation(network, x, y, sign * line, longest) for sign in (1, -1))
    margins = y * network(x)
    cosine = stationarity(network, x, y, np.exp(margins.min() - margins), kink=0.0)
    length = universal_perturbation(network, x, y, label_direction(x, y), longest)
    return log_loss / math.log(10), length, aside, cosine


@theorem("max-margin-bias")
def max_margin_bias(
    d: Annotated[tuple[int, ...], "dimensions"] = (64, 128, 256),
    n: Annotated[int | None, "orthogonal points; √d and d/3 unless given"] = None,
    width: Annotated[int, "hidden units; twice and half of it are tried too"] = 40,
    seed: int = 0,
) -> Evidence:
    """Length of the universal perturbation of true KKT points on orthogonal data, against √(d/n)."""
    _assume_dimensions(d, width=width // 2)
    rules = {"n = √d": [round(math.sqrt(dd)) for dd in d], "n = d/3": [dd // 3 for dd in d]}
    if n is not None:
        rules = {f"n = {n}": [n] * len(d)}
    for points in rules.values():
        for dimension, count in zip(d, points, strict=True):
            assume(2 <= count <= (dimension + 1) / 3,
                   "The theorem needs 2 ≤ n ≤ (d + 1)/(3(max|⟨x_i, x_j⟩| + 1)), for orthogonal points (d + 1)/3 = "
                   f"{(dimension + 1) / 3:.1f}", f"n = {count} at d = {dimension}")  # fmt: skip
    rows: list[Row] = []
    picture: list[Mark] = []
    with progress.task("KKT points", len(rules) * len(d) + 2) as task:
        for rule, points in rules.items():
            lengths = []
            for dimension, count in zip(d, points, strict=True):
                found, length = _kkt_rows(dimension, count, width, numpy_stream(seed, "kkt", dimension, count))
                rows += found
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
    return Evidence(tuple(rows), Chart(title, "d", "length", tuple(picture), log_x=True, log_y=True))


def _kkt_rows(d: int, n: int, width: int, draw: Generator) -> tuple[list[Row], float]:
    x, y = orthogonal(n, d, draw), balanced_signs(n, draw)
    trained, _ = train(_initial(d, width, draw), x, y)
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


def robust_two_layer(x: Points, y: Labels) -> tuple[Network, float]:
    """One neuron per point, Σ y_i max(0, ⟨x_i, x⟩ − (1 + m)d/2), and its radius (1 − m)/2 √d.

    Neuron i is on at x_i with (1 − m)d/2 to spare and off by as much at every
    other point, and a step of length t changes ⟨x_i, x⟩ by at most t√d.
    """
    d = x.shape[1]
    inner = np.abs(x @ x.T - d * np.eye(len(x))).max() / d
    return Network(x, np.full(len(x), -(1 + inner) * d / 2), y.astype(float)), (1 - inner) / 2 * math.sqrt(d)


@theorem("robust-network")
def robust_network(
    d: Annotated[tuple[int, ...], "dimensions"] = (100, 200, 400, 800),
    n: Annotated[int | None, "points; √d unless given"] = None,
    restarts: Annotated[int, "random starts of the attack"] = 10,
    seed: int = 0,
) -> Evidence:
    """The explicit network attacked below its radius, and walked out of it at exactly that radius."""
    _assume_dimensions(d, restarts=restarts)
    rows: list[Row] = []
    picture: list[Mark] = []
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
    chart = Chart("Robust networks exist", "d", "length", tuple(picture), log_x=True, log_y=True)
    return Evidence(tuple(rows), chart)


def _exit(network: Network, x: NDArray[np.float64], y: int) -> float:
    """The length at which y f(x − t x/|x|) stops being positive, by bisection."""
    length = float(np.linalg.norm(x))
    low, high = 0.0, length
    for _ in range(60):
        middle = (low + high) / 2
        inside = y * network(x[None] * (1 - middle / length))[0] > 0
        low, high = (middle, high) if inside else (low, middle)
    return high


def _attack(network: Network, x: Points, y: Labels, radius: float, restarts: int, draw: Generator) -> int:
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
