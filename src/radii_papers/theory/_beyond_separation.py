"""One short perturbation flips all training points beyond the theorem's conditions, too: n = d, clusters, either loss.

The theorem of Vardi et al. 2022 needs n ≤ (d + 1)/(3(max|⟨x_i, x_j⟩| + 1)) points, and its authors suspect that this is
pessimistic. Three settings that it excludes or leaves open, by training to a tiny loss as
:mod:`~radii_papers.theory._gradient_flow` does:

- *logistic*: log(1 + e^(−z)) is e^(−z) where z is large, so the flow ends at the same length;
- *n = d*: as many points as dimensions;
- *clusters*: √d centers, each with several points of one label and scalar products ϱd among them, for which the
  condition allows no point at all. As ϱ → 1 a cluster is one point, and the length is √(d/m) for m clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import Labels, Points, balanced_signs, sphere
from radii_papers.theory._lines import ResultRow, assume, at_most, equals, reports
from radii_papers.theory._max_margin import (
    Loss,
    assume_dimensions,
    exponent,
    initial_network,
    label_direction,
    perturbation_length,
    train,
    universal_perturbation,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem


@dataclass(frozen=True)
class Setting:
    """Points and a loss; ``far`` counts the points that lie apart from each other."""

    x: Points
    y: Labels
    kind: Loss
    far: int


SETTINGS = ("exponential", "logistic", "n = d", "clusters")


def clustered(clusters: int, each: int, d: int, inner: float, draw: Generator) -> tuple[Points, Labels]:
    """``each`` points of the sphere of radius √d around random centers, scalar products ``inner``·d on average.

    Args:
        inner: ϱ, in [0, 1).
    """
    centers, y = sphere(clusters, d, 1.0, draw), balanced_signs(clusters, draw)
    own = np.repeat(centers, each, axis=0)
    aside = draw.standard_normal(own.shape) / math.sqrt(d)
    aside -= (aside * own).sum(1, keepdims=True) * own
    x = math.sqrt(inner) * own + math.sqrt(1 - inner) * aside
    return math.sqrt(d) * x / np.linalg.norm(x, axis=1, keepdims=True), np.repeat(y, each)


def _setting(name: str, d: int, each: int, inner: float, draw: Generator) -> Setting:
    root = round(math.sqrt(d))
    if name == "clusters":
        return Setting(*clustered(root, each, d, inner, draw), "exponential", root)
    n = d if name == "n = d" else root
    x, y = sphere(n, d, math.sqrt(d), draw), balanced_signs(n, draw)
    return Setting(x, y, "logistic" if name == "logistic" else "exponential", n)


@theorem("beyond-separation")
def beyond_separation(
    d: Annotated[tuple[int, ...], "dimensions"] = (100, 200),
    each: Annotated[int, "points of a cluster"] = 5,
    inner: Annotated[float, "rho: scalar products within a cluster over d"] = 0.9,
    width: Annotated[int, "hidden units"] = 100,
    networks: Annotated[int, "networks per dimension and setting"] = 3,
    loss: Annotated[float, "loss to train to"] = 1e-30,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Length of the universal perturbation in four settings, against a random direction and against √(d/n)."""
    assume_dimensions(d, each=each, width=width, networks=networks)
    assume(0 <= inner < 1, "Scalar products within a cluster must lie in [0, d)", f"inner = {inner:g}")
    assume(0 < loss < 0.5, "The flow is known to converge once the loss is below log 2", f"loss = {loss:g}")
    rows: list[ResultRow] = []
    picture: list[Row] = []
    averages: dict[str, list[float]] = {name: [] for name in SETTINGS}
    with progress.task("networks", len(d) * len(SETTINGS) * networks) as task:
        for dimension in d:
            for name in SETTINGS:
                seen, far = [], 0
                for number in range(networks):
                    points = "exponential" if name == "logistic" else name  # both losses: the same points and start
                    draw = numpy_stream(seed, "beyond-separation", points, dimension, number)
                    setting = _setting(name, dimension, each, inner, draw)
                    seen.append(_lengths(setting, width, loss, draw))
                    far = setting.far
                    task.advance(note=f"d={dimension}, {name}")
                lengths, random, reached = np.array(seen).T
                averages[name].append(float(lengths.mean()))
                rows += _rows(f"d={dimension}, {name}", dimension, far, lengths, random, reached, loss)
                picture.append(measured(dimension, averages[name][-1], name))
            same = averages["logistic"][-1] / averages["exponential"][-1]
            rows.append(equals(f"d={dimension}: |δ| for the logistic over the exponential loss", same, 1, 0.05))
            picture.append(predicted(dimension, math.sqrt(dimension), "the points, √d"))
    for name in SETTINGS:
        rows.append(reports(f"exponent of |δ| in d, {name}", exponent(d, averages[name])))
    title = f"Universal perturbation at loss {loss:g}, width {width}"
    return Simulation(tuple(rows), chart(title, "d", "length", picture, log_x=True, log_y=True))


def _lengths(setting: Setting, width: int, loss: float, draw: Generator) -> tuple[float, float, float]:
    """The length along Σ y_i x_i, that along a random line, and log10 of the loss."""
    x, y, d = setting.x, setting.y, setting.x.shape[1]
    network, reached = train(initial_network(d, width, draw), x, y, loss, kind=setting.kind)
    longest = 4 * math.sqrt(d)
    line = sphere(1, d, 1.0, draw)[0]
    aside = min(universal_perturbation(network, x, y, sign * line, longest) for sign in (1, -1))
    return universal_perturbation(network, x, y, label_direction(x, y), longest), aside, reached / math.log(10)


def _rows(
    cell: str, d: int, far: int, lengths: np.ndarray, random: np.ndarray, reached: np.ndarray, loss: float
) -> list[ResultRow]:
    unit = perturbation_length(d, far)
    return [
        at_most(f"{cell}: largest log10 of the loss", float(reached.max()), math.log10(loss)),
        at_most(f"{cell}: |δ| over the random direction's", float((lengths / random).max()), 0.5),
        at_most(f"{cell}: |δ| / √d", float(lengths.max()) / math.sqrt(d), 0.5),
        reports(f"{cell}: |δ| / √(d/n), n the points or clusters", float(lengths.mean()) / unit),
    ]
