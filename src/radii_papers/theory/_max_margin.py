"""Two-layer ReLU networks with exact gradients: training to tiny losses, and true KKT points.

f(x) = Σ a_l max(0, ⟨w_l, x⟩ + b_l) is 2-homogeneous in its parameters. Gradient
flow on the exponential loss converges in direction to a KKT point of

    min ½|θ|²  subject to  y_i f(x_i) ≥ 1,

but slowly: at loss 1e-30 it is not there yet. :func:`train` goes to a given
loss, :func:`kkt_point` solves the constrained problem from where it stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, minimize
from scipy.special import logsumexp

from radii_papers.synthetic import Labels, Points
from radii_papers.theory._lines import assume, assume_positive

Vector = NDArray[np.float64]
INITIAL_SCALE = 0.3


@dataclass(frozen=True)
class TwoLayerNetwork:
    """Parameters w [k, d], b [k], a [k]; as one vector: w, b, a."""

    w: Vector
    b: Vector
    a: Vector

    @classmethod
    def random(cls, d: int, k: int, generator: Generator) -> TwoLayerNetwork:
        """w_l ~ N(0, I/d), b = 0, a_l ~ N(0, 1/k)."""
        w = generator.standard_normal((k, d)) / math.sqrt(d)
        return cls(w, np.zeros(k), generator.standard_normal(k) / math.sqrt(k))

    @classmethod
    def unflatten(cls, theta: Vector, d: int) -> TwoLayerNetwork:
        """The network whose :meth:`flatten` is ``theta``."""
        k = len(theta) // (d + 2)
        return cls(theta[: k * d].reshape(k, d), theta[k * d : k * d + k], theta[k * d + k :])

    def flatten(self) -> Vector:
        """All parameters as one vector."""
        return np.concatenate([self.w.ravel(), self.b, self.a])

    def scaled(self, factor: float) -> TwoLayerNetwork:
        """All parameters times ``factor``; the output is multiplied by its square."""
        return TwoLayerNetwork(self.w * factor, self.b * factor, self.a * factor)

    def __call__(self, x: Points) -> Vector:
        """f(x): [n, d] -> [n]."""
        return np.maximum(self.hidden(x), 0) @ self.a

    def hidden(self, x: Points) -> Vector:
        """What the hidden layer sees, ⟨w_l, x⟩ + b_l: [n, k]."""
        return x @ self.w.T + self.b

    def weighted_gradient(self, x: Points, weights: Vector, hidden: Vector) -> Vector:
        """Σ_i weights_i ∇_θ f(x_i) as one vector, given :meth:`hidden` of x."""
        pull = (hidden > 0) * np.outer(weights, self.a)
        return np.concatenate([(pull.T @ x).ravel(), pull.sum(0), np.maximum(hidden, 0).T @ weights])


Loss = Literal["exponential", "logistic"]


def log_loss(network: TwoLayerNetwork, x: Points, y: Labels, kind: Loss = "exponential") -> tuple[float, Vector]:
    """log Σ ℓ(y_i f(x_i)) and its gradient, ℓ(z) = exp(−z) or log(1 + exp(−z)).

    Flow on log L follows the path of flow on L, only faster: the gradients are parallel.

    Args:
        x: points: [n, d].
        y: their labels, −1 or 1: [n].
        kind: ℓ.
    """
    hidden = network.hidden(x)
    exponents = -y * (np.maximum(hidden, 0) @ network.a)
    softened = np.logaddexp(0, exponents)  # log(1 + exp(−z)), whose slope is 1 − exp(−log(1 + exp(−z)))
    logistic = np.where(exponents < -30, exponents, np.log(np.maximum(softened, 1e-300)))
    total = float(logsumexp(exponents if kind == "exponential" else logistic))
    slope = exponents if kind == "exponential" else exponents - softened
    weights = np.exp(slope - total) * y.astype(np.float64)
    return total, -network.weighted_gradient(x, weights, hidden)


def train(
    network: TwoLayerNetwork,
    x: Points,
    y: Labels,
    loss: float = 1e-30,
    stride: float = 0.02,
    limit: int = 20_000,
    kind: Loss = "exponential",
) -> tuple[TwoLayerNetwork, float]:
    """Gradient descent with Armijo steps on log L until L ≤ ``loss``.

    Steps grow by 1.2 and are halved until they bring a tenth of what the slope
    promises; none moves θ by more than ``stride`` of its length, which keeps
    the path close to the flow.

    Args:
        x: points, [n, d].
        y: labels ±1, [n].
    """
    d, theta, step = x.shape[1], network.flatten(), 0.01
    value, gradient = log_loss(network, x, y, kind)
    for _ in range(limit):
        if value <= math.log(loss):
            break
        slope = float(gradient @ gradient)
        step = min(1.2 * step, stride * float(np.linalg.norm(theta)) / math.sqrt(slope))
        while True:
            moved = theta - step * gradient
            reached, downhill = log_loss(TwoLayerNetwork.unflatten(moved, d), x, y, kind)
            if reached <= value - 0.1 * step * slope or step < 1e-14:
                break
            step /= 2
        theta, value, gradient = moved, reached, downhill
    return TwoLayerNetwork.unflatten(theta, d), value


@dataclass(frozen=True)
class KktPoint:
    """A candidate and how well it satisfies the conditions: cos(θ, Σ λ_i y_i ∇f(x_i)) = 1, margins ≥ 1, λ ≥ 0."""

    network: TwoLayerNetwork
    multipliers: Vector
    cosine: float
    smallest_margin: float


def stationarity(network: TwoLayerNetwork, x: Points, y: Labels, multipliers: Vector, kink: float = 1e-3) -> float:
    """cos(θ, Σ λ_i y_i ∂f(x_i)) with the best subgradient of the ReLU at its kinks.

    Where |⟨w_l, x_i⟩ + b_l| is below ``kink`` of the largest, any slope in
    [0, 1] is a subgradient, and maximum margin networks put points there; the
    slopes that come nearest to θ are the solution of bounded least squares.

    Args:
        x: points, [n, d].
        y: labels ±1, [n].
        multipliers: λ, [n].
    """
    hidden = network.hidden(x)
    pull = TwoLayerNetwork.unflatten(network.weighted_gradient(x, multipliers * y, hidden), x.shape[1])
    best = np.column_stack([pull.w, pull.b])  # a neuron's weights and bias: [k, d + 1]
    wanted = np.column_stack([network.w, network.b])
    lifted = np.column_stack([x, np.ones(len(x))])
    undecided = (np.abs(hidden) <= kink * np.abs(hidden).max()) & (multipliers > 0)[:, None]
    for unit in np.flatnonzero(undecided.any(0)):
        at = np.flatnonzero(undecided[:, unit])
        columns = (network.a[unit] * multipliers[at] * y[at])[:, None] * lifted[at]
        fixed = best[unit] - (hidden[at, unit] > 0) @ columns
        best[unit] = fixed + lsq_linear(columns.T, wanted[unit] - fixed, (0, 1)).x @ columns
    theta, reached = network.flatten(), TwoLayerNetwork(best[:, :-1], best[:, -1], pull.a).flatten()
    return float(theta @ reached / (np.linalg.norm(theta) * np.linalg.norm(reached)))


def kkt_point(network: TwoLayerNetwork, x: Points, y: Labels, rounds: int = 12, iterations: int = 150) -> KktPoint:
    """Solve the maximum margin problem by an augmented Lagrangian with L-BFGS.

    Args:
        network: where to start; it must classify every point rightly.
        x: points, [n, d].
        y: labels ±1, [n].
    """
    d = x.shape[1]
    least = float((y * network(x)).min())
    assume(
        least > 0, "The trained network must be right on every point (more hidden units help)", f"margin {least:.3g}"
    )
    theta = network.scaled(1 / math.sqrt(least)).flatten()
    multipliers = np.full(len(y), theta @ theta / (2 * len(y)))  # at a KKT point Σλ = |θ|²/2, f being 2-homogeneous
    penalty = 4 * float(multipliers.mean())

    def lagrangian(point: Vector) -> tuple[float, Vector]:
        net = TwoLayerNetwork.unflatten(point, d)
        hidden = net.hidden(x)
        force = np.maximum(multipliers + penalty * (1 - y * (np.maximum(hidden, 0) @ net.a)), 0)
        value = point @ point / 2 + (force @ force - multipliers @ multipliers) / (2 * penalty)
        return float(value), point - net.weighted_gradient(x, force * y, hidden)

    for _ in range(rounds):
        solved = minimize(lagrangian, theta, jac=True, method="L-BFGS-B", options={"maxiter": iterations, "maxcor": 20})
        theta = solved.x
        margins = y * TwoLayerNetwork.unflatten(theta, d)(x)
        multipliers = np.maximum(multipliers + penalty * (1 - margins), 0)
        penalty *= 1.5
    solution = TwoLayerNetwork.unflatten(theta, d)
    return KktPoint(solution, multipliers, stationarity(solution, x, y, multipliers), float((y * solution(x)).min()))


def universal_perturbation(network: TwoLayerNetwork, x: Points, y: Labels, direction: Vector, longest: float) -> float:
    """The smallest length t at which x_i − y_i t·direction changes sign for **every** i.

    The first such t on a fine grid is refined by bisection.

    Args:
        x: points, [n, d].
        y: labels ±1, [n].
        direction: a unit vector, [d].
    """

    def all_flipped(length: float) -> bool:
        return bool((y * network(x - length * np.outer(y, direction)) < 0).all())

    grid = np.linspace(0, longest, 401)[1:]
    high = next((length for length in grid if all_flipped(length)), math.inf)
    if math.isinf(high):
        return math.inf
    low = high - grid[0]
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if all_flipped(middle) else (middle, high)
    return float(high)


def label_direction(x: Points, y: Labels) -> Vector:
    """Σ y_i x_i as a unit vector.

    Args:
        x: points: [n, d].
        y: their labels, −1 or 1: [n].

    Returns:
        [d].
    """
    total = y @ x
    return total / np.linalg.norm(total)


def perturbation_length(d: int, n: int) -> float:
    """√(d/n): the length of the universal perturbation of a maximum margin network on balanced orthogonal points.

    Its positive neurons follow the sum of the positive points and its negative
    ones the other sum; x_i − y_i η Σ y_j x_j crosses zero at η = 1/n.
    """
    return math.sqrt(d / n)


def exponent(d: Sequence[int], lengths: Sequence[float]) -> float:
    """Slope of log length over log d; ¼ for √(d/n) with n = √d, 0 with n = d/3.

    Args:
        d: dimensions, at least two.
    """
    return float(np.polyfit(np.log(d), np.log(lengths), 1)[0])


def initial_network(d: int, width: int, draw: Generator) -> TwoLayerNetwork:
    """A random network of ``width`` hidden units on d inputs, small enough that gradient flow learns features.

    Args:
        width: number of hidden units.
    """
    return TwoLayerNetwork.random(d, width, draw).scaled(INITIAL_SCALE)


def assume_dimensions(d: tuple[int, ...], **counts: int) -> None:
    """Refuse fewer than two dimensions d, dimensions below 10, and ``counts`` that are not positive."""
    assume(len(d) >= 2 and min(d) >= 10, "An exponent needs at least two dimensions of at least 10", d)
    assume_positive(**counts)
