"""One gradient step flips a random two-layer network.

f(x) = k^(−½) Σ a_l σ(⟨w_l, x⟩) with w_l ~ N(0, I/d), a_l = ±1 and |x| = √d.
Then f(x) is close to N(0, E σ²) and |∇f(x)|² to E σ'², over Z ~ N(0, 1), and f
is nearly linear on the scale of a step: a step of length t against the sign
flips it with probability 2Φ(t √(E σ'²/E σ²)) − 1, and the η that flips has the
law of |Z| √(E σ²)/E σ'²: its median is near 1, its values scatter as those of |Z|. The statement is for one x,
with high probability over the weights (Bubeck et al. 2021; ReLU, whose
derivative jumps, is not covered by the theorem as quoted on the slides).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Generator, Tensor
from torch.nn import functional as F

from radii import progress
from radii.randomness import stream
from radii.tables import Row
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, at_least, equals, reports, standard_error
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

Activation = Literal["relu", "tanh", "gelu"]
LENGTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
LARGEST_ETA = 20.0
NEAR_ONE = (0.5, 1.5)  # what "about 1" can mean of a step
QUANTILES = (0.05, 0.25, 0.75, 0.95)
_ETAS = np.geomspace(0.02, LARGEST_ETA, 20)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(200)


@dataclass(frozen=True)
class Nonlinearity:
    """An activation and its derivative."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _gelu_slope(z: Tensor) -> Tensor:
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return torch.special.ndtr(z) + z * density


ACTIVATIONS: dict[str, Nonlinearity] = {
    "relu": Nonlinearity(torch.relu, lambda z: (z > 0).to(z.dtype)),
    "tanh": Nonlinearity(torch.tanh, lambda z: 1 - torch.tanh(z) ** 2),
    "gelu": Nonlinearity(F.gelu, _gelu_slope),
}


def moments(activation: Activation) -> tuple[float, float]:
    """E σ(Z)² and E σ'(Z)² for Z ~ N(0, 1), by Gauss–Hermite quadrature (even nodes: exact for ReLU too).

    Args:
        activation: σ of the hidden layer, by name: ``relu``, ``tanh`` or ``gelu``.
    """
    shape = ACTIVATIONS[activation]
    return gaussian_mean(lambda z: shape.value(z) ** 2), gaussian_mean(lambda z: shape.slope(z) ** 2)


def gaussian_mean(function: Callable[[Tensor], Tensor]) -> float:
    """E of a function of Z ~ N(0, 1), by Gauss–Hermite quadrature with 200 nodes.

    Args:
        function: of a tensor of nodes, in float64.
    """
    values = function(torch.from_numpy(_NODES)).numpy()
    return float(_WEIGHTS @ values) / math.sqrt(2 * math.pi)


def flip_probability(length: float, activation: Activation) -> float:
    """2Φ(t √(E σ'²/E σ²)) − 1.

    Args:
        length: t, the L2 length of the step.
        activation: σ of the hidden layer, by name: ``relu``, ``tanh`` or ``gelu``.

    Returns:
        The probability that a step of this length along the gradient changes the sign of f.
    """
    value, slope = moments(activation)
    return float(2 * norm.cdf(length * math.sqrt(slope / value)) - 1)


def eta_quantile(probability: float, activation: Activation) -> float:
    """The |η| that |f|/|∇f|² stays below with this probability: Φ⁻¹((1 + p)/2) √(E σ²) / E σ'²; the median is near 1.

    Args:
        probability: p, between 0 and 1.
        activation: σ of the hidden layer, by name: ``relu``, ``tanh`` or ``gelu``.
    """
    value, slope = moments(activation)
    return float(norm.ppf((1 + probability) / 2)) * math.sqrt(value) / slope


