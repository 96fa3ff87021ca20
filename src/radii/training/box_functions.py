"""Batch norm, ReLU and balance of boxes with hand-written gradients, in as few passes over memory as possible.

Composed from torch's elementary operations they take most of a step of interval training. Each is
differentiated once; torch refuses a second derivative.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_aten = torch.ops.aten


class BatchNormalization(torch.autograd.Function):
    """w (v - mean) / sqrt(var + eps) + b per channel, and what other values of the channel need to follow.

    Input: v [n, c, …], w and b [c] or None, eps. Output: the normalized value, the mean [c] and
    s = 1 / sqrt(var + eps) [c], all three with gradients. A value u beside v becomes w (u - mean) s + b.

    With N values in a channel, d mean / d v_i = 1 / N and d s / d v_i = -s^3 (v_i - mean) / N.
    """

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Normalize by the statistics of the batch."""
        normalized, mean, scale = torch.native_batch_norm(value, weight, bias, None, None, True, 0.0, eps)
        ctx.save_for_backward(value, weight, mean, scale)
        ctx.eps, ctx.has_bias = eps, bias is not None
        return normalized, mean, scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_normalized: Tensor, to_mean: Tensor, to_scale: Tensor) -> tuple[Any, ...]:
        """Gradients of the value, the weight and the bias."""
        value, weight, mean, scale = ctx.saved_tensors
        wanted = [True, weight is not None, ctx.has_bias]
        to_value, to_weight, to_bias = _aten.native_batch_norm_backward(
            to_normalized, value, weight, None, None, mean, scale, True, ctx.eps, wanted
        )
        count = value.numel() // value.shape[1]
        slope = -to_scale * scale**3 / count
        to_value.addcmul_(value, per_channel(slope, value)).add_(per_channel(to_mean / count - slope * mean, value))
        return to_value, to_weight if wanted[1] else None, to_bias if wanted[2] else None, None


class Rectification(torch.autograd.Function):
    """ReLU of all values within ``reach`` of ``center``: the center and the reach of the values it takes.

    From high = max(0, center + reach) and low = max(0, center - reach): (high + low) / 2 and (high - low) / 2.
    """

    @staticmethod
    def forward(ctx: Any, center: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
        """[n, …] each."""
        high, low = (center + reach).clamp_min_(0), (center - reach).clamp_min_(0)
        ctx.save_for_backward(high, low)
        middle = torch.lerp(low, high, 0.5)
        return middle, high - middle

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_center: Tensor, to_reach: Tensor) -> tuple[Tensor, Tensor]:
        """Each end passes its gradient on where it is positive."""
        high, low = ctx.saved_tensors
        to_high = _aten.threshold_backward(to_center + to_reach, high, 0)
        to_low = _aten.threshold_backward(to_center - to_reach, low, 0)
        middle = torch.lerp(to_low, to_high, 0.5)
        return middle, to_high.sub_(middle)


class UnitSums(torch.autograd.Function):
    """Sums over units that are surely active (center > reach) and surely inactive (center < -reach).

    Input: center and reach [n, …]. Output [2, 2]: of |center| and of (center - its mean over the batch)^2, in
    rows; over active and inactive units, in columns. Only the center has a gradient: which units count is a
    matter of signs.
    """

    @staticmethod
    def forward(ctx: Any, center: Tensor, reach: Tensor) -> Tensor:
        """The four sums."""
        active, inactive = (center > reach).to(center.dtype), (-center > reach).to(center.dtype)
        deviation = center - center.mean(0)
        ctx.save_for_backward(active, inactive, deviation)
        last = center.dim() == 4 and center.is_contiguous(memory_format=torch.channels_last)
        signed, squares, on, off = (
            (part.movedim(1, -1) if last else part).reshape(-1)  # in the order of memory, so that nothing is copied
            for part in (center, deviation.square(), active, inactive)
        )
        return torch.stack([signed.dot(on), -signed.dot(off), squares.dot(on), squares.dot(off)]).view(2, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_sums: Tensor) -> tuple[Tensor, None]:
        """d |c| = sign(c); a deviation also moves by the mean of its column."""
        active, inactive, deviation = ctx.saved_tensors
        squares = torch.add(active * to_sums[1, 0], inactive * to_sums[1, 1]).mul_(deviation).mul_(2)
        squares -= squares.mean(0)
        return squares.addcmul_(active, to_sums[0, 0]).addcmul_(inactive, -to_sums[0, 1]), None


def per_channel(numbers: Tensor, value: Tensor) -> Tensor:
    """``numbers`` [c] in the shape that multiplies the channels of ``value`` [n, c, …]."""
    return numbers.view(1, -1, *[1] * (value.dim() - 2))
