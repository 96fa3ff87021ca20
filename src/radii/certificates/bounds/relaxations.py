"""The layers that can be bounded: what each makes of an interval, and the lines it lies between.

A layer that is not linear offers ``lines``: for coefficients A of its output
[n, s, …] and its input's bounds, coefficients of its input and a constant with
A . f(x) >= back . x + constant for every x within the bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.certificates.bounds.linear_maps import LinearMap

UP = 1 + 2.0**-40  # upper lines are raised by more than their slopes' and intercepts' rounding in float64
SLACK = 2.0**-18  # of sigmoid and tanh: their error in float32, and the rounding of their lines
Interval = tuple[Tensor, Tensor]
Lines = tuple[Tensor | None, Tensor]


@dataclass(frozen=True)
class Affine:
    """W x + bias. ``bias_size`` bounds the parts of the bias where it is a difference (batch norm)."""

    layer: str
    inputs: tuple[int]
    linear: LinearMap
    bias: Tensor | None  # broadcast over the batch
    bias_size: Tensor | None = None

    @property
    def magnitude(self) -> Tensor | float:
        """What the rounding of the bias is relative to."""
        if self.bias_size is not None:
            return self.bias_size
        return 0.0 if self.bias is None else self.bias.abs()


@dataclass(frozen=True)
class Sum:
    """a + b, or a - b with ``sign`` -1."""

    layer: str
    inputs: tuple[int, int]
    sign: float


@dataclass(frozen=True)
class Relu:
    """max(x, slope * x): ReLU, or leaky ReLU with 0 < slope <= 1."""

    layer: str
    inputs: tuple[int]
    slope: float = 0.0

    def interval(self, lower: Tensor, upper: Tensor) -> Interval:
        """Monotone: the ends' values."""
        return F.leaky_relu(lower, self.slope), F.leaky_relu(upper, self.slope)

    def lines(self, A: Tensor, lower: Tensor, upper: Tensor, under: Tensor | None = None) -> Lines:
        """Above: the chord. Below: any line through 0 with a slope ``under`` between the two pieces' slopes.

        By default the steeper piece where the interval reaches further up than
        down (Zhang et al. 2018, CROWN's adaptive choice).
        """
        width = (upper - lower).clamp_min(torch.finfo(lower.dtype).tiny)
        chord = (upper - self.slope * lower) / width * UP
        active, inactive = lower >= 0, upper <= 0
        unstable = ~(active | inactive)
        over = torch.where(active, 1.0, torch.where(inactive, self.slope, chord))
        lift = torch.where(unstable, (self.slope - chord) * lower * UP, 0.0)
        if under is None:
            under = torch.where(upper > -lower, 1.0, self.slope)
        under = torch.where(active, 1.0, torch.where(inactive, self.slope, under))
        positive, negative = A.clamp_min(0), A.clamp_max(0)
        back = positive * under[:, None] + negative * over[:, None]
        return back, (negative * lift[:, None]).flatten(2).sum(2)

    def equal_slopes(self, lower: Tensor, upper: Tensor) -> Tensor:
        """The chord's slope, also below: the convex outer polytope's dual (Wong & Kolter 2018)."""
        width = (upper - lower).clamp_min(torch.finfo(lower.dtype).tiny)
        return ((upper - self.slope * lower) / width).clamp(self.slope, 1.0)


@dataclass(frozen=True)
class Monotone:
    """A rising function of each coordinate that rounds nothing: steps, rounding to levels, clamping."""

    layer: str
    inputs: tuple[int]
    low: Callable[[Tensor], Tensor]  # at most the function
    high: Callable[[Tensor], Tensor]  # at least the function

    def interval(self, lower: Tensor, upper: Tensor) -> Interval:
        """The ends' values."""
        return self.low(lower), self.high(upper)

    def lines(self, A: Tensor, lower: Tensor, upper: Tensor) -> Lines:
        """Constants: the least and the greatest value."""
        low, high = self.interval(lower, upper)
        return None, (A.clamp_min(0) * low[:, None] + A.clamp_max(0) * high[:, None]).flatten(2).sum(2)


