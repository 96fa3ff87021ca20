"""Convolutions and matrices in one canonical form, on a stated input size, for bounding their norms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

UNIT, UNIT32 = 2.0**-53, 2.0**-24


def rounding(terms: float) -> float:
    """Twice the relative error n u of a float64 sum of n = ``terms`` products, in any order."""
    return 2.0 * terms * UNIT


@dataclass(frozen=True)
class Operator:
    """A convolution with stride 1 in canonical form, float64.

    Output row r reads image row q through tap d = q - r + first_row, for
    q = 0 … rows-1 and r = 0 … out_rows-1; columns alike. Rows and columns
    outside are zeros. ``row_mask`` [rows, in] and ``column_mask`` [in, columns]
    are 0 where no pixel exists (strides that do not divide the size).
    """

    kernel: Tensor  # [out, in, taps, taps]
    size: tuple[int, int]
    out_size: tuple[int, int]
    first: tuple[int, int]
    row_mask: Tensor
    column_mask: Tensor

    @property
    def absolute(self) -> float:
        """An upper bound of the norm of |A|, that of S = sum_taps |K|: a constant image meets all taps at once.

        max_i (S^T S v)_i / v_i bounds the largest eigenvalue for any v > 0 (Collatz 1942);
        steps of power iteration bring it down to it.
        """
        size = self.kernel.abs().sum((2, 3))
        vector, bound = size.new_ones(size.shape[1]), inf
        for _ in range(20):
            image = size.T @ (size @ vector)
            bound = min(bound, float((image / vector).max()))
            vector = image / image.max().clamp_min(1e-300) + 1e-6
        return sqrt(bound) * (1 + rounding(2 * self.terms + 8))

    @property
    def terms(self) -> int:
        """The most products summed for one output, or for one input by the transpose."""
        out, into, height, width = self.kernel.shape
        return max(out, into) * height * width

    @cached_property
    def taps(self) -> list[Tensor]:
        """T_d [out * out_columns, in * columns] for each vertical tap d: A's blocks before row masks."""
        out, into, height, width = self.kernel.shape
        columns, out_columns = self.size[1], self.out_size[1]
        blocks = []
        for d in range(height):
            block = self.kernel.new_zeros(out, out_columns, into, columns)
            for c in range(out_columns):
                for e in range(width):
                    q = c + e - self.first[1]
                    if 0 <= q < columns:
                        block[:, c, :, q] = self.kernel[:, :, d, e] * self.column_mask[:, q]
            blocks.append(block.view(out * out_columns, into * columns))
        return blocks

    def masks(self, q: int) -> Tensor:
        """Which entries of image row q exist: [in * columns]."""
        return self.row_mask[q].repeat_interleave(self.size[1])


def matrix_operator(weight: Tensor) -> Operator:
    """The matrix ``weight`` [out, in] as a convolution of a single pixel."""
    weight = weight.detach().double().cpu()
    ones = weight.new_ones(1, weight.shape[1])
    return Operator(weight[:, :, None, None], (1, 1), (1, 1), (0, 0), ones, ones.T)


def convolution_operators(
    weight: Tensor,
    size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    dilation: tuple[int, int],
    groups: int,
) -> list[Operator]:
    """One canonical operator per group of a zero-padded convolution; the norm is their maximum.

    A stride becomes channels: pixel s q + f of a padded image is channel f of
    pixel q (PixelUnshuffle), and tap u becomes tap u // s of channel u % s.

    Args:
        weight: the kernel [out, in / groups, h, w].
        size: height and width of the image.
        stride: pixels between two outputs, per axis.
        padding: zeros before and after the image, per axis.
        dilation: pixels between two taps, per axis.
        groups: groups of channels that do not mix.
    """
    weight = _dilated(weight.detach().double().cpu(), dilation)
    return [_canonical(part, size, stride, padding) for part in weight.chunk(groups)]


def _dilated(kernel: Tensor, dilation: tuple[int, int]) -> Tensor:
    out, into, height, width = kernel.shape
    spread = kernel.new_zeros(out, into, (height - 1) * dilation[0] + 1, (width - 1) * dilation[1] + 1)
    spread[:, :, :: dilation[0], :: dilation[1]] = kernel
    return spread


def _canonical(
    kernel: Tensor, size: tuple[int, int], stride: tuple[int, int], padding: tuple[tuple[int, int], tuple[int, int]]
) -> Operator:
    out, into, *taps = kernel.shape
    out_size, first, phases, exists = [], [], [], []
    for axis in (0, 1):
        s, before = stride[axis], padding[axis][0]
        total = size[axis] + sum(padding[axis])
        out_size.append((total - taps[axis]) // s + 1)
        low, high = before // s, (before + size[axis] - 1) // s  # pixels of the unshuffled image that exist
        first.append(low)
        phases.append(-(-taps[axis] // s))
        pixel = torch.arange(low * s, (high + 1) * s).view(-1, s) - before
        exists.append(((pixel >= 0) & (pixel < size[axis])).double())  # [pixels, phase]
    s, t = stride
    padded = F.pad(kernel, (0, phases[1] * t - taps[1], 0, phases[0] * s - taps[0]))
    unshuffled = padded.view(out, into, phases[0], s, phases[1], t).permute(0, 1, 3, 5, 2, 4)
    row_mask = exists[0][:, None, :, None].expand(-1, into, -1, t).flatten(1)
    column_mask = exists[1].T[None, None, :, :].expand(into, s, -1, -1).flatten(0, 2)
    if phases == [1, 1] and bool(row_mask.all()) and bool(column_mask.all()):
        return matrix_operator(unshuffled.reshape(out, into * s * t))  # pixels do not mix
    return Operator(
        unshuffled.reshape(out, into * s * t, *phases),
        (len(exists[0]), len(exists[1])),
        (out_size[0], out_size[1]),
        (first[0], first[1]),
        row_mask,
        column_mask,
    )
