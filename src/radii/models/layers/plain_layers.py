"""Layers with plain weights: what constrained layers and batch norms fold to, and input normalization.

Certificates read these layers. Each has a Lipschitz constant that follows from its weights.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.layers._cached_weights import differentiable_gradients, full_precision, is_recorded
from radii.networks.operations.linear import batch_norm_peak, normalized_underflow


def has_own_weights(module: nn.Module) -> bool:
    """Whether ``module`` computes with its own parameters and nothing else, so that another one can replace it.

    A hook may compute the weight before every pass (``torch.nn.utils.spectral_norm``, ``weight_norm``), or read what
    goes through the module. A ``forward`` of the instance may do anything.
    """
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return "weight" in module._parameters and "forward" not in vars(module) and not any(hooks)


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

    ``shift_size`` bounds the sizes of the parts whose sum ``shift`` is, which rounding is relative to. With ``peak``
    = (a, b), what a batch norm computes on its way from an input x is at most a |x| + b.
    """

    scale: Tensor
    shift: Tensor
    shift_size: Tensor

    def __init__(
        self, scale: Tensor, shift: Tensor, shift_size: Tensor | None = None, peak: tuple[float, float] = (1.0, 0.0)
    ) -> None:
        super().__init__()
        self.peak = peak
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
    inverse = torch.rsqrt(norm.running_var.double() + norm.eps)
    weight = torch.ones_like(inverse) if norm.weight is None else norm.weight.double()
    bias = torch.zeros_like(inverse) if norm.bias is None else norm.bias.double()
    scale = inverse * weight
    shift = -norm.running_mean * scale
    size = shift.abs() + bias.abs() + normalized_underflow(weight)
    factor, offset = batch_norm_peak(weight, bias, norm.running_mean.double(), inverse)
    return ChannelAffine(scale, shift + bias, size, (float(factor.max()), float(offset.max())))


class BlockedLinear(nn.Linear):
    """``nn.Linear`` that sums over blocks of ``block`` inputs first, then over the blocks.

    The same function. The error of a float32 sum grows with the number of
    terms in one sum: block + in / block instead of in. For a network with 8,192
    features this raises certified accuracy by about one point.
    """

    def __init__(self, in_features: int, out_features: int, block: int, bias: bool = True) -> None:
        if block < 1 or in_features % block:
            raise InputError(f"block must divide the {in_features} inputs, got {block} instead.")
        super().__init__(in_features, out_features, bias)
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        """[n, in] -> [n, out]."""
        return blocked_linear(x, self.weight, self.bias, self.block)

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return f"{super().extra_repr()}, block={self.block}"


def blocked_linear(x: Tensor, weight: Tensor, bias: Tensor | None, block: int) -> Tensor:
    """``F.linear`` of ``x``, ``weight``, ``bias`` with sums over blocks of ``block`` inputs, then over the blocks."""
    if is_recorded():  # bounds hold for sums in any order
        return F.linear(x, weight, bias)
    blocks = weight.shape[1] // block
    inputs, weights = x.unflatten(1, (blocks, block)), weight.unflatten(1, (blocks, block))
    # [blocks, n, block] @ [blocks, block, out] -> [blocks, n, out]
    summed = torch.bmm(inputs.transpose(0, 1), weights.permute(1, 2, 0)).sum(0)
    return summed if bias is None else summed + bias


class BlockedPointwise(nn.Conv2d):
    """A 1 x 1 convolution that sums over blocks of ``block`` channels first, then over the blocks.

    The same function as ``nn.Conv2d``, with the smaller rounding of :class:`BlockedLinear`.
    """

    def __init__(self, in_channels: int, out_channels: int, block: int) -> None:
        if block < 1 or in_channels % block:
            raise InputError(f"block must divide the {in_channels} channels, got {block} instead.")
        super().__init__(in_channels, out_channels, 1)
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        """[n, in, h, w] -> [n, out, h, w]."""
        return blocked_pointwise(x, self.weight.flatten(1), self.bias, self.block)

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return f"{super().extra_repr()}, block={self.block}"


def blocked_pointwise(x: Tensor, weight: Tensor, bias: Tensor | None, block: int) -> Tensor:
    """The 1 x 1 convolution of ``x`` by ``weight`` [out, in] plus ``bias``, with sums over blocks of ``block``."""
    blocks = weight.shape[1] // block
    if blocks == 1 or is_recorded():
        return F.conv2d(x, weight[:, :, None, None], bias)
    # block after block: one convolution with groups takes twice as long
    pairs = zip(x.split(block, 1), weight.split(block, 1), strict=True)
    summed = reduce(torch.add, [F.conv2d(part, rows[:, :, None, None]) for part, rows in pairs])
    return summed if bias is None else summed + bias[:, None, None]