def share_near_one(activation: Activation) -> float:
    """The probability that |f|/|∇f|² lies between ½ and 3/2.

    Args:
        activation: σ of the hidden layer, by name: ``relu``, ``tanh`` or ``gelu``.
    """
    value, slope = moments(activation)
    scale = slope / math.sqrt(value)
    return float(2 * (norm.cdf(NEAR_ONE[1] * scale) - norm.cdf(NEAR_ONE[0] * scale)))


@dataclass(frozen=True)
class Flips:
    """Per network: share of inputs flipped at each of LENGTHS, and by some |η| ≤ 20; smallest |η| per input."""

    at_length: NDArray[np.float64]
    ever: NDArray[np.float64]
    eta: NDArray[np.float64]


@dataclass(frozen=True)
class GradientLine:
    """A network along the gradients at some inputs: W(x + ηg) = Wx + ηWg, so any step size costs no product with W."""

    shape: Nonlinearity
    a: Tensor
    at_x: Tensor
    along: Tensor
    f: Tensor
    slope: Tensor

    @classmethod
    def random(
        cls, d: int, k: int, shape: Nonlinearity, inputs: int, draw: Generator, gaussian: bool = False
    ) -> GradientLine:
        """A random network at random points of the sphere of radius √d; output weights are signs or Gaussian."""
        w = torch.randn(k, d, generator=draw) / math.sqrt(d)
        signs = not gaussian
        output = torch.randint(0, 2, (k, 1), generator=draw) * 2 - 1 if signs else torch.randn(k, 1, generator=draw)
        a = output / math.sqrt(k)
        at_x = w @ F.normalize(torch.randn(d, inputs, generator=draw), dim=0) * math.sqrt(d)
        gradient = w.T @ (a * shape.slope(at_x))
        f = (a * shape.value(at_x)).sum(0)
        return cls(shape, a, at_x, w @ gradient, f, gradient.norm(dim=0).clamp_min(1e-12))

    def flipped(self, eta: Tensor) -> Tensor:
        """Which inputs change their sign after a step of size η against it; f = 0 has no sign to change."""
        moved = (self.a * self.shape.value(self.at_x - self.f.sign() * eta * self.along)).sum(0)
        return moved * self.f < 0

    def smallest_eta(self) -> Tensor:
        """The smallest |η| ≤ 20 that flips, on a grid and then by bisection; infinite if there is none."""
        grid = torch.from_numpy(_ETAS).float()
        flips_at = torch.stack([self.flipped(eta) for eta in grid])
        first = flips_at.float().argmax(0)
        low, high = torch.where(first > 0, grid[(first - 1).clamp_min(0)], 0.0), grid[first]
        for _ in range(8):
            middle = (low + high) / 2
            flips = self.flipped(middle)
            low, high = torch.where(flips, low, middle), torch.where(flips, middle, high)
        return torch.where(flips_at.any(0), high, torch.inf)


@torch.no_grad()
def simulate(d: int, k: int, activation: Activation, networks: int, inputs: int, seed: int) -> Flips:
    """Random networks, random inputs of the sphere, one step along the gradient.

    Args:
        activation: σ of the hidden layer, by name: ``relu``, ``tanh`` or ``gelu``.
    """
    at_length, smallest = [], []
    for number in range(networks):
        line = GradientLine.random(d, k, ACTIVATIONS[activation], inputs, stream(seed, "random-networks", d, k, number))
        at_length.append([float(line.flipped(t / line.slope).float().mean()) for t in LENGTHS])
        smallest.append(line.smallest_eta().numpy())
    eta = np.array(smallest)
    return Flips(np.array(at_length), np.isfinite(eta).mean(1), eta)


