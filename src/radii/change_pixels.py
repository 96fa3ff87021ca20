"""The pixels of a change: the images x(t) as a function of the parameters t, in float64, clipped, then float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from radii.errors import InputError, reason

LUMA = (0.299, 0.587, 0.114)
REACH = 3.0  # of a Gaussian kernel, in widths


class Described(Protocol):
    """What pixels depend on, of a :class:`radii.change.Change`."""

    @property
    def kind(self) -> str:
        """Its name."""

    @property
    def width(self) -> float | None:
        """Of a kernel, in pixels."""

    @property
    def angle(self) -> float | None:
        """Of a direction, in degrees."""

    @property
    def file(self) -> str | None:
        """Of a direction or a kernel."""

    @property
    def form(self) -> str:
        """``line``, ``curve`` or ``attack``."""

    @property
    def strength(self) -> float:
        """The largest |t| of its first parameter."""

    @property
    def strengths(self) -> tuple[float, ...]:
        """The largest |t| of each parameter."""

    @property
    def signed(self) -> tuple[bool, ...]:
        """Whether each parameter may be negative."""

    @property
    def parameters(self) -> int:
        """How many numbers t has."""

    @property
    def parts(self) -> tuple[Self, ...]:
        """The changes that are added."""


@dataclass(frozen=True)
class ImagePath:
    """The changed images of a batch.

    Attributes:
        change: the threat.
        base: the images [n, …] in float64.
        directions: D_k(x) [n, k, …] in float64, up to 2^-40; for hue the parts that cosine and sine multiply; empty for
            kinds that have none.
    """

    change: Described
    base: Tensor
    directions: Tensor

    @classmethod
    def of(cls, change: Described, x: Tensor) -> ImagePath:
        """The path of the images ``x`` [n, …], which must lie in [0, 1]."""
        base = x.detach().double()
        if change.form == "line":
            directions = torch.stack([_direction(part, base) for part in change.parts], 1)
        elif change.kind == "hue":
            directions = _hue(base)
        else:
            if change.form == "attack":
                _check_images(change, base)
            directions = base.new_empty(len(base), 0)
        return cls(change, base, directions)

    def rows(self, index: Tensor | slice) -> ImagePath:
        """The path of some of the images."""
        return ImagePath(self.change, self.base[index], self.directions[index])

    def at(self, t: Tensor) -> Tensor:
        """The images at the parameters ``t`` [n, k]: clipped, then rounded to float32."""
        if self.change.form == "attack":
            return _moved(self.change, self.base, t.double()).clamp(0, 1).float()
        return self.before_clip(t).clamp(0, 1).float()

    def before_clip(self, t: Tensor) -> Tensor:
        """The images at ``t`` [n, k] in float64, not yet clipped."""
        t = t.to(self.base)
        shape = (-1, *[1] * (self.base.dim() - 1))
        if self.change.form == "line":
            out = self.base
            for k in range(t.shape[1]):
                out = out + t[:, k].view(shape) * self.directions[:, k]
            return out
        if self.change.kind == "hue":
            angle = (t[:, 0] * (math.pi / 180)).view(shape)
            return self.base + (angle.cos() - 1) * self.directions[:, 0] + angle.sin() * self.directions[:, 1]
        return self.base.clamp(0, 1) ** t[:, 0].exp().view(shape)

    def curvature(self) -> Tensor:
        """A bound of |x''(t)| of each pixel of the first image, for one parameter: 0 on a line.

        gamma: with s = -exp(t) log x the second derivative is exp(-s) (s^2 - s), between -0.17 and 0.31. hue: the
        second derivative of a turn is at most |p| + |q| per square radian.
        """
        if self.change.form == "line":
            return torch.zeros_like(self.base[0])
        if self.change.kind == "hue":
            return self.directions[0].abs().sum(0) * (math.pi / 180) ** 2
        return torch.full_like(self.base[0], 0.32)


def _direction(part: Described, x: Tensor) -> Tensor:
    """D(x) of a change along a line."""
    if part.kind == "brightness":
        return torch.ones_like(x)
    if part.kind == "fade":
        return 0.5 - x
    if part.kind == "direction":
        return _own_direction(part, x)
    if part.kind == "saturation":
        return x - _luma(part, x)
    if part.kind == "contrast":
        grey = _luma(part, x) if x.dim() == 4 and x.shape[1] == 3 else x
        return x - grey.flatten(1).mean(1).view(-1, *[1] * (x.dim() - 1))
    _check_images(part, x)
    if part.kind == "bias":
        return x * _ramp(x, part.angle or 0.0)
    away = _filtered(x, _kernel(part)) - x
    return -away if part.kind == "sharpen" else away


def _check_images(part: Described, x: Tensor) -> None:
    if x.dim() != 4:
        raise InputError(f"{part.kind} needs [n, c, h, w] images, got inputs of shape {tuple(x.shape)} instead.")


def _luma(part: Described, x: Tensor) -> Tensor:
    if x.dim() != 4 or x.shape[1] != 3:
        raise InputError(f"{part.kind} needs color images [n, 3, h, w], got inputs of shape {tuple(x.shape)} instead.")
    return (x * x.new_tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True)


def _ramp(x: Tensor, angle: float) -> Tensor:
    """From -1 to 1 across the image, along ``angle`` degrees: 0 is left to right, 90 top to bottom."""
    rows, columns = (torch.linspace(-1, 1, side, dtype=x.dtype) for side in x.shape[2:])
    turn = math.radians(angle)
    ramp = math.cos(turn) * columns + math.sin(turn) * rows[:, None]
    return ramp / ramp.abs().max().clamp_min(1e-12)


def _kernel(part: Described) -> Tensor:
    """The kernel of a filter, of odd sides; it adds up to 1 but for a kernel of one's own."""
    if part.kind == "kernel":
        kernel = _array(part)
        if kernel.dim() != 2 or any(side % 2 == 0 for side in kernel.shape):
            raise InputError(f"{part.file} must be a kernel of odd sides [k, k], got shape {tuple(kernel.shape)}.")
        return kernel
    assert part.width is not None
    if part.kind == "motion":
        return _line(part.width, part.angle or 0.0)
    reach = max(1, math.ceil(REACH * part.width))
    steps = torch.arange(-reach, reach + 1, dtype=torch.float64)
    bell = torch.exp(-(steps**2) / (2 * part.width**2))
    kernel = bell[:, None] * bell
    return kernel / kernel.sum()


