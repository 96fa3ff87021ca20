"""Research proposal: generalization measures beyond VC and beyond flatness.

*Beyond VC.* One network, trained until it knows n points whose labels are random to a growing share. The number of
its parameters, and with it the VC dimension, is the same in all trainings, while the test error goes from small to ½.
It cannot tell them apart; the size of the weights for a margin of 1, Σ|a_l||w_l| at min y f = 1, rises with the error.

*Beyond flatness.* A ReLU network does not change if the first layer is multiplied by α and the second divided by it,
but its sharpness does: the trace of the loss's Hessian has the blocks T₁ and T₂ of the layers, and becomes

    T₁/α² + α² T₂.

So two networks with the same predictions everywhere are as flat and as sharp as one likes. The path norm
Σ|a_l||w_l| does not change (Weinberger's slides name both directions; the argument on flatness is by Dinh et al. 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import softplus

from radii import progress
from radii.randomness import stream
from radii.tables import Row
from radii_papers.theory._lines import ResultRow, assume, at_least, at_most, equals
from radii_papers.theory.result import Simulation, chart, measured, theorem

STEPS, LR, TESTS = 600, 0.02, 2000


@dataclass(frozen=True)
class Shallow:
    """f(x) = Σ a_l max(0, ⟨w_l, x⟩), the bias being a constant input."""

    w: Tensor
    a: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """f(x): [n, d] -> [n]."""
        return torch.relu(x @ self.w.T) @ self.a

    def scaled(self, alpha: float) -> Shallow:
        """The same function: w times ``alpha``, a divided by it."""
        return Shallow(self.w * alpha, self.a / alpha)

    @property
    def path_norm(self) -> float:
        """Σ |a_l||w_l|."""
        return float((self.a.abs() * self.w.norm(dim=1)).sum())


def hessian_traces(net: Shallow, x: Tensor) -> tuple[float, float]:
    """The trace of the logistic loss's Hessian over w and over a, exact: the network is linear in each layer alone."""
    hidden = x @ net.w.T
    score = torch.relu(hidden) @ net.a
    curvature = torch.sigmoid(score) * torch.sigmoid(-score)
    by_w = ((hidden > 0).to(x.dtype) * net.a).square().sum(1) * x.square().sum(1)
    by_a = torch.relu(hidden).square().sum(1)
    return float((curvature * by_w).mean()), float((curvature * by_a).mean())


def scaled_trace(traces: tuple[float, float], alpha: float) -> float:
    """T₁/α² + α² T₂."""
    return traces[0] / alpha**2 + alpha**2 * traces[1]


