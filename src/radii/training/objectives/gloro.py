"""GloRo training: cross-entropy with one more class, "not robust here" (Leino et al. 2021)."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.layers.head import MarginHead
from radii.models.layers.liresnet import LinearResidualConv2d
from radii.training.objectives.objective import Loss, Moment


class GloRo:
    """CE([s, s_bottom], y): the network must beat every class by its own Lipschitz bound times ``radius``.

    For networks of :class:`LinearResidualConv2d` (any number, other layers
    1-Lipschitz) that end in a :class:`MarginHead`. The constant is estimated
    by warm power iterations while training and proved only when certifying.
    """

    def __init__(self, radius: float = 36 / 255) -> None:
        if not radius > 0:
            raise InputError(f"radius must be positive, got {radius} instead.")
        self.radius = radius

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:  # noqa: ARG002
        """The loss of one batch."""
        heads = [module for module in model.modules() if isinstance(module, MarginHead)]
        if len(heads) != 1:
            raise InputError(f"GloRo training needs a network with one MarginHead, got {len(heads)} instead.")
        logits = model(x)
        free = [layer.lipschitz_estimate() for layer in model.modules() if isinstance(layer, LinearResidualConv2d)]
        free += [1 / module.std.min() for module in model.modules() if isinstance(module, Classifier)]
        lipschitz = prod(free, start=torch.ones((), dtype=logits.dtype))
        extended = heads[0].with_bottom(logits, lipschitz, self.radius)
        return Loss(F.cross_entropy(extended, y), logits)