class TokenMix(nn.Module):
    """A matrix M mixes the tokens of the last ``channels`` channels, x_t -> sum_s M_ts x_s; the others stay.

    Shifts carry information one token further in each layer; one mixture lets every token see all
    others. The Lipschitz constant is max(1, |M|).

    Args:
        weight: M, [tokens, tokens] for images of ``tokens`` = height times width; an orthogonal parameter in networks
            that are trained on the manifold.
    """

    def __init__(self, channels: int, weight: nn.Parameter) -> None:
        super().__init__()
        self.channels, self.weight = channels, weight

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] -> the same shape; ``c`` at least ``channels``, ``h w`` the number of tokens."""
        if x.dim() != 4 or x.shape[1] < self.channels or x.shape[2] * x.shape[3] != len(self.weight):
            raise InputError(
                f"TokenMix takes images of {len(self.weight)} tokens and at least {self.channels} channels, got inputs "
                f"of shape {tuple(x.shape[1:])} instead."
            )
        with full_precision():
            rows = x.to(self.weight.dtype).movedim(1, -1).flatten(1, 2)  # [n, tokens, c]
            kept, mixed = rows.split([x.shape[1] - self.channels, self.channels], 2)
            rows = torch.cat((kept, torch.matmul(self.weight, mixed)), 2)
        return rows.unflatten(1, x.shape[2:]).movedim(-1, 1)

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return f"{self.channels}, tokens={len(self.weight)}"


class Residual(nn.Module):
    """x - W^T relu(W x + b) with plain weights: what CPL and SLL layers fold to.

    Its derivative I - W^T D W with 0 <= D <= I is symmetric with eigenvalues in
    [1 - |W|^2, 1], so the layer is max(1, |W|^2 - 1)-Lipschitz; |W| <= sqrt(2)
    makes it 1-Lipschitz. Cost: two convolutions.
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
        """The text that nn.Module prints."""
        return f"{tuple(self.weight.shape)}, bias={self.bias is not None}"


def residual_step(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x`` - W^T relu(W x + b), W = ``weight``, b = ``bias``; a 4-dimensional weight convolves and keeps the size."""
    if weight.dim() == 2:
        return x - F.relu(F.linear(x, weight, bias)) @ weight
    traced = torch.compiler.is_exporting() or torch.compiler.is_compiling()
    if traced or not torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type):
        return _plain_step(x, weight, bias)
    return _ResidualConvolution.apply(x, weight, bias)


def _half(weight: Tensor) -> tuple[int, int]:
    return weight.shape[2] // 2, weight.shape[3] // 2


def _plain_step(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    hidden = F.conv2d(x, weight, bias, padding=_half(weight)).relu()
    return x - F.conv_transpose2d(hidden, weight, padding=_half(weight))


def _weight_gradient(x: Tensor, weight: Tensor, outputs: Tensor) -> Tensor:
    """The gradient of <conv(x, weight), outputs> in the weight."""
    settings = (None, (1, 1), _half(weight), (1, 1), False, (0, 0), 1, (False, True, False))
    return torch.ops.aten.convolution_backward(outputs, x, weight, *settings)[1]


class _ResidualConvolution(torch.autograd.Function):
    """The step with a hand-written backward that uses its buffers again, so it costs two convolutions and no more.

    With h = relu(W x + b) and its derivative D, a gradient g gives h' = D W g,
    dx = g - W^T h', dW = -(h g^T + h' x^T) and db = -h'.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = _half(weight)
        hidden = F.conv2d(x, weight, bias, padding=padding).relu_()
        ctx.save_for_backward(x, weight, bias, hidden)
        back = F.conv_transpose2d(hidden, weight, padding=padding)
        return torch.sub(x, back, out=back)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, hidden = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(_plain_step, (x, weight, bias), gradient)
        padding = _half(weight)
        inner = _where_active(F.conv2d(gradient, weight, padding=padding), hidden)
        back = F.conv_transpose2d(inner, weight, padding=padding)
        along_x = torch.sub(gradient, back, out=back)
        along_weight = along_bias = None
        if ctx.needs_input_grad[1]:
            along_weight = _weight_gradient(gradient, weight, hidden)
            along_weight.add_(_weight_gradient(x, weight, inner)).neg_()
        if ctx.needs_input_grad[2]:
            along_bias = inner.sum((0, 2, 3)).neg_()
        return along_x, along_weight, along_bias


def _where_active(values: Tensor, hidden: Tensor) -> Tensor:
    """``values`` with zeros, in place, where relu gave none."""
    torch.ops.aten.threshold_backward.grad_input(values, hidden, 0, grad_input=values)
    return values


class SkewExponential(nn.Module):
    """The Taylor exponential with a plain skew kernel [c, c, k, k]: what SOC layers fold to."""

    def __init__(self, weight: Tensor, terms: int, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
        self.terms = terms

    def forward(self, x: Tensor) -> Tensor:
        """The same shape as ``x``."""
        return skew_exponential(x, self.weight, self.terms, self.bias)

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return f"{tuple(self.weight.shape)}, terms={self.terms}"


def skew_exponential(x: Tensor, kernel: Tensor, terms: int, bias: Tensor | None) -> Tensor:
    """sum_{j <= ``terms``} A^j ``x`` / j!, A the convolution by ``kernel``, plus ``bias`` per channel."""
    padding = (kernel.shape[2] // 2, kernel.shape[3] // 2)
    total, power = x, x
    for number in range(1, terms + 1):
        power = F.conv2d(power, kernel, padding=padding) / number
        total = total + power
    return total if bias is None else total + bias[:, None, None]