def _line(length: float, angle: float) -> Tensor:
    """The mean along a line of ``length`` pixels: points on it, shared among the four pixels around each."""
    half, turn = (length - 1) / 2, math.radians(angle)
    reach = max(1, math.ceil(max(half, 0)))
    kernel = torch.zeros(2 * reach + 1, 2 * reach + 1, dtype=torch.float64)
    for step in torch.linspace(-max(half, 0), max(half, 0), max(1, round(4 * length)), dtype=torch.float64).tolist():
        row, column = reach + step * math.sin(turn), reach + step * math.cos(turn)
        top, left = min(int(row), 2 * reach - 1), min(int(column), 2 * reach - 1)
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            kernel[top + i, left + j] += (1 - abs(row - top - i)) * (1 - abs(column - left - j))
    return kernel / kernel.sum()


def _filtered(x: Tensor, kernel: Tensor) -> Tensor:
    """``kernel`` over every channel; the border mirrors, or repeats its edge where an image is too small for that."""
    down, right = (side // 2 for side in kernel.shape)
    mode = "reflect" if down < x.shape[2] and right < x.shape[3] else "replicate"
    padded = F.pad(x, (right, right, down, down), mode=mode)
    channels = x.shape[1]
    return F.conv2d(padded, kernel.to(x).expand(channels, 1, *kernel.shape), groups=channels)


def _own_direction(part: Described, x: Tensor) -> Tensor:
    way = _array(part)
    try:
        return way.to(x).expand(x.shape[1:]).expand(x.shape).clone()
    except RuntimeError:
        shape = tuple(x.shape[1:])
        raise InputError(f"{part.file} must have the shape of an input, {shape}, got {tuple(way.shape)}.") from None


def _array(part: Described) -> Tensor:
    try:
        values = np.load(Path(str(part.file)), allow_pickle=False)
        numbers = torch.from_numpy(np.asarray(values, dtype=np.float64).copy())
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{part.file} is not an array of numbers (.npy): {reason(error)}.") from error
    if not bool(numbers.isfinite().all()):
        raise InputError(f"{part.file} must hold finite numbers.")
    return numbers


def _hue(x: Tensor) -> Tensor:
    """p and q with x(t) = x + (cos t - 1) p + sin t q: a turn about the grey axis (1, 1, 1)."""
    if x.dim() != 4 or x.shape[1] != 3:
        raise InputError(f"hue needs color images [n, 3, h, w], got inputs of shape {tuple(x.shape)} instead.")
    p = x - x.mean(1, keepdim=True)
    q = (x.roll(1, 1) - x.roll(-1, 1)) / math.sqrt(3)  # the grey axis times x
    return torch.stack([p, q], 1)


def _moved(change: Described, x: Tensor, t: Tensor) -> Tensor:
    """Rotated, moved or enlarged images: bilinear, black outside."""
    n, _, height, width = x.shape
    matrix = torch.zeros(n, 2, 3, dtype=x.dtype)
    zero, one = torch.zeros(n, dtype=x.dtype), torch.ones(n, dtype=x.dtype)
    if change.kind == "rotate":
        turn = t[:, 0].cpu() * (math.pi / 180)
        rows = ((turn.cos(), -turn.sin() * height / width, zero), (turn.sin() * width / height, turn.cos(), zero))
    elif change.kind == "scale":
        rows = ((1 / (1 + t[:, 0].cpu()), zero, zero), (zero, 1 / (1 + t[:, 0].cpu()), zero))
    else:
        rows = ((one, zero, -2 * t[:, 0].cpu() / width), (zero, one, -2 * t[:, 1].cpu() / height))
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            matrix[:, i, j] = value
    grid = F.affine_grid(matrix.to(x), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
