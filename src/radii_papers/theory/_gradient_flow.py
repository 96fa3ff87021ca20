"""Networks trained to a tiny loss on random points of the sphere: one short perturbation flips them all.

Vardi et al. 2022 show this in experiments. A loss of 1e-30 is not yet a KKT
point of the maximum margin problem (:mod:`radii_papers.theory._max_margin_bias`
solves for these), but the perturbation is already much shorter than the points.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.random import Generator

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import balanced_signs, sphere
from radii_papers.theory._lines import ResultRow, assume, at_most, equals, reports
from radii_papers.theory._max_margin import (
    assume_dimensions,
    exponent,
    initial_network,
    label_direction,
    perturbation_length,
    stationarity,
    train,
    universal_perturbation,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem


@theorem("gradient-flow")
def gradient_flow(
    d: Annotated[tuple[int, ...], "dimensions"] = (100, 200, 400),
    width: Annotated[int, "hidden units"] = 200,
    networks: Annotated[int, "networks per dimension"] = 5,
    loss: Annotated[float, "exponential loss to train to"] = 1e-30,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Length of the universal perturbation of trained networks on n = √d random points, against a random direction."""
    assume_dimensions(d, width=width, networks=networks)
    assume(0 < loss < 1, "The flow is known to converge once the loss is below 1", f"loss = {loss:g}")
    rows: list[ResultRow] = []
    picture: list[Row] = []
    averages: list[float] = []
    with progress.task("networks", len(d) * networks) as task:
        for dimension in d:
            points, outcomes = round(math.sqrt(dimension)), []
            for number in range(networks):
                draw = numpy_stream(seed, "gradient-flow", dimension, number)
                outcomes.append(_trained(dimension, width, loss, draw))
                task.advance(note=f"d={dimension}")
            log_losses, lengths, random_lengths, cosines = np.array(outcomes).T
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
    return Simulation(tuple(rows), chart(title, "d", "length", picture, log_x=True, log_y=True))


def _trained(d: int, width: int, loss: float, draw: Generator) -> tuple[float, float, float, float]:
    """log10 L, the length along Σ y_i x_i and along a random line, and cos(θ, −∇L)."""
    n = round(math.sqrt(d))
    x, y = sphere(n, d, math.sqrt(d), draw), balanced_signs(n, draw)
    network, log_loss = train(initial_network(d, width, draw), x, y, loss)
    longest = 4 * math.sqrt(d)
    line = sphere(1, d, 1.0, draw)[0]
    aside = min(universal_perturbation(network, x, y, sign * line, longest) for sign in (1, -1))
    margins = y * network(x)
    cosine = stationarity(network, x, y, np.exp(margins.min() - margins), kink=0.0)
    length = universal_perturbation(network, x, y, label_direction(x, y), longest)
    return log_loss / math.log(10), length, aside, cosine