@theorem("random-networks")
def random_networks(
    d: Annotated[tuple[int, ...], "input dimensions"] = (100, 500),
    k: Annotated[tuple[int, ...], "widths"] = (100, 500),
    activations: Annotated[tuple[str, ...], "relu, tanh, gelu"] = ("relu", "tanh", "gelu"),
    networks: Annotated[int, "networks per cell; standard errors are taken over them"] = 100,
    inputs: Annotated[int, "inputs per network"] = 100,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Flip rate within |η| ≤ 20, and flip probability by length against the closed form, on a grid of shapes."""
    assume(len(d) > 0 and min(d) >= 2, "Dimensions must be at least 2", d)
    assume(len(k) > 0 and min(k) >= 2, "Widths must be at least 2", k)
    assume(set(activations) <= set(ACTIVATIONS) and len(activations) > 0, "Activations are relu, tanh and gelu",
           ", ".join(activations))  # fmt: skip
    assume(networks >= 10, "The standard error is over networks, so at least 10", networks)
    assume(inputs >= 1, "inputs must be at least 1", inputs)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    cells = [(dd, kk, activation) for activation in activations for dd in d for kk in k]
    with progress.task("cells", len(cells)) as task:
        for dd, kk, activation in cells:
            flips = simulate(dd, kk, activation, networks, inputs, seed)  # type: ignore[arg-type]
            rows += _rows(dd, kk, activation, flips)  # type: ignore[arg-type]
            if (dd, kk) == (max(d), max(k)):
                rows += _spread(dd, kk, activation, flips)  # type: ignore[arg-type]
                picture += _picture(activation, flips)  # type: ignore[arg-type]
            task.advance(note=f"{activation} d={dd} k={kk}")
    title = f"One gradient step on random networks, d = {max(d)}, k = {max(k)}"
    return Simulation(tuple(rows), chart(title, "length of the step", "flipped", picture))


def _rows(d: int, k: int, activation: Activation, flips: Flips) -> list[ResultRow]:
    """The closed form is the limit of large d and k: cells with either below 100 are only reported."""
    cell = f"{activation}, d={d}, k={k}"
    large = min(d, k) >= 100
    ever = flips.ever.mean()
    name = f"{cell}: flipped within |η| ≤ {LARGEST_ETA:g}"
    rows = [at_least(name, ever, 1, 0.001) if large else reports(name, ever)]
    for column, length in enumerate(LENGTHS):
        if length not in (0.5, 1.0, 2.0):
            continue
        share = flips.at_length[:, column]
        name, tolerance = f"{cell}: flipped by length {length:g}", 0.03 + SIGMAS * standard_error(share)
        predicted = flip_probability(length, activation)
        rows.append(equals(name, share.mean(), predicted, tolerance) if large else reports(name, share.mean()))
    name = f"{cell}: median |η|"
    median = _quantile(name, 0.5, activation, flips)
    return [*rows, median if large else reports(name, median.measured)]


def _spread(d: int, k: int, activation: Activation, flips: Flips) -> list[ResultRow]:
    """How far |η| scatters: its quantiles, and the share near 1."""
    cell = f"{activation}, d={d}, k={k}"
    if min(d, k) < 100:
        return []
    rows = [_quantile(f"{cell}: {p:.0%} quantile of |η|", p, activation, flips) for p in QUANTILES]
    near = ((flips.eta >= NEAR_ONE[0]) & (flips.eta <= NEAR_ONE[1])).mean(1)
    tolerance = 0.03 + SIGMAS * standard_error(near)
    return [*rows, equals(f"{cell}: |η| between ½ and 3/2", near.mean(), share_near_one(activation), tolerance)]


def _quantile(name: str, p: float, activation: Activation, flips: Flips) -> ResultRow:
    typical = eta_quantile(p, activation)
    tolerance = 0.1 * eta_quantile(0.5, activation) + SIGMAS * standard_error(np.quantile(flips.eta, p, axis=1))
    return equals(name, float(np.quantile(flips.eta, p)), typical, tolerance)


def _picture(activation: Activation, flips: Flips) -> list[Row]:
    curve = [predicted(float(t), flip_probability(float(t), activation), activation) for t in np.linspace(0, 3, 31)]
    shares = flips.at_length.mean(0)
    return curve + [measured(length, share, activation) for length, share in zip(LENGTHS, shares, strict=True)]
