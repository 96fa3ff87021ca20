"""Research proposal: sample complexity of networks against kernels and linear classifiers, on a product of two inputs.

The target is x₁x₂ of a Gaussian input in d dimensions. A linear function explains nothing of it. A kernel that does
not depend on the choice of axes sees one of p = d(d + 1)/2 − 1 equal directions: for the kernel ⟨x, z⟩² − |x|²|z|²/d
the interpolation of n points is the orthogonal projection of the target on the span of n traceless matrices
x_i x_iᵀ − |x_i|²/d I, and since rotations mix all p directions (Schur's lemma), it explains on average exactly

    n/p.

A two-layer network with the activation z², which spans the same functions, is trained by gradient descent from small
weights. It prefers few directions and finds the target from a small multiple of d points: order d against order d².
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._lines import (
    SIGMAS,
    ResultRow,
    assume,
    at_least,
    at_most,
    equals,
    standard_error,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

Matrix = NDArray[np.float64]
SMALL, STEPS, RATE = 0.03, 1500, 0.02  # initial weights, gradient steps and their size


def directions(d: int) -> int:
    """p = d(d + 1)/2 − 1: the dimension of the symmetric traceless matrices."""
    return d * (d + 1) // 2 - 1


def kernel_share(n: int, d: int) -> float:
    """n/p: how much of the target the kernel explains on average."""
    return min(1.0, n / directions(d))


def _explained(form: Matrix, target: Matrix) -> float:
    """1 − E(f − f*)²/E f*² for f(x) = xᵀ form x of a Gaussian x, from second moments: tr(M)² + 2|M|² for each form."""

    def power(matrix: Matrix) -> float:
        return float(np.trace(matrix) ** 2 + 2 * (matrix**2).sum())

    return 1 - power(form - target) / power(target)


def _kernel(x: Matrix, y: Matrix) -> Matrix:
    """The form that interpolates: Σ α_i (x_i x_iᵀ − |x_i|²/d I)."""
    squares = (x**2).sum(1)
    gram = (x @ x.T) ** 2 - np.outer(squares, squares) / x.shape[1]
    weights = np.linalg.lstsq(gram, y, rcond=1e-10)[0]
    return (x * weights[:, None]).T @ x - np.eye(x.shape[1]) * float(weights @ squares) / x.shape[1]


def _linear(x: Matrix, y: Matrix, tests: Matrix, truth: Matrix) -> float:
    """The share that least squares over linear functions explains of test points."""
    weights = np.linalg.lstsq(x, y, rcond=None)[0]
    return 1 - float(((tests @ weights - truth) ** 2).mean() / (truth**2).mean())


def _network(x: Matrix, y: Matrix, width: int, draw: Generator) -> Matrix:
    """Σ a_l w_l w_lᵀ of Σ a_l ⟨w_l, x⟩², half of the a_l +1 and half −1, after gradient descent on the squares."""
    n, d = x.shape
    w = SMALL * draw.standard_normal((width, d)) / math.sqrt(d)
    a = np.where(np.arange(width) % 2 == 0, 1.0, -1.0)
    for _ in range(STEPS):
        hidden = x @ w.T
        off = (hidden**2) @ a - y
        w -= RATE * (a[:, None] * ((off[:, None] * hidden).T @ x)) / n
    return (w.T * a) @ w


@theorem("network-against-kernel")
def network_against_kernel(
    d: Annotated[int, "input dimension"] = 40,
    n: Annotated[tuple[int, ...], "training points"] = (80, 160, 320, 480),
    width: Annotated[int, "hidden units"] = 20,
    seeds: Annotated[int, "training sets; standard errors are taken over them"] = 6,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """How much of a product of two inputs a linear function, a kernel and a network explain, over the points."""
    assume(10 <= d <= 60, "d must lie between 10 and 60", d)
    assume(len(n) > 0 and d <= min(n) and max(n) < directions(d),
           f"Training points must lie between d and p − 1 = {directions(d) - 1}", n)  # fmt: skip
    assume(width >= 4, "Two directions of each sign need a width of at least 4", width)
    assume(seeds >= 2, "Standard errors are taken over seeds, so at least 2", seeds)
    target = np.zeros((d, d))
    target[0, 1] = target[1, 0] = 0.5
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("training sets", len(n) * seeds) as task:
        for count in n:
            shares = []
            for number in range(seeds):
                draw = numpy_stream(seed, "network-against-kernel", count, number)
                x, tests = draw.standard_normal((count, d)), draw.standard_normal((2000, d))
                y = x[:, 0] * x[:, 1]
                shares.append((
                    _linear(x, y, tests, tests[:, 0] * tests[:, 1]),
                    _explained(_kernel(x, y), target),
                    _explained(_network(x, y, width, draw), target),
                ))  # fmt: skip
                task.advance(note=f"n={count}")
            linear, kernel, network = np.array(shares).T
            share = kernel_share(count, d)
            scatter = max(standard_error(kernel), math.sqrt(3 * share * (1 - share) / (directions(d) * seeds)))
            rows += [
                at_most(f"n={count}: share explained by a linear function", linear.mean(), 0,
                        SIGMAS * standard_error(linear)),
                equals(f"n={count}: share explained by the kernel", kernel.mean(), share, SIGMAS * scatter + 0.01),
            ]  # fmt: skip
            if count >= 8 * d:
                rows.append(at_least(f"n={count}: share explained by the network", network.mean(), 0.95))
            picture += [
                measured(count, max(-1.0, float(values.mean())), name)
                for name, values in (("linear", linear), ("kernel", kernel), ("network", network))
            ]
            picture.append(predicted(count, kernel_share(count, d), "kernel"))
    title = f"Share of a product of two of {d} inputs that is explained"
    return Simulation(tuple(rows), chart(title, "n", "share explained", picture))
