"""Certificates of the nearest-neighbor classifier, from distances alone.

If an input is d_same from the nearest stored point, of class y, and d_other
from the nearest point of any other class, then within (d_other - d_same) / 2,
in any norm, its nearest point still has class y: by the triangle inequality the
first distance grows and the second shrinks at most as fast as the input moves.
For L2 the exact radius is the distance to the nearest Voronoi face; every
pair's face is as far as (d_b^2 - d_a^2) / (2 |a - b|), which is never less.

The numbers are taken as they are. Distances are float64, off by a share of
(d + 8) 2^-52; what this leaves open about the class is decided by fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radii.certificates.certificate import Certificate
from radii.certificates.methods import Request
from radii.data.arrays import as_inputs, as_labels
from radii.errors import InputError
from radii.geometry.search.k_best import METRIC, search_all
from radii.geometry.search.neighbors import Label, Neighbors, check, in_pixels, nearest
from radii.geometry.search.points import Points
from radii.models.classifier import check_inputs
from radii.threat import Norm

TINY = 1e-150  # squares of smaller distances lose bits
Floats = NDArray[np.float64]


def certify_request(request: Request) -> Certificate:
    """:func:`certify` for a ``request`` of the table of methods."""
    if request.stored is None:
        raise InputError("The nearest-neighbor certificate needs the stored points.")
    return certify(request.x, request.stored, request.ball.norm)


def certify(x: Any, stored: tuple[Any, Any], norm: Norm = "l2", *, faces: bool = True, rivals: int = 64) -> Certificate:
    """Radii of the 1-nearest-neighbor classifier: half the difference of the two distances.

    For L2 with ``faces``, the larger radius min_b (d_b^2 - d_a^2) / (2 |a - b|) over points b of other classes,
    a the nearest point. Guarantee: deterministic, for the numbers as given, float64 included; ties have radius 0.

    Args:
        x: inputs [n, …].
        stored: points [m, …] and labels [m] of the classifier.
        norm: norm of the radii; default ``l2``.
        faces: use the distances to Voronoi faces for L2; default True.
        rivals: how many of the nearest b are measured one by one; farther ones are covered by the bound
            (d_b - d_a) / 2, because |a - b| <= d_a + d_b. Default 64.
    """
    x, points, labels = _rows(x), _rows(stored[0]), as_labels(stored[1]).cpu().numpy()
    if x.dtype != points.dtype:
        x, points = x.astype(np.float64), points.astype(np.float64)
    if len(points) != len(labels):
        raise InputError(f"One label for every stored point is needed, got {len(points)} and {len(labels)}.")
    if len(np.unique(labels)) < 2:
        raise InputError("The stored points must have at least two classes; with one the answer never changes.")
    within = Points(points, labels)
    closest = _search(Points(x, np.zeros(len(x), np.int64)), within, norm, "any", 1)
    own, same = closest.index[:, 0].copy(), closest.distance[:, 0]
    use = min(rivals, len(points)) if norm == "l2" and faces else 1
    others = _search(Points(x, labels[own]), within, norm, "other", use)
    radius = _halved(others.distance[:, 0], same, _error(x))
    if norm == "l2" and faces:
        radius = np.maximum(radius, _to_faces(x, points, own, others.index, others.distance))
    radius = np.where((others.index[:, 0] >= 0) & (radius > TINY), radius - TINY, 0.0)  # -1: beyond float64
    for row in np.flatnonzero(radius == 0):  # the class may hang on a rounding
        own[row] = _exactly_nearest(x[row], points, norm)
    return Certificate(
        prediction=torch.from_numpy(labels[own]),
        radius=torch.from_numpy(radius),
        norm=norm,
        kind="deterministic",
        method="nearest neighbor" + (", Voronoi faces" if norm == "l2" and faces else ", half the difference"),
        assumptions=(
            "the classifier is 1-NN over the stored points as given, by exact distances; "
            "of equally near ones the first decides",
        ),
    )


def _rows(x: Any) -> NDArray[Any]:
    """Flat rows [n, d] with the values of ``x``: float32 where that holds them exactly, else float64."""
    inputs = as_inputs(x, exact=True)
    check_inputs(inputs, None)
    wide = inputs.detach().cpu().flatten(1).double()
    single = wide.float()
    return (single if torch.equal(single.double(), wide) else wide).numpy()


def _search(x: Points, within: Points, norm: Norm, label: Label, k: int) -> Neighbors:
    """The k nearest of each row; float64 rows are compared with all points."""
    if x.rows.dtype == np.float32:
        return nearest(x.rows, x.labels, (within.rows, within.labels), norm=norm, label=label, k=k)
    check(x, within, norm, label, k)
    return in_pixels(search_all(x, within, norm, label, k, None), x, norm, label)


def _error(x: NDArray[Any]) -> float:
    """The relative error of a distance in float64, and of a few operations more."""
    return (x.shape[1] + 8) * 2.0**-52


def _halved(other: Floats, same: Floats, error: float) -> Floats:
    """(other - same) / 2, less what rounding may have added."""
    return (other * (1 - error) - same * (1 + error)) / 2


def _to_faces(
    x: NDArray[Any], points: NDArray[Any], own: NDArray[np.int64], others: NDArray[np.int64], distance: Floats
) -> Floats:
    """min_b (d_b^2 - d_a^2) / (2 |a - b|) over the nearest others, and the halved difference for the rest."""
    radius, error = np.full(len(x), np.inf), _error(x)
    for row in range(len(x)):
        there = others[row] >= 0
        origin, a, b = (rows.astype(np.float64) for rows in (x[row], points[own[row]], points[others[row][there]]))
        near = ((origin - a) ** 2).sum()
        ahead = ((origin - b) ** 2).sum(1) * (1 - error) - near * (1 + error)
        faces = ahead / (2 * np.sqrt(((b - a) ** 2).sum(1)) * (1 + error) + TINY)
        rest = _halved(distance[row][there][-1:], np.sqrt(near), error) if there.all() else np.array([np.inf])
        radius[row] = np.concatenate([faces, rest]).min()
    return radius


def _exactly_nearest(x: NDArray[Any], points: NDArray[Any], norm: Norm) -> int:
    """The first of the stored points that are nearest, decided by fractions where float64 cannot tell."""
    from scipy.spatial.distance import cdist

    score = cdist(x[None].astype(np.float64), points.astype(np.float64), METRIC[norm])[0]
    near = np.flatnonzero(~(score > score.min() * (1 + 4 * _error(points)) + TINY))
    exact = [_exact_score(x, points[place], norm) for place in near]
    return int(near[exact.index(min(exact))])


def _exact_score(x: NDArray[Any], point: NDArray[Any], norm: Norm) -> Fraction:
    """What orders like the distance, without rounding."""
    steps = [abs(Fraction(a) - Fraction(b)) for a, b in zip(x.tolist(), point.tolist(), strict=True)]
    return max(steps) if norm == "linf" else sum((s * s if norm == "l2" else s for s in steps), Fraction(0))
