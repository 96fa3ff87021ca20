"""Separated classes have an astute classifier that changes slowly.

Classes at distance at least 2r from each other are separated. The classifier
argmin_i f_i with f_i(x) = dist(x, X_i)/r (the arg**min**: f is a distance) is
1/r-Lipschitz in every coordinate, has margin f_j − f_y ≥ 2 on the data, and so
is right at distance below r of every data point (Yang et al. 2020). X_i is the
support of the class; built from a sample, the statement covers that sample.
At distance exactly r two classes may tie.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from radii.errors import InputError
from radii.randomness import numpy_stream
from radii.tables import Row
from radii.threat import Norm
from radii_papers.synthetic import Labels, Points, separated_classes
from radii_papers.theory._lines import ResultRow, assume, assume_positive, at_most, equals
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
_SCIPY = {"l1": "cityblock", "l2": "euclidean", "linf": "chebyshev"}
_ORDER = {"l1": 1, "l2": 2, "linf": np.inf}


def distance_scores(x: Points, data: Points, labels: Labels, r: float, norm: Norm) -> NDArray[np.float64]:
    """f(x) = dist(x, X_i)/r for every class: [n, classes], by the classifier one uses on real data.

    Args:
        x: inputs: [n, d].
        data: the points of all classes: [m, d].
        labels: their classes: [m].
        norm: ``l1``, ``l2`` or ``linf``.

    Returns:
        [n, classes].
    """
    model = DistanceClassifier(torch.from_numpy(data), torch.from_numpy(labels), r, norm)
    return -model(torch.from_numpy(x)).numpy()


def step(start: Points, towards: Points, share: float, norm: Norm, length: float) -> Points:
    """``start`` moved by share · length on the straight way ``towards`` another point.

    Args:
        start: where the steps begin: [n, d].
        share: share of ``length`` to go.
        norm: ``l1``, ``l2`` or ``linf``.

    Returns:
        [n, d].
    """
    way = towards - start
    return start + share * length * way / np.linalg.norm(way, _ORDER[norm], axis=1, keepdims=True)


def random_steps(shape: tuple[int, int], norm: Norm, length: float, generator: Generator) -> Points:
    """Perturbations of exactly ``length``: random signs for Linf, random directions for L2, sparse ones for L1.

    Args:
        norm: ``l1``, ``l2`` or ``linf``.
    """
    direction = generator.standard_normal(shape)
    if norm == "linf":
        direction = np.sign(direction)
    elif norm == "l1":  # few large coordinates reach other classes more often than many small ones
        direction *= generator.random(shape) < min(1.0, 3 / shape[1])
        direction[np.arange(shape[0]), generator.integers(0, shape[1], shape[0])] += 1.0
    return length * direction / np.linalg.norm(direction, _ORDER[norm], axis=1, keepdims=True)


def nearest_rivals(data: Points, labels: Labels, norm: Norm) -> tuple[NDArray[np.float64], Points]:
    """Distance to the nearest point of another class, and that point, for each data point.

    Args:
        data: the points of all classes: [m, d].
        labels: their classes: [m].
        norm: ``l1``, ``l2`` or ``linf``.
    """
    distance = cdist(data, data, _SCIPY[norm])
    distance[labels[:, None] == labels] = np.inf
    return distance.min(1), data[distance.argmin(1)]


@theorem("r-separation")
def r_separation(
    classes: Annotated[int, "number of classes"] = 5,
    per_class: Annotated[int, "points per class"] = 60,
    d: Annotated[int, "dimension"] = 50,
    r: Annotated[float, "half the separation"] = 0.25,
    trials: Annotated[int, "random perturbations per point"] = 20,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Failures below r, margin, exact local Lipschitz constant and the flip above r, in L1, L2 and Linf."""
    assume(classes >= 2, "Separation is a distance between classes, so classes must be at least 2", classes)
    assume(r > 0, "r-separation needs r > 0", f"r = {r:g}")
    assume_positive(per_class=per_class, d=d, trials=trials)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    for norm in NORMS:
        draw = numpy_stream(seed, "r-separation", norm)
        data, labels = separated_classes(classes, per_class, d, r, norm, draw)
        rows += _theorem_rows(data, labels, r, norm, trials, draw)
        picture += _astuteness(data, labels, r, norm)
    title = f"Astuteness of argmin dist/r: {classes} classes, d = {d}"
    return Simulation(tuple(rows), chart(title, "distance / r", "astuteness", picture))


