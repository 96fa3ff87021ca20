"""Layers without weights: they move, sort or fold numbers. All are 1-Lipschitz; most preserve norms.

MaxMin sorts neighboring channels (Anil et al. 2019); its Jacobian is a
permutation, so it is 1-Lipschitz and loses no gradient. Written with reshape,
stack and indices it takes a fifth of a plain step; this forward writes both results
in place and the backward is two selections by one saved bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.layers._cached_weights import is_followed


class _Channels(nn.Module):
    """A layer with one setting, a number of channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return str(self.channels)


class ZeroChannels(_Channels):
    """Concatenate channels of zeros until there are ``channels``: [n, c, …] -> [n, channels, …]."""

    def forward(self, x: Tensor) -> Tensor:
        """An isometric embedding."""
        missing = self.channels - x.shape[1]
        if missing < 0:
            raise InputError(f"ZeroChannels({self.channels}) cannot hold {x.shape[1]} channels; widen the network.")
        return F.pad(x, (*[0, 0] * (x.dim() - 2), 0, missing))


class FirstChannels(_Channels):
    """Keep the first ``channels``: [n, c, …] -> [n, channels, …], an orthogonal projection."""

    def forward(self, x: Tensor) -> Tensor:
        """The first channels."""
        if x.shape[1] < self.channels:
            raise InputError(f"FirstChannels({self.channels}) needs at least as many channels, got {x.shape[1]}.")
        return x[:, : self.channels]


class ZeroBorder(nn.Module):
    """Center the image in one of ``size`` (height, width) with zeros around it: an isometric embedding."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] -> [n, c, *size]."""
        rows, columns = self.size[0] - x.shape[2], self.size[1] - x.shape[3]
        if rows < 0 or columns < 0:
            raise InputError(f"ZeroBorder{self.size} cannot hold an image of {tuple(x.shape[2:])}.")
        return F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return str(self.size)


class TokenShift(_Channels):
    """Of the last 4 x ``channels`` channels a quarter each moves down, up, right and left by one pixel; the rest stay.

    What leaves the image is dropped and zeros come in, so it is 1-Lipschitz
    (a compression of a permutation). Shapes: [n, c, h, w] with c >= 4 ``channels``, unchanged.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Four slices move, without writing into ``x``."""
        step = self.channels
        if x.dim() != 4 or x.shape[1] < 4 * step:
            raise InputError(
                f"TokenShift({step}) needs images with {4 * step} channels, got inputs of shape {tuple(x.shape[1:])}."
            )
        rest, down, up, right, left = x.split([x.shape[1] - 4 * step, step, step, step, step], 1)
        moved = (
            F.pad(down[:, :, :-1], (0, 0, 1, 0)),
            F.pad(up[:, :, 1:], (0, 0, 0, 1)),
            F.pad(right[:, :, :, :-1], (1, 0)),
            F.pad(left[:, :, :, 1:], (0, 1)),
        )
        return torch.cat((rest, *moved), 1)


def shift_tokens_(x: Tensor, channels: int, *, back: bool = False) -> None:
    """:class:`TokenShift` of ``x`` by ``channels``, in place; ``back`` applies its transpose, the opposite moves."""
    moving = x[:, x.shape[1] - 4 * channels :].split(channels, 1)
    for part, (axis, forward) in zip(moving, ((2, True), (2, False), (3, True), (3, False)), strict=True):
        length = part.shape[axis]
        old = part.clone()
        to, source, border = (1, 0, 0) if forward != back else (0, 1, length - 1)
        part.narrow(axis, to, length - 1).copy_(old.narrow(axis, source, length - 1))
        part.select(axis, border).zero_()


class OverlappingPatches(nn.Module):
    """Square patches of ``patch`` + 2 ``border`` pixels, ``patch`` pixels apart, faded out towards their edges.

    [n, c, h, w] -> [n, c (patch + 2 border)^2, h / patch, w / patch]. Where two patches overlap, a pixel
    has the weights sin(a) and cos(a), so the squares of its weights add up to 1 (to less at the edge of
    the image). Each output is one weighted pixel, so the map is 1-Lipschitz up to the rounding of the weights.

    Args:
        patch: distance of the patches in pixels; divides the sides of the image.
        border: pixels that a patch takes from its neighbors on each side, at most ``patch`` / 2.
    """

    window: Tensor

    def __init__(self, patch: int, border: int) -> None:
        super().__init__()
        if not 0 <= 2 * border <= patch:
            raise InputError(f"border must lie in 0..{patch // 2}, half of a patch, got {border} instead.")
        self.patch, self.border = patch, border
        fade = torch.sin((torch.arange(2 * border) + 0.5) * (torch.pi / (4 * max(border, 1))))
        line = torch.cat((fade, torch.ones(patch - 2 * border), fade.flip(0)))
        self.register_buffer("window", torch.outer(line, line), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Patches as tokens, weighted."""
        if x.shape[2] % self.patch or x.shape[3] % self.patch:
            raise InputError(f"Patches of {self.patch} pixels must divide the image, got {tuple(x.shape[2:])}.")
        side = self.patch + 2 * self.border
        pixels = F.unfold(x, side, padding=self.border, stride=self.patch)  # [n, c side^2, tokens]
        weighted = pixels.unflatten(1, (x.shape[1], side * side)) * self.window.view(-1, 1)
        return weighted.flatten(1, 2).unflatten(2, (x.shape[2] // self.patch, x.shape[3] // self.patch))

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return f"{self.patch}, border={self.border}"


class FlattenTokens(nn.Module):
    """[n, c, h, w] -> [n, h w c], token by token: a permutation that is free where channels are last in memory."""

    def forward(self, x: Tensor) -> Tensor:
        """Features [n, c] stay as they are."""
        return x.movedim(1, -1).flatten(1)


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
        if is_followed():
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
