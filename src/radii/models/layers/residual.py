"""The residual layer x - W^T relu(W x + b), which CPL and SLL constrain in their own ways.

Its derivative I - W^T D W with 0 <= D <= I is symmetric with eigenvalues in
[1 - |W|^2, 1], so the layer is max(1, |W|^2 - 1)-Lipschitz; |W| <= sqrt(2)
makes it 1-Lipschitz. Cost: two convolutions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError


def residual_step(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x - W^T relu(W x + b); a 4-dimensional weight convolves with zero padding that keeps the size."""
    if weight.dim() == 2:
        return x - F.relu(F.linear(x, weight, bias)) @ weight
    padding = (weight.shape[2] // 2, weight.shape[3] // 2)
    hidden = F.relu(F.conv2d(x, weight, bias, padding=padding))
    return x - F.conv_transpose2d(hidden, weight, padding=padding)


def check_odd(kernel_size: int) -> None:
    """Refuse kernels without a center: the transpose would shift the image."""
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise InputError(f"kernel_size must be odd in a residual layer, got {kernel_size} instead.")


class Residual(nn.Module):
    """x - W^T relu(W x + b) with plain weights: what CPL and SLL layers fold to.

    ``weight`` is [hidden, features] or [hidden, channels, k, k] with odd k.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape as ``x``."""
        return residual_step(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """What nn.Module prints."""
        return f"{tuple(self.weight.shape)}, bias={self.bias is not None}"


def uniform_start(weight: Tensor, bias: Tensor | None) -> None:
    """torch's initialization of convolutions (Kaiming uniform, a = sqrt 5), and zero biases."""
    with torch.no_grad():
        nn.init.kaiming_uniform_(weight, a=5**0.5)
        if bias is not None:
            bias.zero_()
