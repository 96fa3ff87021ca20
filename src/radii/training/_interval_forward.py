"""Boxes through a network in training: intervals as in evaluation, but with the batch norms of training.

The bounds of :mod:`radii.bounds` take any network in eval mode. Training by
intervals needs less and more: plain layers one after the other, no rounding, and batch
norms that normalize by the statistics of the batch, with gradients through them.
Nothing is proved here; certificates are computed afterwards from the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.zoo.interval_network import ClipPixels


@dataclass(frozen=True)
class Boxes:
    """Values within ``reach`` of ``center``, and the value of the clean input if it is wanted: [n, …] each."""

    center: Tensor
    reach: Tensor
    clean: Tensor | None = None

    @classmethod
    def between(cls, low: Tensor, high: Tensor, clean: Tensor | None = None) -> Boxes:
        """All values from ``low`` to ``high``."""
        return cls((low + high) / 2, (high - low) / 2, clean)

    def linear(self, layer: nn.Conv2d | nn.Linear) -> Boxes:
        """Through a linear layer: the center by W and b, the reach by |W|."""
        reach = _apply(layer, self.reach, layer.weight.abs(), None)
        if self.clean is None:
            return Boxes(_apply(layer, self.center, layer.weight, layer.bias), reach)
        both = _apply(layer, torch.cat([self.center, self.clean]), layer.weight, layer.bias)
        return Boxes(both[: len(reach)], reach, both[len(reach) :])

    def rising(self, function: nn.Module) -> Boxes:
        """Through a function that rises in every coordinate."""
        clean = None if self.clean is None else function(self.clean)
        return Boxes.between(function(self.center - self.reach), function(self.center + self.reach), clean)

    def rectified(self) -> Boxes:
        """Through ReLU."""
        center, reach = Rectification.apply(self.center, self.reach)
        return Boxes(center, reach, None if self.clean is None else F.relu(self.clean))

    def scaled(self, factor: Tensor, offset: Tensor) -> Boxes:
        """factor * value + offset, per channel."""
        factor, offset = per_channel(factor, self.center), per_channel(offset, self.center)
        clean = None if self.clean is None else self.clean * factor + offset
        return Boxes(self.center * factor + offset, self.reach * factor.abs(), clean)

    def flat(self) -> Boxes:
        """One row of features for each input."""
        return Boxes(
            self.center.flatten(1), self.reach.flatten(1), None if self.clean is None else self.clean.flatten(1)
        )


@dataclass(frozen=True)
class Passage:
    """What boxes became: before each ReLU, and before the head."""

    start: Boxes
    hidden: tuple[Boxes, ...]
    features: Boxes
    head: nn.Linear

    @property
    def logits(self) -> Tensor:
        """Of the clean input, or of the center where no clean value was carried along: [n, classes]."""
        value = self.features.center if self.features.clean is None else self.features.clean
        return _apply(self.head, value, self.head.weight, self.head.bias)

    def worst_logits(self, y: Tensor) -> Tensor:
        """The largest logit_c - logit_y over the box for every class c: [n, classes]."""
        head, rows = self.head, torch.arange(len(y), device=y.device)
        logits = _apply(head, self.features.center, head.weight, head.bias)
        pairs = (head.weight[:, None] - head.weight[None]).abs()  # [classes, classes, d]
        spread = F.linear(self.features.reach, pairs.flatten(0, 1)).view(len(y), *pairs.shape[:2])[rows, y]
        return logits - logits[rows, y][:, None] + spread


def pass_box(model: nn.Module, box: Boxes) -> Passage:
    """Carry ``box`` through ``model``.

    In train mode a batch norm uses mean and variance of the batch (of clean values, or of centers
    without them) and updates its running statistics; in eval mode it uses those.

    Args:
        model: linear layers, convolutions, batch norms, ReLU, flatten and clipping, one after the other, a
            linear layer last; preprocessing may come before.
    """
    layers = list(_leaves(model))
    head, hidden, start = layers[-1], [], box
    if not isinstance(head, nn.Linear):
        raise InputError(f"Interval training needs a linear layer at the end, got {type(head).__name__} instead.")
    for layer in layers[:-1]:
        if isinstance(layer, nn.ReLU):
            hidden.append(box)
        box = _through(layer, box)
        if isinstance(layer, Classifier | ClipPixels):
            start = box
    return Passage(start, tuple(hidden), box, head)


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    """The layers in their order; a classifier stands for its preprocessing."""
    if isinstance(module, Classifier):
        yield module
        yield from _leaves(module.net)
    elif isinstance(module, nn.Sequential):
        for part in module:
            yield from _leaves(part)
    else:
        yield module


def _through(layer: nn.Module, box: Boxes) -> Boxes:
    if isinstance(layer, nn.Conv2d | nn.Linear):
        return box.linear(layer)
    if isinstance(layer, nn.ReLU):
        return box.rectified()
    if isinstance(layer, ClipPixels):
        return box.rising(layer)
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return _normalized(layer, box)
    if isinstance(layer, nn.Flatten):
        return box.flat()
    if isinstance(layer, Classifier):
        return box.scaled(1 / layer.std, -layer.mean / layer.std)
    raise InputError(
        f"Interval training passes boxes through linear layers, convolutions, batch norms, ReLU, Flatten and "
        f"ClipPixels, got {type(layer).__name__} instead; the method interval-bounds takes more layers."
    )


def _normalized(layer: nn.BatchNorm1d | nn.BatchNorm2d, box: Boxes) -> Boxes:
    weight = 1 if layer.weight is None else layer.weight
    bias = 0 if layer.bias is None else layer.bias
    if not layer.training and layer.running_mean is not None and layer.running_var is not None:
        factor = torch.rsqrt(layer.running_var + layer.eps) * weight
        return box.scaled(factor, bias - layer.running_mean * factor)
    value = box.center if box.clean is None else box.clean
    normalized, mean, scale = BatchNormalization.apply(value, layer.weight, layer.bias, layer.eps)
    variance = (scale.detach().pow(-2) - layer.eps).clamp_min(0)  # rounding may leave less than nothing
    _remember(layer, mean.detach(), variance, value.numel() // value.shape[1])
    factor = scale * weight
    reach = box.reach * per_channel(factor.abs(), value)
    if box.clean is None:
        return Boxes(normalized, reach)
    offset = per_channel(bias - mean * factor, value)
    return Boxes(torch.addcmul(offset, box.center, per_channel(factor, value)), reach, normalized)


@torch.no_grad()
def _remember(layer: nn.BatchNorm1d | nn.BatchNorm2d, mean: Tensor, variance: Tensor, count: int) -> None:
    """Running statistics as torch's batch norm updates them."""
    if layer.running_mean is None or layer.running_var is None or layer.num_batches_tracked is None:
        return
    layer.num_batches_tracked += 1
    share = 1 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
    layer.running_mean.lerp_(mean, share)
    layer.running_var.lerp_(variance * (count / max(1, count - 1)), share)


def _apply(layer: nn.Conv2d | nn.Linear, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if isinstance(layer, nn.Linear):
        return F.linear(value, weight, bias)
    return F.conv2d(value, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)


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
