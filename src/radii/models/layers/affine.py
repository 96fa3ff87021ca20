"""Per-channel affine maps: input normalization and folded batch norms."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Normalization(nn.Module):
    """(x - mean) / std per channel, the first step of a :class:`radii.models.classifier.Classifier`.

    Lipschitz constant 1 / min(std), exactly.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.detach().clone())
        self.register_buffer("std", std.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, …] -> the same shape."""
        shape = (-1, *[1] * (x.dim() - 2))
        return (x - self.mean.view(shape)) / self.std.view(shape)


class ChannelAffine(nn.Module):
    """x * scale + shift per channel: a batch norm in eval mode. Lipschitz constant max |scale|.

    ``shift_size`` bounds the sizes of the parts whose sum ``shift`` is, which rounding is relative to.
    """

    scale: Tensor
    shift: Tensor
    shift_size: Tensor

    def __init__(self, scale: Tensor, shift: Tensor, shift_size: Tensor | None = None) -> None:
        super().__init__()
        size = shift.abs() if shift_size is None else shift_size
        self.register_buffer("shift_size", size.detach().clone(), persistent=False)
        self.register_buffer("scale", scale.detach().clone())
        self.register_buffer("shift", shift.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, …] -> the same shape."""
        shape = (-1, *[1] * (x.dim() - 2))
        return (x * self.scale.view(shape) + self.shift.view(shape)).to(x.dtype)


class Translation(nn.Module):
    """x + offset, with one offset for every number of an input [n, …]. Lipschitz constant 1, exactly."""

    offset: Tensor

    def __init__(self, offset: Tensor) -> None:
        super().__init__()
        self.register_buffer("offset", offset.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """[n, …] -> the same shape."""
        return x + self.offset


def folded_batch_norm(norm: nn.BatchNorm1d | nn.BatchNorm2d) -> ChannelAffine:
    """What a batch norm does in eval mode, in float64: mean / std may be large, and shift is their difference."""
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("a batch norm without running statistics depends on its batch")
    scale = torch.rsqrt(norm.running_var.double() + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight
    shift = -norm.running_mean * scale
    bias = torch.zeros_like(shift) if norm.bias is None else norm.bias
    return ChannelAffine(scale, shift + bias, shift.abs() + bias.abs())
