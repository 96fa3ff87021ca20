"""Nearest prototypes: a classifier of a few learned points, whose robust radii have a closed form."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError


class Prototypes(nn.Module):
    """The class of the nearest of ``count`` learned points for each class, by the L2 distance.

    logit_c(x) = max over prototypes w of class c of 2 w.x - |w|^2, which is |x|^2 minus the squared distance to the
    nearest of them, so the largest logit belongs to the nearest prototype. Prototypes start near the middle
    of the box and are placed among the inputs by
    :class:`radii.training.objectives.prototype_margin.PrototypeMargin`.

    Args:
        input_shape: of one input, images or features, without preprocessing.
        classes: number of logits.
        count: prototypes of each class.

    Guarantee: the distance to the faces between prototypes is a proved radius
    (:mod:`radii.certificates.prototype_faces`).

    Raises:
        InputError: a count below 1.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, *, count: int = 50) -> None:
        if count < 1:
            raise InputError(f"count must be at least 1, got {count} instead.")
        super().__init__()
        self.input_shape = tuple(input_shape)
        self.points = nn.Parameter(0.5 + 0.1 * torch.randn(classes, count, prod(input_shape)))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of inputs [n, …]."""
        return self.scores(x).amax(2)

    def scores(self, x: Tensor) -> Tensor:
        """2 w.x - |w|^2 for every prototype: [n, classes, count]."""
        points = self.points.flatten(0, 1)
        scores = F.linear(x.flatten(1), 2 * points, -points.square().sum(1))
        return scores.unflatten(1, self.points.shape[:2])
