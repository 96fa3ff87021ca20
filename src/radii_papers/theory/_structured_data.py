"""Research proposal: robustness under realistic models, here sparse means and clusters.

*Sparse.* The mean of the Gaussian model has s of d coordinates, each ±√(d/s). A learner that keeps the s largest
coordinates of the mean of n samples has noise in s dimensions only. Its robust error tends to

    Φ(−(d − ε s m)/(σ√(d + σ²s/n))),  m = E|N(√(d/s), σ²/n)|,

and with σ = c d^(1/4) fewer than one sample is enough for small s, where the plain mean needs of order ε²√d.

*Clusters.* m far clusters whose labels are coin flips. 1-NN errs in a cluster that it has not seen only: half of the
time without an attack, and at most always under one that reaches less than half the gap of the clusters:

    error = ½q,  ½q ≤ robust error ≤ q,  q = (1 − 1/m)^n.

So robustness costs at most m ln 2 samples more, whatever the dimension. Both are closed forms for questions that
Weinberger's slides pose after Schmidt et al. 2018.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from scipy.spatial import cKDTree
from scipy.stats import norm

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.theory._gaussian_model import LARGEST_C, robust_error, samples_needed
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

SPREAD = 0.02  # of a cluster, in units of the distance between neighboring centers
REACH = 0.4  # of the attacker, in the same unit


def sparse_error(n: float, d: int, s: int, c: float, epsilon: float) -> float:
    """The limit of the robust error of the mean of n samples, kept on the s coordinates of θ.

    Args:
        epsilon: Linf radius of the attack.

    Returns:
        The robust error, in [0, 1].
    """
    sigma, mean = c * d**0.25, math.sqrt(d / s)
    spread = sigma / math.sqrt(n)
    z = mean / spread
    size = spread * math.sqrt(2 / math.pi) * math.exp(-z * z / 2) + mean * (1 - 2 * float(norm.cdf(-z)))
    return float(norm.cdf(-(d - epsilon * s * size) / (sigma * math.sqrt(d + sigma**2 * s / n))))


def unseen(n: int, clusters: int) -> float:
    """q = (1 − 1/m)^n: the chance that no sample has hit the cluster of a test point."""
    return (1 - 1 / clusters) ** n


def _sparse(n: float, d: int, s: int, c: float, epsilon: float, draw: Generator) -> tuple[float, float, float]:
    """Robust error with the right coordinates, with the s largest, and with all of them."""
    sigma = c * d**0.25
    theta = np.zeros(d)
    theta[:s] = math.sqrt(d / s) * (draw.integers(0, 2, s) * 2 - 1)
    mean = theta + sigma / math.sqrt(n) * draw.standard_normal(d)
    largest = np.abs(mean) >= np.partition(np.abs(mean), d - s)[d - s]
    return tuple(robust_error(w, theta, sigma, epsilon) for w in (mean * (theta != 0), mean * largest, mean))  # type: ignore[return-value]


def _clustered(n: int, clusters: int, draw: Generator, tests: int) -> tuple[float, float]:
    """Error and robust error of 1-NN on clusters around a grid in the plane."""
    side = math.ceil(math.sqrt(clusters))
    centers = np.stack([np.arange(clusters) // side, np.arange(clusters) % side], 1).astype(np.float64)
    labels = draw.integers(0, 2, clusters)

    def sample(count: int) -> tuple[np.ndarray, np.ndarray]:
        which = draw.integers(0, clusters, count)
        way = draw.standard_normal((count, 2))
        way *= SPREAD * draw.random((count, 1)) / np.linalg.norm(way, axis=1, keepdims=True)
        return centers[which] + way, labels[which]

    (x, y), (at, truth) = sample(n), sample(tests)
    trees = {one: cKDTree(x[y == one]) for one in (0, 1) if (y == one).any()}
    away = np.full((tests, 2), np.inf)
    for one, tree in trees.items():
        away[:, one] = tree.query(at)[0]
    own, other = away[np.arange(tests), truth], away[np.arange(tests), 1 - truth]
    return float((own >= other).mean()), float((own + REACH >= other - REACH).mean())


@theorem("structured-data")
def structured_data(
    d: Annotated[int, "dimension of the sparse model"] = 100_000,
    s: Annotated[tuple[int, ...], "coordinates of the sparse mean"] = (10, 30, 100),
    epsilon: Annotated[float, "Linf budget of the sparse model"] = 0.25,
    c: Annotated[float, "sigma is c d^(1/4)"] = 0.6,
    clusters: Annotated[int, "clusters whose labels are coin flips"] = 64,
    draws: Annotated[int, "means and noises, and training sets; standard errors are taken over them"] = 200,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Robust error of one sample on sparse means, and of 1-NN on clusters, against their closed forms."""
    assume(0 < c <= LARGEST_C, f"One sample is accurate for c ≤ {LARGEST_C:.3f}", f"c = {c:g}")
    assume(d >= 10_000 and len(s) > 0 and min(s) >= 5 and max(s) <= d // 20,
           "The mean needs between 5 and d/20 coordinates, in d ≥ 10,000 dimensions", f"s = {s}, d = {d}")  # fmt: skip
    assume(0 < epsilon <= 0.25, "The theorem needs 0 < epsilon ≤ 1/4", epsilon)
    assume(clusters >= 4, "clusters must be at least 4", clusters)
    assume(draws >= 20, "Standard errors need at least 20 draws", draws)
    assume_positive(draws=draws)
    rows: list[ResultRow] = [reports("dense mean: n for 1% robust error", samples_needed(d, c, epsilon))]
    picture: list[Row] = []
    with progress.task("models", len(s) + 1) as task:
        for few in s:
            draw = numpy_stream(seed, "structured-data", few)
            known, largest, plain = np.array([_sparse(1, d, few, c, epsilon, draw) for _ in range(draws // 10)]).T
            seen, limit = -norm.ppf(known).mean(), -norm.ppf(sparse_error(1, d, few, c, epsilon))
            rows += [
                equals(f"s={few}: normal quantile of one sample's robust error", seen, limit, 0.03 * limit),
                at_most(f"s={few}: robust error of one sample on its s largest coordinates", largest.mean(), 0.01),
                reports(f"s={few}: of one sample on all coordinates", plain.mean()),
            ]
            task.advance(note=f"s={few}")
        for size in (clusters // 4, clusters, 4 * clusters):
            draw = numpy_stream(seed, "structured-data", "clusters", size)
            clean, robust = np.array([_clustered(size, clusters, draw, 500) for _ in range(draws)]).T
            error, chance, cell = (
                SIGMAS * standard_error(clean),
                unseen(size, clusters),
                f"{clusters} clusters, n={size}",
            )
            rows += [
                equals(f"{cell}: error of 1-NN", clean.mean(), chance / 2, error),
                at_least(f"{cell}: robust error less error", robust.mean() - clean.mean(), 0),
                at_most(f"{cell}: robust error of 1-NN", robust.mean(), chance, SIGMAS * standard_error(robust)),
            ]
            picture += [measured(size, clean.mean(), "no attack"), measured(size, robust.mean(), "attack")]
            picture += [predicted(size, chance / 2, "no attack"), predicted(size, chance, "attack, at most")]
        task.advance(note="clusters")
    title = f"1-NN on {clusters} clusters with random labels"
    return Simulation(tuple(rows), chart(title, "n", "error", picture, log_x=True))
