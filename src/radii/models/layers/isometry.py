"""The layer of isometric networks: an orthogonal matrix at every token, an absolute value, a shift of some channels.

Tokens are the pixels of [n, c, h, w]; features [n, c] are one token. The layer is
x -> shift(abs(W x + b + p)): W is orthogonal (an isometry where it has at least
as many rows as columns), b and the position's p are translations, the absolute
value of half of the channels keeps norms, and the shift moves some channels by
one token (LipNeXt, Hu et al. 2026). Each part is 1-Lipschitz, up to the defect
of W that float32 leaves.

One autograd function does all of it in place on the result of the matrix
product, which halves the memory traffic of a training step. In eval mode, where
certificates count rounding, sums run over blocks of channels first.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.models.layers._cached_weights import differentiable_gradients, full_precision, is_followed
from radii.models.layers.orthogonal import orthogonal_parameter
from radii.models.layers.plain_layers import (
    BlockedLinear,
    BlockedPointwise,
    Translation,
    blocked_linear,
    blocked_pointwise,
)
from radii.models.layers.weightless import HalfAbs, TokenShift, shift_tokens_

LARGEST_BLOCK = 64  # terms of a sum in eval mode; smaller blocks take more memory and gain little


class IsometricLayer(nn.Module):
    """W x + b at every token, |.| of the first half of the channels, a shift of the last 4 x ``shift`` channels.

    Args:
        out_channels: channels of the output; even.
        shift: channels that move down by one token, and as many up, right and
            left; what leaves the image is dropped, and zeros come in. 0: none.
        size: height and width of the token grid, for a learned offset of every
            position; None: no offsets.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, shift: int = 0, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__()
        if out_channels < 2 or out_channels % 2:
            raise InputError(f"An isometric layer has an even number of channels, got {out_channels} instead.")
        if not 0 <= 4 * shift <= out_channels:
            raise InputError(f"shift must lie in 0..{out_channels // 4}, a quarter of the channels, got {shift}.")
        self.in_channels, self.out_channels, self.shift, self.size = in_channels, out_channels, shift, size
        self.block = max(block for block in range(1, LARGEST_BLOCK + 1) if in_channels % block == 0)
        self.weight = orthogonal_parameter(out_channels, in_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.position = None if size is None else nn.Parameter(torch.zeros(out_channels, *size))

    def forward(self, x: Tensor) -> Tensor:
        """[n, in, h, w] -> [n, out, h, w], or [n, in] -> [n, out]."""
        if x.shape[1] != self.in_channels:
            raise InputError(f"This layer takes {self.in_channels} channels, got {x.shape[1]} instead.")
        with full_precision():
            x, block = x.to(self.weight.dtype), self.in_channels if self.training else self.block
            if _must_be_plain():
                return _by_plain_operations(x, self.weight, self.bias, self.position, self.shift, block)
            return _Fused.apply(x, self.weight, self.bias, self.position, self.shift, block)

    def folded_for(self, shape: tuple[int, ...]) -> nn.Sequential:
        """The same function as plain layers: matrix or 1 x 1 convolution, translation, absolute value, shift."""
        kind = BlockedLinear if len(shape) == 1 else BlockedPointwise
        linear = kind(self.in_channels, self.out_channels, self.block).to(self.weight)
        assert linear.bias is not None
        with torch.no_grad():
            linear.weight.copy_(self.weight.view_as(linear.weight))
            linear.bias.copy_(self.bias)
        parts: dict[str, nn.Module] = {"matrix": linear}
        if self.position is not None:
            parts["position"] = Translation(self.position)
        parts["activation"] = HalfAbs()
        if self.shift:
            parts["shift"] = TokenShift(self.shift)
        network = nn.Sequential()
        for name, part in parts.items():
            network.add_module(name, part.eval())
        return network

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return f"{self.in_channels}, {self.out_channels}, shift={self.shift}, size={self.size}"


def _must_be_plain() -> bool:
    """Whether plain operations are needed: for an export, a compiler, bounds, or a transform of torch.func."""
    inside = torch._C._are_functorch_transforms_active()
    return inside or is_followed()


def _by_plain_operations(
    x: Tensor, weight: Tensor, bias: Tensor, position: Tensor | None, shift: int, block: int
) -> Tensor:
    z = (blocked_linear if x.dim() == 2 else blocked_pointwise)(x, weight, bias, block)
    if position is not None:
        z = z + position
    z = HalfAbs()(z)
    return TokenShift(shift)(z) if shift else z


class _Fused(torch.autograd.Function):
    """The layer with channels last in memory, so that tokens are rows of one matrix."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, position: Tensor | None, shift: int, block: int
    ) -> Tensor:
        last = x.movedim(1, -1)
        rows = last.reshape(-1, last.shape[-1])
        whole = block == rows.shape[1]
        z = torch.addmm(bias, rows, weight.T) if whole else blocked_linear(rows, weight, bias, block)
        z = z.view(*last.shape[:-1], -1)
        if position is not None:
            z += position.movedim(0, -1)
        half = z[..., : z.shape[-1] // 2]
        sign = torch.copysign(torch.ones((), dtype=z.dtype, device=z.device), half)  # products beat masks by far
        half.abs_()
        result = z.movedim(-1, 1)
        if shift:
            shift_tokens_(result, shift)
        ctx.save_for_backward(x, weight, bias, position, sign)
        ctx.shift, ctx.block = shift, block
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, position, sign = ctx.saved_tensors
        if torch.is_grad_enabled():  # it will be differentiated, which writing in place would hide
            plain = partial(_by_plain_operations, shift=ctx.shift, block=ctx.block)
            return (*differentiable_gradients(plain, (x, weight, bias, position), gradient), None, None)
        last = gradient.movedim(1, -1).clone(memory_format=torch.contiguous_format)
        if ctx.shift:
            shift_tokens_(last.movedim(-1, 1), ctx.shift, back=True)
        last[..., : last.shape[-1] // 2] *= sign
        rows = last.view(-1, last.shape[-1])
        needs = ctx.needs_input_grad
        into = (rows @ weight).view(*last.shape[:-1], -1).movedim(-1, 1) if needs[0] else None
        inputs_ = x.movedim(1, -1).reshape(len(rows), -1)
        return (
            into,
            rows.T @ inputs_ if needs[1] else None,
            rows.sum(0) if needs[2] else None,
            last.sum(0).movedim(-1, 0) if needs[3] else None,
            None,
            None,
        )
