"""Activations that keep gradients' norms: MaxMin, and half an absolute value.

MaxMin sorts neighboring channels (Anil et al. 2019); its Jacobian is a
permutation, so it is 1-Lipschitz and loses no gradient. Written with reshape,
stack and indices it takes a fifth of a plain step; this forward writes both results
in place and the backward is two selections by one saved bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError


class _MaxMin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        first, second = x[:, 0::2], x[:, 1::2]
        ctx.save_for_backward(first >= second)
        result = torch.empty_like(x)
        torch.maximum(first, second, out=result[:, 0::2])
        torch.minimum(first, second, out=result[:, 1::2])
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (ordered,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # it will be differentiated, which writing in place would hide
            first, second = gradient[:, 0::2], gradient[:, 1::2]
            pairs = torch.where(ordered, first, second), torch.where(ordered, second, first)
            return torch.stack(pairs, 2).flatten(1, 2)
        result = torch.empty_like(gradient)
        torch.where(ordered, gradient[:, 0::2], gradient[:, 1::2], out=result[:, 0::2])
        torch.where(ordered, gradient[:, 1::2], gradient[:, 0::2], out=result[:, 1::2])
        return result


class MaxMin(nn.Module):
    """(x_0, x_1, x_2, …) -> (max(x_0, x_1), min(x_0, x_1), …) along dimension 1.

    1-Lipschitz and norm-preserving: the output is a permutation of the input.
    Shapes: [n, c, …] with even c, unchanged.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Sort each pair of channels."""
        if x.shape[1] % 2:
            raise InputError(f"MaxMin needs an even number of channels, got {x.shape[1]} instead.")
        if torch.compiler.is_exporting() or torch.compiler.is_compiling():
            pairs = x.unflatten(1, (-1, 2))
            return torch.stack((pairs.amax(2), pairs.amin(2)), 2).flatten(1, 2)
        return _MaxMin.apply(x)


class HalfAbs(nn.Module):
    """|x| of the first half of the channels, x of the rest (dimension 1; even channels).

    Norm-preserving, and 1-Lipschitz since | |a| - |b| | <= |a - b|. Shapes: [n, c, …], unchanged.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Fold half of the channels."""
        half = x.shape[1] // 2
        return torch.cat((x[:, :half].abs(), x[:, half:]), 1)
