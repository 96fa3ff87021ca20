"""Gradient steps: Gaussian output weights, how the length depends on gamma, and why one gradient is enough.

f(x) = Σ a_l σ(⟨w_l, x⟩) with w_l ~ N(0, I/d) and |x| = √d, as in :mod:`~radii_papers.theory._random_networks`, whose
law needs Σ a_l² → 1 only: a_l ~ N(0, 1/k) gives the same flip probability as signs do.

The law 2Φ(ts) − 1 with s = √(E σ'²/E σ²) says which length flips with probability 1 − γ:

    t(γ) = Φ⁻¹(1 − γ/2)/s ≤ √(2 log(1/γ))/s,

which is the theorem's O(√log(1/γ)) with its constant (Bubeck et al. 2021, main theorem). The
step follows the gradient at x although f is evaluated elsewhere; this is harmless because the gradient changes little:
for a step δ in a random direction with |δ| = t,

    |∇f(x + δ) − ∇f(x)| / |∇f(x)| = √(2θ/π) for ReLU, θ = arctan(t/√d),  t/√d · √(E σ''²/E σ'²) for smooth σ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor
from torch.nn import functional as F

from radii import progress
from radii.randomness import stream
from radii.tables import Row
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, at_most, equals, standard_error
from radii_papers.theory._random_networks import (
    ACTIVATIONS,
    Activation,
    GradientLine,
    flip_probability,
    gaussian_mean,
    moments,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

LENGTHS = (0.5, 1.0, 2.0)
STEPS = (1.0, 4.0)  # lengths of random steps, for the change of the gradient
PRECISION = 0.1  # relative; the laws are limits of large d and k


def _tanh_curvature(z: Tensor) -> Tensor:
    return -2 * torch.tanh(z) * (1 - torch.tanh(z) ** 2)


def _gelu_curvature(z: Tensor) -> Tensor:
    return torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (2 - z * z)


CURVATURES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": _tanh_curvature, "gelu": _gelu_curvature}


def flip_length(gamma: float, activation: Activation) -> float:
    """t(γ) = Φ⁻¹(1 − γ/2)/s: a step of this length flips with probability 1 − γ.

    Args:
        activation: σ of the hidden layer, by name: ``relu``, ``tanh`` or ``gelu``.
    """
    value, slope = moments(activation)
    return float(norm.ppf(1 - gamma / 2)) * math.sqrt(value / slope)


def gradient_change(length: float, d: int, activation: Activation) -> float:
    """Relative change of the gradient after a random step.

    Args:
        length: t, the L2 length of the step.
        activation: σ of the hidden layer, by name: ``relu``, ``tanh`` or ``gelu``.
    """
    if activation == "relu":
        return math.sqrt(2 * math.atan(length / math.sqrt(d)) / math.pi)
    curvature = CURVATURES[activation]
    bent = gaussian_mean(lambda z: curvature(z) ** 2)
    return length / math.sqrt(d) * math.sqrt(bent / moments(activation)[1])


@torch.no_grad()
def _flips(d: int, k: int, activation: Activation, networks: int, inputs: int, seed: int) -> NDArray[np.float64]:
    """The shortest step along the gradient that flips, for every network (rows) and input, Gaussian output weights."""
    lengths = []
    for number in range(networks):
        draw = stream(seed, "gradient-steps", activation, number)
        line = GradientLine.random(d, k, ACTIVATIONS[activation], inputs, draw, gaussian=True)
        lengths.append((line.smallest_eta() * line.slope).numpy())
    return np.array(lengths, dtype=np.float64)


@torch.no_grad()
def _changes(
    d: int, k: int, activation: Activation, length: float, networks: int, inputs: int, seed: int
) -> NDArray[np.float64]:
    """Mean squared relative change of the gradient after a random step, for every network."""
    shape, changes = ACTIVATIONS[activation], []
    for number in range(networks):
        draw = stream(seed, "gradient-steps", "stability", activation, number)
        w = torch.randn(k, d, generator=draw) / math.sqrt(d)
        a = torch.randn(k, 1, generator=draw) / math.sqrt(k)
        x = F.normalize(torch.randn(d, inputs, generator=draw), dim=0) * math.sqrt(d)
        step = F.normalize(torch.randn(d, inputs, generator=draw), dim=0) * length
        before, after = (w.T @ (a * shape.slope(w @ point)) for point in (x, x + step))
        changes.append(float(((after - before).norm(dim=0) / before.norm(dim=0)).square().mean()))
    return np.array(changes)


@theorem("gradient-steps")
def gradient_steps(
    d: Annotated[int, "input dimension"] = 300,
    k: Annotated[int, "width"] = 300,
    activations: Annotated[tuple[str, ...], "relu, tanh, gelu"] = ("relu", "tanh", "gelu"),
    gamma: Annotated[tuple[float, ...], "probabilities that the step does not flip"] = (0.5, 0.2, 0.1, 0.05, 0.02),
    networks: Annotated[int, "networks; standard errors are taken over them"] = 400,
    inputs: Annotated[int, "inputs per network"] = 20,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Flips of networks with Gaussian output weights, the length by gamma, and the change of the gradient."""
    assume(min(d, k) >= 100, "The laws are limits of large d and k: both must be at least 100", (d, k))
    assume(set(activations) <= set(ACTIVATIONS) and len(activations) > 0, "Activations are relu, tanh and gelu",
           ", ".join(activations))  # fmt: skip
    assume(len(gamma) > 0 and 0 < min(gamma) <= max(gamma) < 1, "gamma must lie between 0 and 1", gamma)
    assume(networks * inputs * min(gamma) >= 20, "The tail needs at least 20 draws: networks × inputs × gamma",
           networks * inputs * min(gamma))  # fmt: skip
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("activations", len(activations)) as task:
        for name in activations:
            activation: Activation = name  # type: ignore[assignment]
            lengths = _flips(d, k, activation, networks, inputs, seed)
            rows += _length_rows(activation, lengths, gamma)
            few = max(10, networks // 10)
            for step in STEPS:
                change = _changes(d, k, activation, step, few, inputs, seed)
                expected = gradient_change(step, d, activation)
                quantity = f"{name}, random step of length {step:g}: change of the gradient"
                rows.append(equals(quantity, math.sqrt(change.mean()), expected, 1.5 * PRECISION * expected))
            for one in gamma:
                quantile = float(np.quantile(lengths, 1 - one))
                picture += [predicted(one, flip_length(one, activation), name), measured(one, quantile, name)]
            task.advance(note=name)
    title = f"Length of the step that flips with probability 1 − γ, d = {d}, k = {k}"
    return Simulation(tuple(rows), chart(title, "γ", "length", picture, log_x=True))


def _length_rows(activation: Activation, lengths: NDArray[np.float64], gamma: tuple[float, ...]) -> list[ResultRow]:
    rows = []
    for length in LENGTHS:
        share = (lengths <= length).mean(1)
        tolerance = 0.03 + SIGMAS * standard_error(share)
        name = f"{activation}, Gaussian output weights: flipped by length {length:g}"
        rows.append(equals(name, share.mean(), flip_probability(length, activation), tolerance))
    value, slope = moments(activation)
    for one in gamma:
        length = float(np.quantile(lengths, 1 - one))
        expected = flip_length(one, activation)
        rows.append(equals(f"{activation}: length that flips, γ = {one:g}", length, expected, PRECISION * expected))
        constant = math.sqrt(value / slope)
        over = length / math.sqrt(2 * math.log(1 / one))
        rows.append(
            at_most(f"{activation}: length over √(2 log 1/γ), γ = {one:g}", over, constant, PRECISION * constant)
        )
    return rows