def _theorem_rows(data: Points, labels: Labels, r: float, norm: Norm, trials: int, draw: Generator) -> list[ResultRow]:
    distance, rivals = nearest_rivals(data, labels, norm)
    scores = distance_scores(data, data, labels, r, norm)
    others = np.where(np.arange(scores.shape[1]) == labels[:, None], np.inf, scores).min(1)

    directed = step(data, rivals, 0.999, norm, r)
    wandering = np.concatenate([data + random_steps(data.shape, norm, 0.999 * r, draw) for _ in range(trials)])
    below = np.concatenate([directed, wandering])
    truth = np.tile(labels, 1 + trials)
    moved = distance_scores(below, data, labels, r, norm)
    lipschitz = np.abs(moved - np.tile(scores, (1 + trials, 1))).max() / (0.999 * r)

    closest = [distance.argmin()]
    beyond = step(data[closest], rivals[closest], 1.05, norm, r)
    flipped = distance_scores(beyond, data, labels, r, norm).argmin(1) != labels[closest]
    return [
        equals(f"{norm}: smallest margin f_j − f_y", (others - scores[np.arange(len(labels)), labels]).min(), 2, 1e-6),
        at_most(f"{norm}: errors of {len(below)} at distance .999 r", int((moved.argmin(1) != truth).sum()), 0),
        equals(f"{norm}: largest local Lipschitz constant · r", lipschitz * r, 1, 1e-6),
        equals(f"{norm}: closest pair flips at 1.05 r", float(flipped[0]), 1, 0),
    ]


def _astuteness(data: Points, labels: Labels, r: float, norm: Norm) -> list[Row]:
    """Share of points still right after walking towards the nearest rival."""
    _, rivals = nearest_rivals(data, labels, norm)
    picture = [predicted(share, 1.0, norm) for share in (0.8, 0.999)]
    for share in np.linspace(0.8, 1.6, 17):
        moved = step(data, rivals, share, norm, r)
        astute = (distance_scores(moved, data, labels, r, norm).argmin(1) == labels).mean()
        picture.append(measured(float(share), astute, norm))
    return picture


_P = {"l1": 1.0, "l2": 2.0, "linf": float("inf")}


class DistanceClassifier(nn.Module):
    """Logits -dist(x, X_i) / r for the points X_i of each class (Yang et al. 2020, Thm. 1).

    Each logit is 1/r-Lipschitz in ``norm``. If points of different classes are at
    least 2r apart, then at every stored point the logit of its class is the
    largest by at least 2, so the prediction is right on the open ball of radius r
    around it (astuteness 1). The guarantee is for the stored points; elsewhere
    this is the nearest-neighbor rule, as a network with gradients. The paper
    predicts the argmin of the distances; logits have the minus sign, so that
    argmax means the same.

    Args:
        x: stored points [m, …], float32 in pixel units.
        y: their labels [m], int64.
        radius: r, half the separation of the points; positive.
        norm: ``l1``, ``l2`` or ``linf``.
        classes: number of logits; default: the largest label + 1.
    """

    points: Tensor
    labels: Tensor

    def __init__(self, x: Tensor, y: Tensor, radius: float, norm: Norm = "linf", classes: int | None = None) -> None:
        super().__init__()
        if not radius > 0:
            raise InputError(f"radius must be positive (half the separation of the points), got {radius:g} instead.")
        if len(x) != len(y) or len(x) == 0:
            raise InputError(f"One label for every point is needed, got {len(x)} points and {len(y)} labels.")
        self.norm, self.radius = norm, float(radius)
        self.classes = int(y.max()) + 1 if classes is None else classes
        if int(y.min()) < 0 or int(y.max()) >= self.classes:
            raise InputError(f"Labels must lie in 0..{self.classes - 1}, got {int(y.min())}..{int(y.max())} instead.")
        order = torch.argsort(y, stable=True)
        self.register_buffer("points", x[order].flatten(1))
        self.register_buffer("labels", y[order])

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of inputs [n, …]; a class without points has -infinity."""
        return -self.distances(x) / self.radius

    def distances(self, x: Tensor, block: int = 4096) -> Tensor:
        """Distance of each input [n, …] to each class: [n, classes]; differentiable.

        Differences are taken before squaring: the product form of the L2
        distance loses up to 1e-3 to cancellation on pixels.
        """
        flat = x.flatten(1)
        columns = []
        for label in range(self.classes):
            members = self.points[self.labels == label]
            if len(members) == 0:
                columns.append(flat.new_full((len(flat),), float("inf")))
                continue
            parts = [self._to(flat, part).amin(1) for part in members.split(block)]
            columns.append(torch.stack(parts, 1).amin(1))
        return torch.stack(columns, 1)

    def _to(self, flat: Tensor, members: Tensor) -> Tensor:
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(flat, members.to(flat.dtype), p=_P[self.norm], compute_mode=exact)
