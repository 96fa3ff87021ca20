"""Functions of each coordinate: ReLUs, steps, sigmoid, tanh."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.networks.operations.operation import Interval, Lines, Nonlinear, OnnxGraph, Shape

UP = 1 + 2.0**-40  # upper lines are raised by more than their slopes' and intercepts' rounding in float64
SLACK = 2.0**-18  # of sigmoid and tanh: their error in float32, and the rounding of their lines


Bands = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Activation(Nonlinear):
    """A function of each coordinate of one value. A new one says its value, its interval and its bands."""

    shape: Shape

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """One value."""
        return (self.shape,)

    @property
    def out_shape(self) -> Shape:
        """That of its input."""
        return self.shape

    @abstractmethod
    def bands(self, lower: Tensor, upper: Tensor) -> Bands:
        """Slope and offset of a line below, then of a line above, between ``lower`` and ``upper`` [n, …]."""

    def lines(self, A: Tensor, ends: Sequence[Interval]) -> Lines:
        """The lower line where a coefficient is positive, the upper one elsewhere."""
        under, down, over, up = (band[:, None] for band in self.bands(*ends[0]))
        positive, negative = A.clamp_min(0), A.clamp_max(0)
        return (positive * under + negative * over,), (positive * down + negative * up).flatten(2).sum(2)


@dataclass(frozen=True)
class Relu(Activation):
    """max(x, slope * x): ReLU, or leaky ReLU with 0 < slope <= 1."""

    slope: float = 0.0

    def value(self, *inputs: Tensor) -> Tensor:
        """max(x, slope * x)."""
        return F.leaky_relu(inputs[0], self.slope) if self.slope else F.relu(inputs[0])

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """Relu or LeakyRelu."""
        return graph.node("LeakyRelu", inputs[0], alpha=self.slope) if self.slope else graph.node("Relu", inputs[0])

    def interval(self, *ends: Interval) -> Interval:
        """Rising: the ends' values."""
        (lower, upper) = ends[0]
        return F.leaky_relu(lower, self.slope), F.leaky_relu(upper, self.slope)

    def relaxation(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lower slope, upper slope and upper offset on [``lower``, ``upper``], rounded safely.

        Above: the chord. Below: a line through 0 with the slope of one piece, that of the steeper piece where the
        interval reaches further up than down (Zhang et al. 2018).
        """
        rounding = torch.finfo(lower.dtype)
        width = (upper - lower).clamp_min(rounding.tiny)
        chord = (upper - self.slope * lower) / width * (1 + 8 * rounding.eps)
        active, inactive = lower >= 0, upper <= 0
        upper_slope = torch.where(active, 1.0, torch.where(inactive, self.slope, chord))
        offset = (self.slope - chord) * lower * (1 + 8 * rounding.eps) + rounding.tiny
        lower_slope = torch.where(active | (~inactive & (upper > -lower)), torch.ones_like(lower), self.slope)
        return lower_slope, upper_slope, torch.where(active | inactive, 0.0, offset)

    def bands(self, lower: Tensor, upper: Tensor) -> Bands:
        """Its relaxation; the lower line goes through 0."""
        lower_slope, upper_slope, offset = self.relaxation(lower, upper)
        return lower_slope, torch.zeros_like(offset), upper_slope, offset


RISING: dict[str, Callable[..., Tensor]] = {
    "ge": torch.ge,
    "gt": torch.gt,
    "round": torch.round,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "sign": torch.sign,
}

ONNX_RISING = {
    "ge": "GreaterOrEqual",
    "gt": "Greater",
    "round": "Round",
    "floor": "Floor",
    "ceil": "Ceil",
    "sign": "Sign",
}


@dataclass(frozen=True)
class Rising(Activation):
    """A rising function that rounds nothing: a step, or rounding to levels. ``function`` names it."""

    function: str
    arguments: tuple[float | None, ...] = ()

    def value(self, *inputs: Tensor) -> Tensor:
        """The function with its ``arguments``."""
        return RISING[self.function](inputs[0], *self.arguments).to(inputs[0].dtype)

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """The operator of that name; a comparison is cast to numbers."""
        numbers = [graph.constant(torch.tensor(float(value or 0))) for value in self.arguments]
        y = graph.node(ONNX_RISING[self.function], inputs[0], *numbers)
        return graph.node("Cast", y, to=1) if self.function in ("ge", "gt") else y

    def interval(self, *ends: Interval) -> Interval:
        """The ends' values. A number may be used as it is (in float64) or rounded to float32: both are covered."""
        lower, upper = ends[0]
        variants = (self.arguments, tuple(map(single, self.arguments)))
        low, high = (
            [RISING[self.function](end, *numbers).to(end.dtype) for numbers in variants] for end in (lower, upper)
        )
        return torch.minimum(*low), torch.maximum(*high)

    def bands(self, lower: Tensor, upper: Tensor) -> Bands:
        """Constants: the least and the greatest value."""
        low, high = self.interval((lower, upper))
        return torch.zeros_like(low), low, torch.zeros_like(high), high


def single(value: Any) -> Any:
    """``value`` rounded to float32 if it is a number with a fraction."""
    return float(torch.tensor(value, dtype=torch.float32)) if isinstance(value, float) else value


@dataclass(frozen=True)
class Sigmoidal(Activation):
    """Sigmoid or tanh. Assumption: float32 computes it to 2^-20.

    Its derivative is least at an end of any interval. With that least slope k, f(x) - k x rises, so
    f(l) + k (x - l) <= f(x) <= f(u) + k (x - u).
    """

    tanh: bool

    def value(self, *inputs: Tensor) -> Tensor:
        """tanh(x), or 1 / (1 + exp(-x))."""
        return torch.tanh(inputs[0]) if self.tanh else torch.sigmoid(inputs[0])

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """Tanh or Sigmoid."""
        return graph.node("Tanh" if self.tanh else "Sigmoid", inputs[0])

    def _at(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Value and derivative."""
        y = self.value(x)
        return y, (1 - y) * (1 + y) if self.tanh else y * (1 - y)

    def interval(self, *ends: Interval) -> Interval:
        """Rising: the ends' values, widened by what float32 may lose."""
        lower, upper = ends[0]
        return self.value(lower) - SLACK, self.value(upper) + SLACK

    def bands(self, lower: Tensor, upper: Tensor) -> Bands:
        """Two parallel lines through the ends."""
        (low, rise), (high, fall) = self._at(lower), self._at(upper)
        slope = torch.minimum(rise, fall) * (1 - SLACK)
        return slope, low - slope * lower - 4 * SLACK, slope, high - slope * upper + 4 * SLACK
