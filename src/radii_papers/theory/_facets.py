"""Round needs facets: a symmetric polytope close to the ball has exponentially many.

If L ⊂ K ⊂ D·L for an ellipsoid L and a symmetric polytope K in R^n, then K has
at least e^(n/(2D²)) facets; and there are polytopes with at most 4^n facets
and D ≤ 2 (Ball 1997, quoted as Theorem D.1 by Ding et al. 2019, where 4^n has
become 4n; with 4n facets the first half would be false from n = 41 on).

Polytopes are given by the unit normals of their facets, {x : ⟨u, x⟩ ≤ 1 for
all u}: the inscribed ball has radius 1, so the circumradius bounds D from
above, and the bound computed with it is implied by the theorem.
"""

from __future__ import annotations

import itertools
import math
from typing import Annotated

import numpy as np
from numpy.random import Generator
from scipy.spatial import HalfspaceIntersection

from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import Points, corners, sphere
from radii_papers.theory._lines import ResultRow, assume, at_least, at_most, equals
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

GOLDEN = (1 + math.sqrt(5)) / 2


def facet_bound(n: int, distance: float) -> float:
    """e^(n/(2D²))."""
    return math.exp(n / (2 * distance**2))


def vertices(normals: Points) -> Points:
    """The vertices of {x : ⟨u, x⟩ ≤ 1}, exactly, by the dual convex hull.

    Args:
        normals: the vectors u of the facets ⟨u, x⟩ ≤ 1: [facets, n].

    Returns:
        [vertices, n].
    """
    half_spaces = np.column_stack([normals, -np.ones(len(normals))])
    return HalfspaceIntersection(half_spaces, np.zeros(normals.shape[1])).intersections


def circumradius(normals: Points) -> float:
    """The largest vertex.

    Args:
        normals: the vectors u of the facets ⟨u, x⟩ ≤ 1: [facets, n].
    """
    return float(np.linalg.norm(vertices(normals), axis=1).max())


def cube(n: int) -> Points:
    """2n facets at distance √n from the ball."""
    return np.concatenate([np.eye(n), -np.eye(n)])


def cross_polytope(n: int) -> Points:
    """2^n facets at distance √n."""
    return corners(n) / math.sqrt(n)


def polygon(sides: int) -> Points:
    """A regular polygon.

    Args:
        sides: number of sides, at least 3.

    Returns:
        The normals of its sides: [sides, 2].
    """
    angle = 2 * math.pi * np.arange(sides) / sides
    return np.column_stack([np.cos(angle), np.sin(angle)])


def dodecahedron() -> Points:
    """12 facets whose normals are the vertices of the icosahedron."""
    places = [np.roll((0, a, b * GOLDEN), k) for a in (-1, 1) for b in (-1, 1) for k in range(3)]
    return _unit(np.array(places))


def cell_24() -> Points:
    """24 facets in four dimensions: normals ±e_i ± e_j."""
    pairs = [
        a * np.eye(4)[i] + b * np.eye(4)[j]
        for i, j in itertools.combinations(range(4), 2)
        for a in (-1, 1)
        for b in (-1, 1)
    ]
    return _unit(np.array(pairs))


def cell_120() -> Points:
    """120 facets in four dimensions: normals are the icosians."""
    quarter = np.concatenate([2 * cube(4), corners(4).astype(float)])
    even = [p for p in itertools.permutations(range(4)) if np.linalg.det(np.eye(4)[list(p)]) > 0]
    signed = [(a * GOLDEN, b * 1.0, c / GOLDEN, 0.0) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]
    mixed = [[place[k] for k in p] for p in even for place in signed]
    return _unit(np.concatenate([quarter, np.array(mixed)]))


def dual(normals: Points) -> Points:
    """The polytope whose facets are the vertices of this one.

    Args:
        normals: the vectors u of the facets ⟨u, x⟩ ≤ 1: [facets, n].
    """
    return _unit(np.unique(np.round(vertices(normals), 9), axis=0))


def random_polytope(facets: int, n: int, generator: Generator) -> Points:
    """Symmetric, with random facets.

    Returns:
        Its normals: [facets, n].
    """
    half = sphere(facets // 2, n, 1.0, generator)
    return np.concatenate([half, -half])


def ball_within_two(n: int) -> Points:
    """A symmetric polytope with D ≤ 2: facets are added where a vertex sticks out beyond 2.

    Such a vertex has an angle of more than 60° with all normals, so the
    normals stay 60° apart and are at most 4^n.
    """
    normals = cube(n)
    while True:
        corners = vertices(normals)
        length = np.linalg.norm(corners, axis=1)
        if length.max() <= 2 * (1 + 1e-9):
            return normals
        far = corners[length.argmax()] / length.max()
        normals = np.concatenate([normals, [far, -far]])


def _unit(points: Points) -> Points:
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _polytopes(largest: int, random_count: int, seed: int) -> dict[str, tuple[int, int, float]]:
    """Name -> dimension, facets, circumradius over inradius."""
    shapes = {
        "hexagon": polygon(6),
        "24-gon": polygon(24),
        "dodecahedron": dodecahedron(),
        "icosahedron": dual(dodecahedron()),
        "24-cell": cell_24(),
        "120-cell": cell_120(),
        "600-cell": dual(cell_120()),
    }
    for n in range(2, largest + 1):
        shapes[f"cube, n={n}"] = cube(n)
        shapes[f"cross-polytope, n={n}"] = cross_polytope(n)
    for number in range(random_count):
        n = 3 + number % 2
        shapes[f"random {number + 1}, n={n}"] = random_polytope(
            20 << number // 2, n, numpy_stream(seed, "facets", number)
        )
    return {name: (normals.shape[1], len(normals), circumradius(normals)) for name, normals in shapes.items()}


@theorem("facets")
def facets(
    largest: Annotated[int, "largest dimension of the families"] = 6,
    random_polytopes: Annotated[int, "random symmetric polytopes"] = 6,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Facets of known, random and constructed polytopes against the bound; where 4n would contradict it."""
    assume(2 <= largest <= 8, "Vertices are enumerated, so largest must lie in 2..8", largest)
    assume(0 <= random_polytopes <= 12, "random_polytopes must lie in 0..12", random_polytopes)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    for name, (n, count, distance) in _polytopes(largest, random_polytopes, seed).items():
        rows.append(at_least(f"{name}: facets, D ≤ {distance:.4f}", count, facet_bound(n, distance)))
        picture.append(measured(n / (2 * distance**2), count, f"n = {n}"))
    for n in range(2, min(largest, 5) + 1):
        normals = ball_within_two(n)
        rows.append(at_most(f"built with D ≤ 2, n={n}: facets", len(normals), 4**n))
        rows.append(at_most(f"built with D ≤ 2, n={n}: circumradius", circumradius(normals), 2, 1e-8))
    first = next(n for n in itertools.count(1) if facet_bound(n, 2) > 4 * n)
    rows.append(equals("first n at which 4n facets contradict the bound", first, 41, 0))
    picture += [predicted(mark["x"], math.exp(mark["x"]), mark["series"]) for mark in picture]
    title = "Facets of symmetric polytopes over exp(n / 2D²)"
    return Simulation(tuple(rows), chart(title, "n / 2D²", "facets", picture, log_y=True))
