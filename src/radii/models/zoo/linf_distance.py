"""Networks of Linf distances: 1-Lipschitz in Linf by construction (Zhang et al. 2021).

A neuron computes the Linf distance of its input to its weights. By the triangle inequality
no neuron moves faster than its input, whatever the weights are, and neither does a stack of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from math import inf, prod

import torch
from torch import Tensor, nn

from radii.errors import InputError


class LinfDistance(nn.Module):
    """u_j(x) = |x - w_j|_p - m_j: p is infinite in eval mode, m_j the mean distance of the training.

    Training needs p below infinity at first, because the gradient of the Linf distance reaches
    one coordinate alone. ``power`` is that p; :class:`radii.training.objectives.cross_entropies.GrowingPower`
    sets it. In train mode m is the mean of the batch and the running mean follows it, as in a
    batch norm without scaling, which would not be 1-Lipschitz.
    """

    mean: Tensor

    def __init__(self, in_features: int, out_features: int, power: float = 8.0, shifted: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features))
        self.register_buffer("mean", torch.zeros(out_features))
        self.power, self.shifted = power, shifted

    def distances(self, x: Tensor) -> Tensor:
        """Distances [n, out] of inputs [n, in] to the weights.

        Powers are taken of differences divided by the mean Linf distance, so that they neither overflow nor vanish.
        """
        if not self.training or self.power == inf:
            return torch.cdist(x, self.weight, p=inf)
        scale = torch.cdist(x.detach(), self.weight.detach(), p=inf).mean()
        return scale * torch.cdist(x / scale, self.weight / scale, p=self.power)

    def forward(self, x: Tensor) -> Tensor:
        """Distances minus their means: [n, in] -> [n, out]."""
        distances = self.distances(x)
        if not self.shifted:
            return distances
        if not self.training:
            return distances - self.mean
        mean = distances.mean(0)
        with torch.no_grad():
            self.mean.lerp_(mean, 0.1)
        return distances - mean


class LinfDistanceNetwork(nn.Sequential):
    """Layers of :class:`LinfDistance`; the logit of a class is minus the last distance to its weights.

    Args:
        input_shape: of one input, images or features, without preprocessing that scales.
        classes: number of logits.
        width: neurons of each hidden layer.
        depth: layers, the last one with a neuron for each class.

    Guarantee: |f_c(x) - f_c(x')| <= |x - x'| in Linf for each logit c, in exact arithmetic; so a
    margin m proves the radius m / 2 (:mod:`radii.certificates._linf_margin`, with float32 rounding).

    Raises:
        InputError: a width or depth below 1.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, *, width: int = 128, depth: int = 3) -> None:
        if min(width, depth) < 1:
            raise InputError(f"width and depth must be at least 1, got {width} and {depth} instead.")
        parts: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
        features = prod(input_shape)
        for number in range(depth - 1):
            parts[f"distance{number}"] = LinfDistance(features, width)
            features = width
        parts["head"] = LinfDistance(features, classes, shifted=False)
        super().__init__(parts)
        self.input_shape = tuple(input_shape)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of inputs [n, …]."""
        return -super().forward(x)

    def layers(self) -> Iterator[LinfDistance]:
        """The layers of distances, first to last."""
        return (part for part in self if isinstance(part, LinfDistance))
