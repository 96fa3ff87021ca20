"""Certificates of the nearest-neighbor classifier, from distances alone.

If an input is d_same from the nearest stored point, of class y, and d_other
from the nearest point of any other class, then within (d_other - d_same) / 2,
in any norm, its nearest point still has class y: by the triangle inequality the
first distance grows and the second shrinks at most as fast as the input moves.
For L2 the exact radius is the distance to the nearest Voronoi face; every
pair's face is as far as (d_b^2 - d_a^2) / (2 |a - b|), which is never less.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.certificates.certificate import Certificate
from radii.errors import InputError
from radii.geometry.search.neighbors import nearest
from radii.models.classifier import check_inputs
from radii.threat import Norm

ROUND_DOWN = 1 - 1e-6  # radii are rounded down by more than the rounding of distances


def certify(
    x: Tensor, stored: tuple[Tensor, Tensor], norm: Norm = "l2", *, faces: bool = True, rivals: int = 64
) -> Certificate:
    """Radii of the 1-nearest-neighbor classifier: half the difference of the two distances.

    For L2 with ``faces``, the larger radius min_b (d_b^2 - d_a^2) / (2 |a - b|) over points b of other classes,
    a the nearest point. Guarantee: deterministic; ties have radius 0.

    Args:
        x: inputs [n, …].
        stored: points [m, …] and labels [m] of the classifier.
        norm: norm of the radii; default ``l2``.
        faces: use the distances to Voronoi faces for L2; default True.
        rivals: how many of the nearest b are measured one by one; farther ones are covered by the bound
            (d_b - d_a) / 2, because |a - b| <= d_a + d_b. Default 64.

    Raises:
        InputError: no stored points, labels that do not fit, or one class only.
    """
    check_inputs(x, None)
    points, labels = stored
    if len(points) == 0 or len(points) != len(labels):
        raise InputError(f"One label for every stored point is needed, got {len(points)} and {len(labels)}.")
    if len(labels.unique()) < 2:
        raise InputError("The stored points must have at least two classes; with one the answer never changes.")
    blank = np.zeros(len(x), np.int64)
    within = (_rows(points), labels.numpy())
    closest = nearest(_rows(x), blank, within, norm=norm, label="any")
    prediction = labels.numpy()[closest.index[:, 0]]
    same = closest.distance[:, 0]
    use = min(rivals, len(points)) if norm == "l2" and faces else 1
    others = nearest(_rows(x), prediction, within, norm=norm, label="other", k=use)
    radius = (others.distance[:, 0] - same) / 2
    if norm == "l2" and faces:
        radius = np.maximum(radius, _to_faces(x, points, closest.index[:, 0], others.index, others.distance))
    sure = np.maximum(radius * ROUND_DOWN - 1e-9, 0)
    return Certificate(
        prediction=torch.from_numpy(prediction),
        radius=torch.from_numpy(sure),
        norm=norm,
        kind="deterministic",
        method="nearest neighbor" + (", Voronoi faces" if norm == "l2" and faces else ", half the difference"),
        assumptions=("the classifier is 1-NN over the stored points; of equally near ones the first decides",),
    )


def _to_faces(
    x: Tensor, points: Tensor, own: NDArray[np.int64], others: NDArray[np.int64], distance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """min_b (d_b^2 - d_a^2) / (2 |a - b|) over the nearest others, and the halved difference for the rest."""
    flat, stored = x.flatten(1).double(), points.flatten(1).double()
    radius = np.full(len(flat), np.inf)
    for row in range(len(flat)):
        there = others[row] >= 0
        a, b = stored[own[row]], stored[others[row][there]]
        ahead = (flat[row] - b).square().sum(1) - (flat[row] - a).square().sum()
        apart = (b - a).norm(dim=1)
        faces = ahead / (2 * apart).clamp_min(torch.finfo(torch.float64).tiny)
        rest = (distance[row][there][-1] - float((flat[row] - a).norm())) / 2 if there.all() else np.inf
        radius[row] = min(float(faces.min()), float(rest))
    return radius


def _rows(x: Tensor) -> NDArray[np.float32]:
    return x.detach().cpu().flatten(1).float().numpy()
