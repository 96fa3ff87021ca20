"""Two concentric spheres: how many half-spaces, how wide a network, robustness costs.

The unit sphere is one class, the sphere of radius R in R^n the other. A
half-space tangent to the unit sphere in a random direction cuts off a given
outer point with probability p = ½ I_{1−1/R²}((n−1)/2, ½), so N random facets
enclose the inner sphere and exclude a share 1 − (1 − p)^N of the outer one.
An L2 adversary with budget ε moves the spheres to 1 + ε and R − ε: the same
problem with ratio (R − ε)/(1 + ε) (Ding et al. 2019, section D.2.2).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import torch
from numpy.random import Generator
from scipy.special import betainc
from torch import Tensor

from radii import progress
from radii.randomness import numpy_stream, stream
from radii_papers.synthetic import concentric_spheres as draw_spheres
from radii_papers.synthetic import sphere
from radii_papers.theory._lines import (
    SIGMAS,
    ResultRow,
    assume,
    assume_positive,
    at_least,
    at_most,
    equals,
    proportion_error,
    reports,
)
from radii_papers.theory._shallow import attacked, correct, fit, shallow_network
from radii_papers.theory.result import Simulation, chart, measured, theorem

STANDARD, ADVERSARIAL = "standard", "adversarial"


def cap_probability(ratio: float, dimension: int) -> float:
    """P(⟨u, x⟩ > 1) for a unit vector u and a random x with |x| = ratio > 1.

    Args:
        ratio: radius of the outer sphere over that of the inner sphere; above 1.
    """
    return 0.5 * float(betainc((dimension - 1) / 2, 0.5, 1 - 1 / ratio**2))


def facets_needed(ratio: float, dimension: int, share: float = 0.99) -> int:
    """Random tangent half-spaces that exclude ``share`` of the outer sphere: ln(1 − share)/ln(1 − p).

    Args:
        ratio: radius of the outer sphere over that of the inner sphere; above 1.
        share: share of the outer sphere; default 0.99.
    """
    return math.ceil(math.log(1 - share) / math.log1p(-cap_probability(ratio, dimension)))


def robust_ratio(outer: float, epsilon: float) -> float:
    """The ratio of the radii an L2 adversary leaves.

    Args:
        outer: radius of the outer sphere; the inner one has 1.
        epsilon: L2 length of the attack.
    """
    return (outer - epsilon) / (1 + epsilon)


def excluded_share(facets: int, ratio: float, dimension: int, polytopes: int, tests: int, draw: Generator) -> float:
    """Share of outer points outside a random tangent polytope, averaged over polytopes.

    Args:
        ratio: radius of the outer sphere over that of the inner sphere; above 1.

    Returns:
        A share in [0, 1].
    """
    excluded = 0.0
    for _ in range(polytopes):
        normals = sphere(facets, dimension, 1.0, draw)
        x = sphere(tests, dimension, ratio, draw)
        excluded += float((x @ normals.T > 1).any(1).mean())
    return excluded / polytopes


@theorem("concentric-spheres")
def concentric_spheres(
    n: Annotated[int, "dimension"] = 10,
    outer: Annotated[float, "radius of the outer sphere; the inner is 1"] = 1.3,
    epsilon: Annotated[float, "L2 budget of the adversary"] = 0.1,
    widths: Annotated[tuple[int, ...], "hidden units"] = (8, 32, 128, 512),
    steps: Annotated[int, "training steps of 400 fresh points"] = 400,
    tests: Annotated[int, "test points"] = 2000,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Facets of random polytopes against the cap formula; clean and robust accuracy of networks by width."""
    assume(n >= 2, "Spheres need n ≥ 2", n)
    assume(outer > 1, "The outer sphere must be larger than the inner, of radius 1", f"outer = {outer:g}")
    assume(0 < epsilon < (outer - 1) / 2, "The attacked spheres must not meet: 0 < epsilon < (outer − 1)/2",
           f"epsilon = {epsilon:g}")  # fmt: skip
    assume(len(widths) >= 2 and min(widths) >= 1, "At least two positive widths are compared", widths)
    assume_positive(steps=steps, tests=tests)
    facets = facets_needed(outer, n)
    assume(facets <= 100_000, "99% need at most 100000 half-spaces to be simulated: fewer dimensions or a wider gap",
           facets)  # fmt: skip
    share = 1 - (1 - cap_probability(outer, n)) ** facets
    excluded = excluded_share(facets, outer, n, 8, 1000, numpy_stream(seed, "caps"))
    robust_facets = facets_needed(robust_ratio(outer, epsilon), n)
    rows = [
        equals(f"outer points beyond {facets} half-spaces", excluded, share, SIGMAS * proportion_error(share, 4000)),
        at_least("half-spaces for 99%, attacked over plain", robust_facets / facets, 1),
        reports("half-spaces for 99% of the attacked spheres", robust_facets),
    ]
    scores = _train_all(n, outer, epsilon, sorted(widths), steps, tests, seed)
    rows += _width_rows(scores, sorted(widths), tests)
    picture = tuple(
        measured(width, value, f"{training}, {which}")
        for (training, width), pair in scores.items()
        for which, value in zip(("clean", "robust"), pair, strict=True)
    )
    title = f"Concentric spheres: n = {n}, outer radius {outer:g}, epsilon = {epsilon:g}"
    return Simulation(tuple(rows), chart(title, "width", "accuracy", picture, log_x=True))


Scores = dict[tuple[str, int], tuple[float, float]]


def _train_all(n: int, outer: float, epsilon: float, widths: list[int], steps: int, tests: int, seed: int) -> Scores:
    scores: Scores = {}
    x, y = _batch(tests, n, outer, numpy_stream(seed, "spheres", "test"))
    with progress.task("networks", 2 * len(widths)) as task:
        for training, radius in ((STANDARD, 0.0), (ADVERSARIAL, epsilon)):
            for width in widths:
                net = shallow_network(n, width, stream(seed, "spheres", "weights", width))
                draw = numpy_stream(seed, "spheres", "train", width)
                fit(net, lambda step: _batch(400, n, outer, draw), steps, 0.02, radius, attack_steps=3)  # noqa: ARG005, B023
                clean = correct(net, x, y)
                robust = clean & correct(net, attacked(net, x, y, epsilon, 20), y)
                scores[training, width] = float(clean.float().mean()), float(robust.float().mean())
                task.advance(note=f"width {width}")
    return scores


def _batch(count: int, n: int, outer: float, draw: Generator) -> tuple[Tensor, Tensor]:
    x, y = draw_spheres(count, n, outer, draw)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(2.0 * y - 1).float()


def _width_rows(scores: Scores, widths: list[int], tests: int) -> list[ResultRow]:
    """What the section claims: attacked problems need more width, and more width or adversarial training helps."""
    slack = SIGMAS * proportion_error(0.5, tests)
    small, large = widths[0], widths[-1]
    rows: list[ResultRow] = []
    for width in widths:
        (clean, robust), (_, trained) = scores[STANDARD, width], scores[ADVERSARIAL, width]
        rows.append(reports(f"width {width}: standard, clean", clean))
        rows.append(at_most(f"width {width}: standard, robust ≤ clean", robust, clean))
        rows.append(reports(f"width {width}: adversarial, robust", trained))
    for training in (STANDARD, ADVERSARIAL):
        narrow, wide = scores[training, small][1], scores[training, large][1]
        rows.append(at_least(f"{training}: robust at width {large} over {small}", wide, narrow, slack))
    return rows
