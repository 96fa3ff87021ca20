"""Curves of one coordinate: GELU, SiLU, ELU, clamps, exponentials, powers, each between two lines of any interval.

Let M bound the second derivative of f between its kinks. Between neighbors of a grid of step h, kinks among its points,
f lies within M h^2 / 8 of the chord. So the least and the greatest f(x) - k x over an interval are those over the grid,
less and plus M h^2 / 8: that gives a lower and an upper line for any slope k. Of the slopes at the ends, in the middle
and of the chord the best in the middle is taken. Convex curves have their chord above and their tangent below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.networks.operations.activations import Activation, Bands
from radii.networks.operations.operation import Interval, OnnxGraph

GRID = 32  # steps
MOST = 3e38  # stands for infinity: a proof never needs a value of this size
LINES = 2.0**-22  # relative rounding of slopes and offsets in float32
Arguments = tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """A function f of a coordinate and of arguments.

    ``error`` (absolute, relative) bounds what float32 computes wrong. ``curvature`` bounds the second derivative on an
    interval, away from ``kinks``. ``domain`` is where f is finite and continuous.
    """

    value: Callable[..., Tensor]
    curvature: Callable[[Tensor, Tensor, Arguments], Tensor | float]
    kinks: Callable[[Arguments], Arguments] = lambda _: ()
    rising: bool = False
    convex: bool = False
    error: tuple[float, float] = (2.0**-20, 2.0**-20)
    domain: tuple[float, float] = (-inf, inf)


def _always(bound: float) -> Callable[[Tensor, Tensor, Arguments], float]:
    return lambda _low, _high, _arguments: bound


def _power_curvature(low: Tensor, high: Tensor, arguments: Arguments) -> Tensor:
    n = arguments[0]
    return abs(n * (n - 1)) * torch.maximum(low.abs(), high.abs()) ** max(0.0, n - 2)


TINY = 2.0**-125  # below it float32 may round to 0
STATED = (0.0, 2.0**-23)  # exact, but for ends that are rounded to float32 where the network keeps float64
CANCELLED = (2.0**-18, 2.0**-20)  # 1 + erf(x) near -1, times x
ROUNDED = (TINY, 2.0**-21)
FUSED = (TINY, 2.0**-15)  # one operation of torch or onnxruntime: differences up to 87 are rounded before exp, say
SIGNED = ("exp", "reciprocal", "share", "rsqrt", "inverse_deviation", "square")  # their errors are relative
CURVES: dict[str, Curve] = {
    "clamp": Curve(lambda x, low, high: x.clamp(low, high), _always(0.0), lambda a: a, True, error=STATED),
    "gelu": Curve(lambda x: F.gelu(x), _always(0.7979), error=CANCELLED),
    "gelu_tanh": Curve(lambda x: F.gelu(x, approximate="tanh"), _always(0.82), error=CANCELLED),
    "silu": Curve(F.silu, _always(0.5001)),
    "mish": Curve(F.mish, _always(0.66), error=CANCELLED),
    "softplus": Curve(lambda x, beta: F.softplus(x, beta), lambda _l, _h, a: a[0] / 4, rising=True, convex=True),
    "elu": Curve(
        lambda x, alpha, scale, inner: scale * torch.where(x > 0, x, alpha * torch.expm1(inner * x.clamp_max(0))),
        lambda _l, _h, a: abs(a[0] * a[1]) * a[2] ** 2,
        lambda _: (0.0,),
        True,
    ),
    "hardswish": Curve(F.hardswish, _always(0.3334), lambda _: (-3.0, 3.0)),
    "hardsigmoid": Curve(F.hardsigmoid, _always(0.0), lambda _: (-3.0, 3.0), True),
    "erf": Curve(torch.erf, _always(0.968), rising=True),
    "sin": Curve(torch.sin, _always(1.0), domain=(-1e4, 1e4)),
    "cos": Curve(torch.cos, _always(1.0), domain=(-1e4, 1e4)),
    "exp": Curve(torch.exp, lambda _l, h, _a: h.exp(), rising=True, convex=True, error=ROUNDED, domain=(-inf, 87.0)),
    "square": Curve(torch.square, _always(2.0), convex=True, error=ROUNDED),
    "pow": Curve(torch.pow, _power_curvature, error=ROUNDED),
    "sqrt": Curve(torch.sqrt, lambda lo, _h, _a: 0.25 * lo**-1.5, rising=True, error=ROUNDED, domain=(2.0**-100, inf)),
    "reciprocal": Curve(
        torch.reciprocal, lambda lo, _h, _a: 2 * lo**-3, convex=True, error=ROUNDED, domain=(2.0**-60, inf)
    ),
    "rsqrt": Curve(torch.rsqrt, lambda lo, _h, _a: 0.75 * lo**-2.5, convex=True, error=ROUNDED, domain=(2.0**-60, inf)),
    "share": Curve(torch.reciprocal, lambda lo, _h, _a: 2 * lo**-3, convex=True, error=FUSED, domain=(2.0**-60, inf)),
    "inverse_deviation": Curve(
        torch.rsqrt, lambda lo, _h, _a: 0.75 * lo**-2.5, convex=True, error=FUSED, domain=(2.0**-60, inf)
    ),
    "log": Curve(torch.log, lambda lo, _h, _a: lo**-2, rising=True, domain=(2.0**-100, inf)),
}


@dataclass(frozen=True)
class Curved(Activation):
    """f(x) in each coordinate, f the curve called ``function``."""

    function: str
    arguments: Arguments = ()

    @property
    def _curve(self) -> Curve:
        return CURVES[self.function]

    def value(self, *inputs: Tensor) -> Tensor:
        """f(x)."""
        return self._curve.value(inputs[0], *self.arguments)

    def interval(self, *ends: Interval) -> Interval:
        """The ends' values where f rises, else those of a grid, widened by its curvature and float32's error."""
        low, high, known = self._inside(*ends[0])
        if self._curve.rising:
            least, most = self._exact(low), self._exact(high)
        else:
            grid, rest = self._grid(low, high)
            values = self._exact(grid)
            least, most = values.amin(0) - rest, values.amax(0) + rest
            if self.function == "square":
                least = least.clamp_min(0)
        error = self._error(torch.maximum(least.abs(), most.abs()))
        if self.function in SIGNED:
            relative = 2 * self._curve.error[1]
            least, most = least - least.abs() * relative - TINY, most + most.abs() * relative + TINY
        else:
            least, most = least - error, most + error
        least, most = torch.where(known, least, -MOST), torch.where(known, most, MOST)
        return least.to(ends[0][0].dtype), most.to(ends[0][0].dtype)

    def bands(self, lower: Tensor, upper: Tensor) -> Bands:
        """The best of several slopes below and above, in float64."""
        low, high, known = self._inside(lower, upper)
        middle = (low + high) / 2
        candidates = self._slopes(low, middle, high)
        grid, rest = self._grid(low, high)
        values = self._exact(grid)
        below, above = [], []
        for slope in candidates:
            away = values - slope * grid
            below.append((slope, away.amin(0) - rest))
            above.append((slope, away.amax(0) + rest))
        if self._curve.convex:
            below, above = self._convex(low, middle, high, candidates)
        under, down = _best(below, middle, True)
        over, up = _best(above, middle, False)
        size = torch.maximum(low.abs(), high.abs())
        error = self._error(values.abs().amax(0))
        down = down - error - LINES * (under.abs() * size + down.abs())
        up = up + error + LINES * (over.abs() * size + up.abs())
        bands = (
            torch.where(known, under, 0.0),
            torch.where(known, down, -MOST),
            torch.where(known, over, 0.0),
            torch.where(known, up, MOST),
        )
        first, second, third, fourth = (band.to(lower.dtype) for band in bands)
        return first, second, third, fourth

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """The operator of the curve's name, or what stands in :data:`ONNX`."""
        x, numbers = inputs[0], [graph.constant(torch.tensor(float(value))) for value in self.arguments]
        written = ONNX.get(self.function, self.function.capitalize())
        return graph.node(written, x) if isinstance(written, str) else written(graph, x, *numbers)

    def _exact(self, x: Tensor) -> Tensor:
        return self._curve.value(x, *self.arguments)

    def _error(self, size: Tensor) -> Tensor:
        absolute, relative = self._curve.error
        return absolute + relative * size

    def _inside(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The ends in float64, and whether f is finite between them; where it is not, ends at which it is."""
        low, high = lower.double(), upper.double()
        first, last = self._curve.domain
        known = (low >= first) & (high <= last) & (low <= high) & (high - low < 1e9)
        inside = min(max(1.0, first), last)
        return torch.where(known, low, inside), torch.where(known, high, inside), known

    def _grid(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Points [count, …] from ``low`` to ``high`` with all kinks, and how far f is from the chords between them."""
        share = torch.linspace(0, 1, GRID + 1, dtype=low.dtype).view(-1, *[1] * low.dim())
        points = low + (high - low) * share
        points[-1] = high
        kinks = [torch.minimum(torch.maximum(torch.full_like(low, kink), low), high) for kink in self._kinks]
        curvature = torch.as_tensor(self._curve.curvature(low, high, self.arguments), dtype=low.dtype)
        rest = curvature * ((high - low) / GRID) ** 2 / 8 * (1 + 2.0**-20)
        return torch.cat([points, torch.stack(kinks)]) if kinks else points, rest

    @property
    def _kinks(self) -> Arguments:
        return self._curve.kinks(self.arguments)

    def _slopes(self, low: Tensor, middle: Tensor, high: Tensor) -> list[Tensor]:
        """The chord's slope and the derivatives in the middle and at both ends."""
        with torch.enable_grad():
            points = torch.stack([middle, low, high]).detach().requires_grad_()
            derivatives = torch.autograd.grad(self._exact(points).sum(), points)[0]
        width = high - low
        chord = (self._exact(high) - self._exact(low)) / width.clamp_min(1e-12)
        return [torch.where(width > 1e-9, chord, derivatives[0]), *derivatives]

    def _convex(
        self, low: Tensor, middle: Tensor, high: Tensor, slopes: list[Tensor]
    ) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        """Tangents below and the chord above."""
        points = (middle, low, high)
        below = [(k, self._exact(x) - k * x) for k, x in zip(slopes[1:], points, strict=True)]
        chord = slopes[0]
        return below, [(chord, torch.maximum(self._exact(low) - chord * low, self._exact(high) - chord * high))]


def _onnx_elu(graph: OnnxGraph, x: str, alpha: str, scale: str, inner: str) -> str:
    """scale (max(x, 0) + alpha (exp(inner min(x, 0)) - 1)); Elu computes exp - 1 without cancellation."""
    below = graph.node("Elu", graph.node("Mul", graph.node("Min", x, graph.constant(torch.tensor(0.0))), inner))
    return graph.node("Mul", graph.node("Add", graph.node("Relu", x), graph.node("Mul", below, alpha)), scale)


def _onnx_inverse_root(graph: OnnxGraph, x: str) -> str:
    return graph.node("Reciprocal", graph.node("Sqrt", x))


ONNX: dict[str, str | Callable[..., str]] = {
    "clamp": lambda graph, x, low, high: graph.node("Clip", x, low, high),
    "gelu_tanh": lambda graph, x: graph.node("Gelu", x, approximate="tanh"),
    "silu": lambda graph, x: graph.node("Mul", x, graph.node("Sigmoid", x)),
    "softplus": lambda graph, x, beta: graph.node("Div", graph.node("Softplus", graph.node("Mul", x, beta)), beta),
    "elu": _onnx_elu,
    "hardswish": "HardSwish",
    "hardsigmoid": lambda graph, x: graph.node("HardSigmoid", x, alpha=1 / 6, beta=0.5),
    "square": lambda graph, x: graph.node("Mul", x, x),
    "pow": lambda graph, x, exponent: graph.node("Pow", x, exponent),
    "rsqrt": _onnx_inverse_root,
    "inverse_deviation": _onnx_inverse_root,
    "share": "Reciprocal",
}


def _best(lines: list[tuple[Tensor, Tensor]], at: Tensor, highest: bool) -> tuple[Tensor, Tensor]:
    """The line (slope, offset) that is highest, or lowest, at the point ``at``."""
    slope, offset = lines[0]
    for other, shift in lines[1:]:
        gain = other * at + shift - slope * at - offset
        better = gain > 0 if highest else gain < 0
        slope, offset = torch.where(better, other, slope), torch.where(better, shift, offset)
    return slope, offset
