"""Bounds of every value of a network over a ball: intervals forward, lines backward.

Forward is interval bound propagation (Gowal et al. 2018). Backward is CROWN
(Zhang et al. 2018): a row of coefficients is carried from a value to the input,
through linear layers exactly and through others between two lines each.

``rounding`` makes both sound for the float32 network as it runs, not only for
the real-valued one: every layer's float32 rounding, at most
gamma_n (|W| |x| + |b|) in any order of summation, with gamma_n = nu / (1 - nu)
and u = 2^-24, is added to its interval and taken off its lines. If the bounds
are computed in float64, the factor 1.001 covers their own rounding, which is
2^-29 of it. Intervals may be computed in float32 as well: center and spread of
a layer are then off by another gamma_n (|W| |x| + |b|), since the middle and
the half-width of an interval add up to its size, and half a dozen roundings
follow, so twice gamma_{n+8} is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from radii.certificates.bounds.linear_maps import LinearMap, Scale, folded_transpose
from radii.certificates.bounds.network import Network
from radii.certificates.bounds.relaxations import Affine, Layer, Relu, Sum

UNIT = 2.0**-24
Slopes = dict[int, Tensor]


@dataclass(frozen=True)
class Region:
    """Inputs between ``lower`` and ``upper`` and, if ``radius`` is given, within that L2 distance of ``center``."""

    center: Tensor
    lower: Tensor
    upper: Tensor
    radius: float | None = None


@dataclass(frozen=True)
class Bounds:
    """Bounds of one value [n, …], the float32 rounding of its layer, and how the L2 ball reaches it.

    ``ball`` (center, spread, slack): the value is within slack of center +
    spread * z with |z| <= the ball's radius, as long as only diagonal layers
    came before. ``size`` bounds the sum of the sizes of the summands of each
    coordinate, and so every partial sum.
    """

    lower: Tensor
    upper: Tensor
    error: Tensor | None = None
    ball: tuple[Tensor, Tensor, Tensor] | None = None
    size: Tensor | None = None

    def meet(self, lower: Tensor, upper: Tensor) -> Bounds:
        """The same value between other bounds as well."""
        low, high = torch.maximum(self.lower, lower), torch.minimum(self.upper, upper)
        return Bounds(low, high, self.error, self.ball, self.size)

    def sound_rows(self) -> Tensor:
        """The rows for which these bounds prove something: not empty, not NaN, nothing beyond float32: [n] bool.

        Where a sum may exceed the largest float32, the network may compute infinity or NaN.
        """
        largest = torch.finfo(torch.float32).max * (1 - 2.0**-10)
        sound = (self.lower <= self.upper) & (self.lower >= -largest) & (self.upper <= largest)
        if self.size is not None:
            sound = sound & (self.size <= largest)
        return sound.flatten(1).all(1)


def gamma(terms: int, dtype: torch.dtype) -> float:
    """The relative error of a float32 sum of ``terms`` products, in any order, and of bounding it in ``dtype``.

    0 where values are only moved. In float32 the size was itself summed with that error, hence 1 - gamma.
    """
    if terms == 0:
        return 0.0
    count = (terms + (2 if dtype == torch.float64 else 8)) * UNIT
    error = count / (1 - count)
    return 1.001 * (error if dtype == torch.float64 else 2 * error / (1 - error))


def of_input(region: Region) -> Bounds:
    """Bounds of the input, which lies in ``region``."""
    zero = torch.zeros_like(region.center)
    ball = None if region.radius is None else (region.center, zero + 1, zero)
    return Bounds(region.lower, region.upper, None, ball)


def step(layer: Layer, before: list[Bounds], region: Region, rounding: bool) -> Bounds:
    """Interval bounds of the value of ``layer`` over ``region``, from the bounds of the values it reads, ``before``.

    ``rounding``: whether they cover the float32 rounding of the layer.
    """
    if isinstance(layer, Affine):
        return _affine(layer, before[0], region, rounding)
    if isinstance(layer, Sum):
        first, second = before
        low, high = (second.lower, second.upper) if layer.sign > 0 else (-second.upper, -second.lower)
        lower, upper = first.lower + low, first.upper + high
        size = _size(first) + _size(second) if rounding else None
        return _widened(lower, upper, size, 1)
    return Bounds(*layer.interval(before[0].lower, before[0].upper))


def _affine(layer: Affine, before: Bounds, region: Region, rounding: bool) -> Bounds:
    linear, bias = layer.linear, 0.0 if layer.bias is None else layer.bias
    middle, reach = (before.lower + before.upper) / 2, (before.upper - before.lower) / 2
    center, spread = linear.apply(middle) + bias, linear.absolute(reach)
    size = linear.absolute(_size(before)) + layer.magnitude if rounding and linear.terms else None
    bounds = _widened(center - spread, center + spread, size, linear.terms)
    if before.ball is None or region.radius is None:
        return bounds
    return _within_ball(bounds, linear, bias, before.ball, region.radius)


def _within_ball(
    bounds: Bounds, linear: LinearMap, bias: Tensor | float, ball: tuple[Tensor, Tensor, Tensor], radius: float
) -> Bounds:
    """|w . (spread * z)| <= radius * |w * spread|: rows of a convolution or matrix over an L2 ball."""
    squares = linear.squares(ball[1].square())
    if squares is None:
        return bounds
    center, spread = linear.apply(ball[0]) + bias, squares.sqrt() * (1 + 2.0**-40)
    slack = linear.absolute(ball[2]) + (0.0 if bounds.error is None else bounds.error)
    reach = radius * spread + slack
    tight = bounds.meet(center - reach, center + reach)
    diagonal = isinstance(linear, Scale) or linear.terms == 0
    return Bounds(tight.lower, tight.upper, tight.error, (center, spread, slack) if diagonal else None, tight.size)


def _widened(lower: Tensor, upper: Tensor, size: Tensor | None, terms: int) -> Bounds:
    if size is None:
        return Bounds(lower, upper)
    tiny = torch.finfo(torch.float32).tiny * 2 * (terms + 2)  # results below it lose bits
    error = gamma(terms, size.dtype) * size + tiny
    return Bounds(lower - error, upper + error, error, None, size)


def _size(bounds: Bounds) -> Tensor:
    return torch.maximum(bounds.lower.abs(), bounds.upper.abs())


def forward(network: Network, region: Region, rounding: bool = False) -> dict[int, Bounds]:
    """Interval bounds of every value of ``network`` over ``region`` (IBP); ``rounding`` covers float32."""
    bounds = {0: of_input(region)}
    for number, layer in network.layers.items():
        bounds[number] = step(layer, [bounds[source] for source in layer.inputs], region, rounding)
    return bounds


def backward(
    network: Network,
    bounds: dict[int, Bounds],
    region: Region,
    A: Tensor,
    number: int,
    *,
    deep: bool = True,
    slopes: Slopes | None = None,
) -> Tensor:
    """A lower bound of A . value for coefficients ``A`` [n, s, …] of value ``number``: [n, s].

    The rounding of these sums is covered in float64. In float32 it is covered only for ``deep=False`` and
    bounds that were computed with ``rounding=True``.

    Args:
        network: the layers.
        bounds: bounds of every value up to ``number``.
        region: the inputs, one region for each row.
        A: coefficients [n, s, …].
        number: the value that they multiply.
        deep: True (default): coefficients are carried to the input. False: only to the first layers that are not
            linear, whose intervals end the sum; this is IBP with the last linear layers merged.
        slopes: slopes of the lower lines of ReLUs, by the number of their value; default CROWN's.
    """
    pending = {number: A}
    total = size = A.new_zeros(A.shape[:2])
    single = A.dtype == torch.float32
    count, sized = 0, not single or bounds[number].error is not None
    for place in sorted(network.layers, reverse=True):
        if place not in pending:
            continue
        A = pending.pop(place)
        layer, value = network.layers[place], bounds[place]
        count += prod(A.shape[2:])
        if isinstance(layer, Affine | Sum):
            if value.error is not None:
                # In float32 the product A W is off by gamma_m |A| |W| as well, m the coefficients it sums.
                more = prod(A.shape[2:]) / max(1, layer.linear.terms) if single and isinstance(layer, Affine) else 0.0
                total = total - (1 + more) * _dot(A.abs(), value.error)
            if isinstance(layer, Affine) and layer.bias is not None:
                shift = (A * layer.bias).flatten(2)
                total = total + shift.sum(2)
                size = size + shift.abs().sum(2) if sized else size
            for source, back in _linear_back(layer, A):
                pending[source] = pending[source] + back if source in pending else back
            continue
        if not deep:
            total = total + _dot(A.clamp_min(0), value.lower) + _dot(A.clamp_max(0), value.upper)
            size = size + _dot(A.abs(), _size(value)) if sized else size
            continue
        source = layer.inputs[0]
        below = bounds[source]
        if isinstance(layer, Relu):
            through, constant = layer.lines(A, below.lower, below.upper, (slopes or {}).get(place))
        else:
            through, constant = layer.lines(A, below.lower, below.upper)
        total, size = total + constant, size + constant.abs()
        if through is not None:
            pending[source] = pending[source] + through if source in pending else through
    if 0 in pending:
        A = pending.pop(0)
        count += prod(A.shape[2:])
        total = total + _least(A, region)
        reach = torch.maximum(region.lower.abs(), region.upper.abs()) + (region.radius or 0.0)
        size = size + _dot(A.abs(), reach) if sized else size
    return total - size * (count + 100) * torch.finfo(total.dtype).eps if sized else total


def _linear_back(layer: Affine | Sum, A: Tensor) -> list[tuple[int, Tensor]]:
    if isinstance(layer, Affine):
        return [(layer.inputs[0], folded_transpose(layer.linear, A))]
    return [(layer.inputs[0], A), (layer.inputs[1], A * layer.sign)]


def _dot(A: Tensor, value: Tensor) -> Tensor:
    """Rows of coefficients [n, s, …] times values [n, …]: [n, s]."""
    return torch.einsum("nsd,nd->ns", A.flatten(2), value.flatten(1))


def _least(A: Tensor, region: Region) -> Tensor:
    """The least value of A . x over the input region: the better of the box and of the L2 ball."""
    inside = _dot(A.clamp_min(0), region.lower) + _dot(A.clamp_max(0), region.upper)
    if region.radius is not None:
        inside = torch.maximum(inside, _dot(A, region.center) - region.radius * A.flatten(2).norm(dim=2))
    return inside