def _data(n: int, d: int, noise: float, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gaussian points with the sign of the first coordinate, a coin decides a share ``noise`` of labels."""

    def sample(count: int) -> Tensor:
        x = torch.randn(count, d, generator=draw, dtype=torch.float64)
        return torch.cat([x, torch.ones(count, 1, dtype=torch.float64)], 1)

    x, tests = sample(n), sample(TESTS)
    y, truth = x[:, 0].sign(), tests[:, 0].sign()
    coin = torch.randint(0, 2, (n,), generator=draw) * 2.0 - 1
    return x, torch.where(torch.rand(n, generator=draw) < noise, coin.double(), y), tests, truth


def _trained(x: Tensor, y: Tensor, width: int, draw: torch.Generator) -> Shallow:
    """Full-batch Adam on the logistic loss."""
    d = x.shape[1]
    w = (torch.randn(width, d, generator=draw, dtype=torch.float64) / d**0.5).requires_grad_()
    a = (torch.randn(width, generator=draw, dtype=torch.float64) / width**0.5).requires_grad_()
    optimizer = torch.optim.Adam([w, a], LR)
    for _ in range(STEPS):
        optimizer.zero_grad()
        softplus(-y * Shallow(w, a)(x)).mean().backward()
        optimizer.step()
    return Shallow(w.detach(), a.detach())


@theorem("generalization-measures")
def generalization_measures(
    n: Annotated[int, "training points"] = 100,
    d: Annotated[int, "dimension"] = 15,
    noise: Annotated[tuple[float, ...], "shares of labels that a coin decides"] = (0.0, 0.25, 0.5, 0.75, 1.0),
    alphas: Annotated[tuple[float, ...], "factors between the layers"] = (0.1, 0.3, 1.0, 3.0, 10.0),
    width: Annotated[int, "hidden units"] = 100,
    seeds: Annotated[int, "data sets and starts"] = 4,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Test error against parameters, sharpness and normalized weights, over shares of random labels and rescalings."""
    assume(n >= 20 and d >= 2, "n must be at least 20 and d at least 2", (n, d))
    assume(len(noise) >= 3 and min(noise) >= 0 and max(noise) <= 1, "At least three shares between 0 and 1", noise)
    assume(len(alphas) > 0 and min(alphas) > 0, "alphas must be positive", alphas)
    assume(width * d >= n, "The network must be able to learn every label: width × d ≥ n", width * d)
    assume(seeds >= 1, "seeds must be at least 1", seeds)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    norms, errors = [], []
    with progress.task("trainings", len(noise) * seeds) as task:
        for share in noise:
            known = []
            for number in range(seeds):
                draw = stream(seed, "generalization-measures", number, str(share))
                x, y, tests, truth = _data(n, d, share, draw)
                net = _trained(x, y, width, draw)
                margin = y * net(x)
                known.append(float((margin > 0).double().mean()))
                errors.append(float((truth * net(tests) <= 0).double().mean()))
                norms.append(net.path_norm / float(margin.min().clamp_min(1e-9)))
                task.advance(note=f"noise {share:g}")
            rows.append(at_least(f"noise {share:g}: accuracy on the training labels", min(known), 1))
            own = slice(-seeds, None)
            picture.append(measured(float(np.mean(norms[own])), float(np.mean(errors[own])), f"noise {share:g}"))
    rows += _error_rows(noise, np.array(errors).reshape(len(noise), seeds), norms)
    rows += _scale_rows(net, x, y, tests, alphas)
    title = f"Test error against the weights for a margin of 1; {width * (d + 2)} parameters in every network"
    return Simulation(tuple(rows), chart(title, "Σ|a||w| at margin 1", "test error", picture, log_x=True))


def _error_rows(noise: tuple[float, ...], errors: np.ndarray, norms: Sequence[float]) -> list[ResultRow]:
    """The error goes to chance while the number of parameters stays; the weights rise with it."""
    order = np.argsort(noise)
    rank = float(spearmanr(norms, errors.ravel()).statistic)
    rows = [
        at_most(f"noise {min(noise):g}: test error", float(errors[order[0]].mean()), 0.25),
        at_least("rank correlation of the weights with the test error", rank, 0.7),
    ]
    if max(noise) == 1:
        rows.append(equals("noise 1: test error", float(errors[order[-1]].mean()), 0.5, 0.1))
    return rows


def _scale_rows(net: Shallow, x: Tensor, y: Tensor, tests: Tensor, alphas: tuple[float, ...]) -> list[ResultRow]:
    """The last network under each α: predictions and path norm stay, the sharpness, differentiated, follows its law."""
    traces, scores = hessian_traces(net, x), net(tests)
    rows = []
    for alpha in alphas:
        other = net.scaled(alpha)
        off = float((other(tests) - scores).abs().max() / scores.abs().max())
        rows += [
            at_most(f"α={alpha:g}: change of the scores", off, 0, 1e-9),
            equals(f"α={alpha:g}: path norm over the first", other.path_norm / net.path_norm, 1, 1e-9),
            equals(f"α={alpha:g}: sharpness over T₁/α² + α²T₂", _sharpness(other, x, y) / scaled_trace(traces, alpha),
                   1, 1e-6),
        ]  # fmt: skip
    return rows


def _sharpness(net: Shallow, x: Tensor, y: Tensor) -> float:
    """The trace of the Hessian of the mean loss, differentiated twice along every parameter."""

    def loss(w: Tensor, a: Tensor) -> Tensor:
        return softplus(-y * Shallow(w, a)(x)).mean()

    total = 0.0
    for place in range(2):
        part = (net.w, net.a)[place]
        slope = torch.func.grad(lambda own, place=place: loss(own, net.a) if place == 0 else loss(net.w, own))
        basis = torch.eye(part.numel(), dtype=part.dtype).reshape(-1, *part.shape)

        def second(way: Tensor, slope=slope, part: Tensor = part) -> Tensor:  # type: ignore[no-untyped-def]
            return (torch.func.jvp(slope, (part,), (way,))[1] * way).sum()

        total += float(torch.func.vmap(second, chunk_size=200)(basis).sum())
    return total
