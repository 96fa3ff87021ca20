"""The largest change of the gradient within a ball, and the descent lemma that turns it into a flipped sign.

For a random two-layer network, f(x) = (1/√k) Σ a_l σ(⟨w_l, x⟩), the step to x − η∇f(x) lowers f by an integral over
the way, so (Bubeck et al. 2021, Eq. 9 and 10)

    f(x − η∇f(x)) ≤ f(x) − η|∇f(x)| (|∇f(x)| − S),   S = sup over |δ| ≤ η|∇f(x)| of |∇f(x) − ∇f(x + δ)|.

S is bracketed here: from below by ascent from the eigenvectors of the Hessian H, from above by

    S ≤ L |W|² R/√k   (|σ''| ≤ L, R = η|∇f(x)|),

because the changed slopes are a vector of length at most L|W|R. For small R, S = R|H|. With k = d both fall like
1/√d, while |∇f(x)| stays: the adversary's best step changes the gradient about three times as much as a random
one (:mod:`~radii_papers.theory._gradient_steps`), but by less and less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import sphere
from radii_papers.theory._gradient_steps import gradient_change
from radii_papers.theory._lines import (
    SIGMAS,
    ResultRow,
    assume,
    assume_positive,
    at_least,
    at_most,
    equals,
    reports,
    standard_error,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

Vector = NDArray[np.float64]
CURVATURE = 4 / (3 * math.sqrt(3))  # the largest |σ''| of tanh
WAY = np.linspace(0, 1, 101)  # where on the way the gradient is compared
ROUNDS = 30  # of the ascent


@dataclass(frozen=True)
class TanhNetwork:
    """f(x) = Σ a_l tanh⟨w_l, x⟩ with the factor 1/√k in a."""

    w: Vector
    a: Vector

    @classmethod
    def random(cls, d: int, k: int, draw: Generator) -> TanhNetwork:
        """w_l ~ N(0, I/d), a_l = ±1/√k."""
        signs = draw.integers(0, 2, k) * 2 - 1
        return cls(draw.standard_normal((k, d)) / math.sqrt(d), signs / math.sqrt(k))

    def __call__(self, x: Vector) -> float:
        """f(x)."""
        return float(self.a @ np.tanh(self.w @ x))

    def gradient(self, x: Vector) -> Vector:
        """∇f(x): [d]."""
        return self.w.T @ (self.a * (1 - np.tanh(self.w @ x) ** 2))

    def hessian(self, x: Vector) -> Vector:
        """∇²f(x): [d, d]."""
        value = np.tanh(self.w @ x)
        return self.w.T @ ((self.a * -2 * value * (1 - value**2))[:, None] * self.w)

    def hessian_product(self, x: Vector, way: Vector) -> Vector:
        """∇²f(x) times ``way``: [d]."""
        value = np.tanh(self.w @ x)
        return self.w.T @ (self.a * -2 * value * (1 - value**2) * (self.w @ way))


def change_bound(radius: float, spectral: float, k: int) -> float:
    """L|W|² R/√k: no step of length R changes the gradient by more.

    Args:
        spectral: |W|, the largest singular value of the first layer.
    """
    return CURVATURE * spectral**2 * radius / math.sqrt(k)


def lemma_bound(f: float, slope: float, eta: float, change: float) -> float:
    """f(x) − η|∇f(x)|(|∇f(x)| − S), Eq. 9 and 10.

    Args:
        slope: |∇f(x)|.
        change: S.
    """
    return f - eta * slope * (slope - change)


def _ascent(net: TanhNetwork, x: Vector, radius: float, starts: list[Vector]) -> float:
    """The largest change of the gradient found at distance ``radius``, from below."""
    start, best = net.gradient(x), 0.0
    for way in starts:
        step = way
        for _ in range(ROUNDS):
            step = radius * step / max(float(np.linalg.norm(step)), 1e-300)
            change = net.gradient(x + step) - start
            best = max(best, float(np.linalg.norm(change)))
            step = net.hessian_product(x + step, change)
    return best


@theorem("gradient-stability")
def gradient_stability(
    d: Annotated[tuple[int, ...], "dimensions; the width is the same"] = (100, 200, 400),
    radius: Annotated[float, "length of the adversary's step"] = 1.0,
    networks: Annotated[int, "networks per dimension"] = 12,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """The largest change of the gradient between two bounds, its exponent, and the descent lemma on every network."""
    assume(len(set(d)) >= 2 and min(d) >= 50, "An exponent needs at least two dimensions of at least 50", d)
    assume(0 < radius <= 4, "radius must lie in (0, 4]: beyond, the change is no longer of first order", radius)
    assume(networks >= 3, "At least 3 networks are needed", networks)
    assume_positive(radius=radius)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    relative: list[float] = []
    doubt = 0.0
    with progress.task("dimensions", len(d)) as task:
        for dimension in d:
            draw = numpy_stream(seed, "gradient-stability", dimension)
            seen = np.array([_network(dimension, radius, draw) for _ in range(networks)])
            rows += _rows(dimension, radius, seen)
            changes = seen[:, 0] / seen[:, 3]
            relative.append(float(changes.mean()))
            doubt = max(doubt, standard_error(changes) / relative[-1])
            picture += [
                measured(dimension, relative[-1], "adversary's step"),
                predicted(dimension, float((seen[:, 2] / seen[:, 3]).mean()), "bound by |W|²"),
                predicted(dimension, gradient_change(radius, dimension, "tanh"), "random step"),
            ]
            task.advance(note=f"d={dimension}")
    slope = float(np.polyfit(np.log(d), np.log(relative), 1)[0])
    noise = SIGMAS * math.sqrt(2) * doubt / math.log(max(d) / min(d))
    rows.append(equals("exponent of the largest relative change in d", slope, -0.5, 0.05 + noise))
    title = f"Relative change of the gradient, steps of length {radius:g}, k = d"
    return Simulation(tuple(rows), chart(title, "d", "change over |∇f(x)|", picture, log_x=True, log_y=True))


def _network(d: int, radius: float, draw: Generator) -> tuple[float, float, float, float, float, float]:
    """Found change, R|H|, upper bound, |∇f|, how far the lemma is missed, and whether it alone proves the flip."""
    net, x = TanhNetwork.random(d, d, draw), sphere(1, d, math.sqrt(d), draw)[0]
    if net(x) < 0:
        net = TanhNetwork(net.w, -net.a)
    values, vectors = np.linalg.eigh(net.hessian(x))
    ends = [sign * vectors[:, place] for place in (0, -1) for sign in (1, -1)]
    found = _ascent(net, x, radius, [*ends, draw.standard_normal(d)])
    slope = net.gradient(x)
    size, spectral = float(np.linalg.norm(slope)), float(np.linalg.norm(net.w, 2))
    worst, proved = -math.inf, False
    for length in (radius / 2, radius, 2 * radius, 4 * radius):
        eta = length / size
        way = [float(np.linalg.norm(net.gradient(x - share * eta * slope) - slope)) for share in WAY]
        worst = max(worst, net(x - eta * slope) - lemma_bound(net(x), size, eta, max(way)))
        proved |= lemma_bound(net(x), size, eta, change_bound(length, spectral, d)) < 0
    return found, radius * float(np.abs(values).max()), change_bound(radius, spectral, d), size, worst, float(proved)


def _rows(d: int, radius: float, seen: NDArray[np.float64]) -> list[ResultRow]:
    found, first_order, bound, size, missed, proved = seen.T
    random = gradient_change(radius, d, "tanh")
    return [
        at_most(f"d={d}: largest change over its bound L|W|²R/√k", float((found / bound).max()), 1),
        equals(f"d={d}: largest change over R|H|", float((found / first_order).mean()), 1, 0.1),
        at_least(f"d={d}: over that of a random step", float((found / size).mean() / random), 1),
        at_most(f"d={d}: f after the step less the lemma's bound", float(missed.max()), 0, 1e-9),
        reports(f"d={d}: networks that the lemma with this bound flips", float(proved.mean())),
    ]
