"""Exact nearest neighbors by label: the nearest point of another class, or of the same one.

The distance to the nearest differently labelled point bounds the robustness
of every classifier (Yang et al. 2020, Def. 3): two points closer than 2r with
different labels cannot both be classified right within r.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, unknown_name
from radii.geometry.search.engine import Work, search
from radii.geometry.search.k_best import Best
from radii.geometry.search.points import Points, check_finite, labelled
from radii.threat import Norm

Label = Literal["other", "same", "any"]
NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")


@dataclass(frozen=True)
class Neighbors:
    """Distances [n, k], ascending, and reference indices [n, k] of the k nearest neighbors.

    Where fewer than k exist (a single class has no other), distance is
    infinity and index -1. Of equally near references the lowest index wins.
    """

    distance: NDArray[np.float64]
    index: NDArray[np.int64]
    norm: Norm
    label: Label


def nearest(
    x: Any,
    y: Any,
    within: tuple[Any, Any] | None = None,
    *,
    norm: Norm = "linf",
    label: Label = "other",
    k: int = 1,
    work: Work | None = None,
) -> Neighbors:
    """The k nearest neighbors of every row of ``x``. Exact.

    uint8 pixels count as multiples of 1/255 and give exact distances; float32 is
    compared in float64. A point is never its own neighbor, but its duplicates are.

    Args:
        x: queries [n, …], uint8 pixels or floating point features.
        y: their labels [n].
        within: the references (x, y); default: the queries themselves.
        norm: ``linf``, ``l2`` or ``l1``.
        label: which references count: with an ``other`` label, with the ``same``, or ``any``.
        k: number of neighbors; default 1.
        work: the number of threads, and a folder from which a killed search continues; default: all cores, no folder.
    """
    queries = labelled(x, y)
    references = queries if within is None else labelled(*within, name="within")
    check(queries, references, norm, label, k)
    own = 0 if within is None else None
    return in_pixels(search(queries, references, norm, label, k, own, work), queries, norm, label)


def in_pixels(best: Best, points: Points, norm: Norm, label: Label) -> Neighbors:
    """The scores ``best`` in stored units of ``points`` as distances in ``norm``; ``label`` as in :func:`nearest`."""
    score = np.sqrt(best.score) if norm == "l2" else best.score
    return Neighbors(score / points.levels, best.index, norm, label)


def check(queries: Points, references: Points, norm: str, label: str, k: int) -> None:
    """Refuse ``queries`` and ``references`` that do not fit together, and a bad ``norm``, ``label`` or ``k``."""
    if norm not in NORMS:
        raise unknown_name("norm", norm, NORMS)
    if label not in ("other", "same", "any"):
        raise unknown_name("choice of neighbors", label, ["other", "same", "any"])
    if k < 1:
        raise InputError(f"The number of neighbors must be at least 1, got {k} instead.")
    if queries.dimensions != references.dimensions:
        raise InputError(
            f"Both sets must have the same number of coordinates, "
            f"got {queries.dimensions} and {references.dimensions} instead."
        )
    if queries.rows.dtype != references.rows.dtype:
        raise InputError(
            f"Both sets must be uint8 or both float32, got {queries.rows.dtype} and {references.rows.dtype}. "
            "Divide the uint8 set by 255."
        )
    check_finite(queries, "x")
    if references is not queries:
        check_finite(references, "within")
