"""The astute distance classifier of Yang et al. as a network: distances to the classes' points."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.threat import Norm

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

    Raises:
        InputError: a radius that is not positive, or labels that do not fit.
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
