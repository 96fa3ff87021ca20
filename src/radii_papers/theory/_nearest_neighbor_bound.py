"""How many points make 1-NN robust: the upper bound that matches No Free Robustness.

If some classifier is Linf-robust with margin δ, points of different classes
are more than 2δ apart. A training point closer than s = 2(δ − δ') to x then
makes 1-NN in the **Linf metric** robust at x with radius δ': it is closer than
s + δ' = 2δ − δ' to every perturbed x, all other classes are farther. Cutting
the cube into |B| = ⌈1/s⌉^d half-open boxes of side s bounds the chance that
there is no such point by |B|/(ne) (Prach & Lampert 2025, Theorem 2, whose
text leaves the radius unsaid: it is δ' = δ/2, where s = δ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import Labels, Points, slabs
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, assume_positive, at_least, equals, standard_error
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

Sampler = Callable[[int, Generator], tuple[Points, Labels]]
EXPANSIONS = (1, 2, 5, 12, 37)


def boxes(delta: float, radius: float, dimension: int) -> int:
    """|B| = ⌈1/(2(δ − δ'))⌉^d; 1e-9 is taken off before rounding up, so that 1/(2·0.25) is 2.

    Args:
        delta: δ, the Linf margin of the robust classifier that exists.
        radius: δ', the Linf radius at which 1-NN is judged; below δ.
    """
    return math.ceil(1 / (2 * (delta - radius)) - 1e-9) ** dimension


def robust_accuracy_bound(n: int, box_count: int) -> float:
    """1 − |B|/(ne), Eq. 26."""
    return 1 - box_count / (n * math.e)


def grid_points(delta: float, dimension: int) -> int:
    """How many points more than 2δ apart a grid in [0, 1]^d holds: ⌈1/(2δ)⌉^d.

    Args:
        delta: δ, the Linf margin of the robust classifier that exists.
    """
    return math.ceil(1 / (2 * delta) - 1e-9) ** dimension


def rare_atoms_robust_accuracy(n: int, count: int) -> float:
    """1 − Σ p(1 − p)^n over ``count`` − 1 atoms of mass 1/n and one that holds the rest."""
    rare = count - 1
    heavy = 1 - rare / n
    return 1 - rare / n * (1 - 1 / n) ** n - heavy * (1 - heavy) ** n


def atoms(dimension: int, mass: NDArray[np.float64], labels: Labels) -> Sampler:
    """Point i of a grid over the unit cube with probability ``mass[i]`` and label ``labels[i]``."""
    side = round(len(mass) ** (1 / dimension))
    places = np.indices((side,) * dimension).reshape(dimension, -1).T / (side - 1.0)

    def sample(n: int, generator: Generator) -> tuple[Points, Labels]:
        which = generator.choice(len(mass), n, p=mass)
        return places[which], labels[which]

    return sample


@dataclass(frozen=True)
class NearestNeighbor:
    """1-NN in the Lp metric, one tree per class; repeated points are kept once (they cost a tree dearly)."""

    trees: dict[int, cKDTree]
    p: float = np.inf

    @classmethod
    def of(cls, x: Points, y: Labels, p: float = np.inf) -> NearestNeighbor:
        """Remember the training points."""
        return cls({int(c): cKDTree(np.unique(x[y == c], axis=0)) for c in np.unique(y)}, p)

    def distances(self, x: Points, y: Labels) -> tuple[NDArray, NDArray, Points]:
        """Distance to the own class, to the nearest other class, and that other point."""
        own, other = np.full(len(x), np.inf), np.full(len(x), np.inf)
        rival = np.zeros_like(x)
        for c, tree in self.trees.items():
            distance, where = tree.query(x, p=self.p)
            own = np.where(y == c, distance, own)
            closer = (y != c) & (distance < other)
            other[closer] = distance[closer]
            rival[closer] = tree.data[where[closer]]
        return own, other, rival

    def walked(self, x: Points, rival: Points, radius: float) -> Points:
        """``x`` moved towards ``rival`` by at most ``radius``."""
        step = rival - x
        if self.p == np.inf:
            return x + np.clip(step, -radius, radius)
        length = np.linalg.norm(step, ord=self.p, axis=1, keepdims=True)
        return x + step * np.minimum(1, radius / np.maximum(length, 1e-300))


def robust_accuracies(model: NearestNeighbor, x: Points, y: Labels, radius: float) -> tuple[float, float]:
    """Certified and attacked robust accuracy.

    Certified: (d_other − d_own)/2 > radius. Attacked: not fooled by walking
    ``radius`` straight to the nearest rival; a tie is an error.

    Args:
        x: inputs, [n, d].
        y: labels, [n].
        radius: in the model's metric.
    """
    unique, inverse = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)
    x, y = unique[:, :-1], unique[:, -1].astype(np.int64)
    own, other, rival = model.distances(x, y)
    with np.errstate(invalid="ignore"):  # inf − inf where a class was never drawn: not certified
        certified = other - own > 2 * radius
    moved = np.where(np.isfinite(other)[:, None], model.walked(x, rival, radius), x)
    own, other, _ = model.distances(moved, y)
    return float(certified[inverse].mean()), float((own < other)[inverse].mean())


def _distributions(dimension: int, delta: float, n: int, generator: Generator) -> dict[str, Sampler]:
    """Easy and hard cases; different classes are more than 2δ apart in each."""
    count = grid_points(delta, dimension)
    even = np.full(count, 1 / count)
    rare = np.full(count, 1 / n)
    rare[0] = 1 - (count - 1) / n
    return {
        "slabs": lambda m, draw: slabs(m, dimension, 2 * delta + 0.01 * (1 - 2 * delta), draw),
        "grid, random labels": atoms(dimension, even, generator.integers(0, 2, count)),
        "rare atoms, own labels": atoms(dimension, rare, np.arange(count)),
    }


@theorem("nearest-neighbor-bound")
def nearest_neighbor_bound(
    d: Annotated[int, "dimension"] = 3,
    delta: Annotated[float, "Linf margin of the robust classifier that exists; below 1/2"] = 0.3,
    radius: Annotated[float | None, "radius at which 1-NN is judged; delta/2 unless given"] = None,
    n: Annotated[int | None, "training points; 37 |B| unless given"] = None,
    training_sets: Annotated[int, "training sets to average over"] = 24,
    tests: Annotated[int, "test points per training set"] = 2000,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Certified and attacked robust accuracy of 1-NN against the bound, on easy and on worst-case data."""
    assume(0 < delta < 0.5, "Theorem 2 needs two classes more than 2 delta apart in [0, 1]^d, so 0 < delta < 1/2",
           f"delta = {delta:g}")  # fmt: skip
    at = delta / 2 if radius is None else radius
    assume(0 < at < delta, f"Theorem 2 holds for radii between 0 and delta = {delta:g}", f"radius = {at:g}")
    assume_positive(d=d, tests=tests)
    assume(training_sets >= 2, "Averages need training_sets of at least 2", training_sets)
    count = boxes(delta, at, d)
    assume(37 * count <= 400_000, "37 |B| must be at most 400000 points: take fewer dimensions or a larger margin",
           37 * count)  # fmt: skip
    size = 37 * count if n is None else n
    atom_count = grid_points(delta, d)
    assume(size >= atom_count, f"The worst case has {atom_count} atoms of mass 1/n, so n must be at least that", size)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    for expansion in EXPANSIONS:
        m = max(atom_count, size * expansion // EXPANSIONS[-1])
        bound = robust_accuracy_bound(m, count)
        picture.append(predicted(m, bound, "bound"))
        for name in _distributions(d, delta, m, numpy_stream(seed)):
            certified, attacked = _averages(name, d, delta, at, m, training_sets, tests, seed)
            if expansion == EXPANSIONS[-1]:
                rows += _rows(name, m, atom_count, bound, certified, attacked)
            picture.append(measured(m, certified.mean(), name))
    title = f"1-NN at radius {at:g}: d = {d}, delta = {delta:g}, |B| = {count}"
    return Simulation(tuple(rows), chart(title, "n", "robust accuracy", picture, log_x=True))


def _averages(
    name: str, d: int, delta: float, radius: float, n: int, training_sets: int, tests: int, seed: int
) -> NDArray[np.float64]:
    """Certified and attacked robust accuracy on each training set: [2, training_sets]."""
    pairs = []
    for number in range(training_sets):
        draw = numpy_stream(seed, "nearest-neighbor-bound", name, n, number)
        sample = _distributions(d, delta, n, draw)[name]
        model = NearestNeighbor.of(*sample(n, draw))
        pairs.append(robust_accuracies(model, *sample(tests, draw), radius))
    return np.array(pairs).T


def _rows(name: str, n: int, atom_count: int, bound: float, certified: NDArray, attacked: NDArray) -> list[ResultRow]:
    error = SIGMAS * standard_error(certified)
    rows = [
        at_least(f"{name}, certified", certified.mean(), bound, error),
        at_least(f"{name}, attacked − certified", attacked.mean() - certified.mean(), 0),
    ]
    if name == "rare atoms, own labels":
        rows.append(equals(f"{name}, exact", certified.mean(), rare_atoms_robust_accuracy(n, atom_count), error))
    return rows