@dataclass(frozen=True)
class Sigmoidal:
    """Sigmoid or tanh. Assumption: float32 computes it to 2^-20.

    Its derivative is least at an end of any interval. With that least slope k, f(x) - k x rises, so
    f(l) + k (x - l) <= f(x) <= f(u) + k (x - u).
    """

    layer: str
    inputs: tuple[int]
    tanh: bool

    def _at(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Value and derivative."""
        y = torch.tanh(x) if self.tanh else torch.sigmoid(x)
        return y, (1 - y) * (1 + y) if self.tanh else y * (1 - y)

    def interval(self, lower: Tensor, upper: Tensor) -> Interval:
        """Rising: the ends' values, widened by what float32 may lose."""
        return self._at(lower)[0] - SLACK, self._at(upper)[0] + SLACK

    def lines(self, A: Tensor, lower: Tensor, upper: Tensor) -> Lines:
        """Two parallel lines through the ends."""
        (low, rise), (high, fall) = self._at(lower), self._at(upper)
        slope = torch.minimum(rise, fall) * (1 - SLACK)
        below, above = low - slope * lower - 4 * SLACK, high - slope * upper + 4 * SLACK
        constant = A.clamp_min(0) * below[:, None] + A.clamp_max(0) * above[:, None]
        return A * slope[:, None], constant.flatten(2).sum(2)


@dataclass(frozen=True)
class MaxPool:
    """The largest value of each window."""

    layer: str
    inputs: tuple[int]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil: bool

    def _pool(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return F.max_pool2d_with_indices(x, self.kernel, self.stride, self.padding, self.dilation, self.ceil)

    def interval(self, lower: Tensor, upper: Tensor) -> Interval:
        """Monotone: the ends' values."""
        return self._pool(lower)[0], self._pool(upper)[0]

    def members(self, height: int, width: int) -> Tensor:
        """The places that each window takes the largest of, -1 outside the image: [windows, kernel]."""
        places = torch.arange(1.0, height * width + 1).view(1, 1, height, width)
        windows = self._pool(places)[0].shape[2:]
        reach = [
            (count - 1) * stride + dilation * (kernel - 1) + 1
            for count, stride, dilation, kernel in zip(windows, self.stride, self.dilation, self.kernel, strict=True)
        ]
        (top, left), (down, right) = (
            self.padding,
            (max(0, end - size - pad) for end, size, pad in zip(reach, (height, width), self.padding, strict=True)),
        )
        padded = F.pad(places, (left, right, top, down))[:, :, : reach[0], : reach[1]]
        return F.unfold(padded, self.kernel, self.dilation, 0, self.stride)[0].T.long() - 1

    def lines(self, A: Tensor, lower: Tensor, upper: Tensor) -> Lines:
        """Below: the member with the largest lower bound. Above: it too if no other reaches it, else a constant."""
        _, place = self._pool(lower)
        highest = self._pool(upper)[0]
        floor = lower.flatten(2).gather(2, place.flatten(2)).view_as(highest)
        members = self.members(*lower.shape[2:]).to(place.device)
        rival = (members >= 0) & (members != place.flatten(2)[..., None])  # [n, channels, windows, kernel]
        reached = upper.flatten(2)[:, :, members.clamp_min(0)].masked_fill(~rival, -torch.inf).amax(3)
        decided = reached.view_as(highest) <= floor
        positive, negative = A.clamp_min(0), A.clamp_max(0)
        taken = positive + negative * decided[:, None]
        back = A.new_zeros(*A.shape[:3], lower[0, 0].numel())
        index = place.flatten(2)[:, None].expand(*A.shape[:3], -1)
        back = back.scatter_add(3, index, taken.flatten(3)).unflatten(3, lower.shape[2:])
        constant = negative * torch.where(decided, 0.0, highest)[:, None]
        return back, constant.flatten(2).sum(2)


Nonlinear = Relu | Monotone | Sigmoidal | MaxPool
Layer = Affine | Sum | Nonlinear
