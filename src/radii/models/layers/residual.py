"""The residual layer x - W^T relu(W x + b), which CPL and SLL constrain in their own ways.

Its derivative I - W^T D W with 0 <= D <= I is symmetric with eigenvalues in
[1 - |W|^2, 1], so the layer is max(1, |W|^2 - 1)-Lipschitz; |W| <= sqrt(2)
makes it 1-Lipschitz. Cost: two convolutions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.layers.effective import differentiable_gradients


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


def _weight_gradient(x: Tensor, weight: Tensor, outputs: Tensor) -> Tensor:
    """The gradient of <conv(x, weight), outputs> in the weight."""
    settings = (None, (1, 1), _half(weight), (1, 1), False, (0, 0), 1, (False, True, False))
    return torch.ops.aten.convolution_backward(outputs, x, weight, *settings)[1]


def _plain_step(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    hidden = F.conv2d(x, weight, bias, padding=_half(weight)).relu()
    return x - F.conv_transpose2d(hidden, weight, padding=_half(weight))


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


def check_odd(kernel_size: int) -> None:
    """Refuse an even ``kernel_size``: without a center pixel, the transpose would shift the image."""
    if not isinstance(kernel_size, int) or kernel_size < 1 or kernel_size % 2 == 0:
        raise InputError(f"kernel_size must be an odd number in a residual layer, got {kernel_size} instead.")


def check_input(layer: nn.Module, x: Tensor, weight: Tensor) -> None:
    """Refuse inputs ``x`` of ``layer`` that ``weight`` cannot be applied to."""
    if x.dim() != weight.dim() or x.shape[1] != weight.shape[1]:
        wanted = f"[n, {weight.shape[1]}{', h, w' if weight.dim() == 4 else ''}]"
        raise InputError(f"{type(layer).__name__} takes {wanted}, got {tuple(x.shape)} instead.")


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
        """The text that nn.Module prints."""
        return f"{tuple(self.weight.shape)}, bias={self.bias is not None}"


def uniform_start(shape: tuple[int, ...], bias: bool) -> tuple[nn.Parameter, nn.Parameter | None]:
    """A weight of ``shape`` by torch's initialization (Kaiming uniform, a = sqrt 5), and zeros if ``bias``."""
    weight = nn.Parameter(torch.empty(shape))
    nn.init.kaiming_uniform_(weight, a=5**0.5)
    return weight, nn.Parameter(torch.zeros(shape[0])) if bias else None
