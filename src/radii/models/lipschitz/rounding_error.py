"""Bounds of the float32 rounding error of a network's logits: over a whole box, or around one input.

A float32 sum of n products is off by at most 1.01 n 2^-24 times the sum of
their sizes, in any order (n < 160,000; Higham 2002, Sec. 3.1). Each layer
multiplies the error of its input by its Lipschitz constant and adds its own.
Algorithms that rearrange products, such as Winograd's, are not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.models.layers.plain_layers import BlockedLinear, BlockedPointwise
from radii.models.lipschitz.layer_bounds import LayerBound
from radii.models.lipschitz.network_bound import LipschitzBound
from radii.models.lipschitz.operators import UNIT32
from radii.threat import Box, length

MOST_TERMS = 160_000
LARGEST = 3.4e38  # below the largest float32
SMALLEST = 2.0**-125  # products below it lose bits
_CONVOLUTIONS = (nn.Conv2d, BlockedPointwise)
UP = 1 + 1e-9  # covers the float64 rounding of these bounds themselves


@torch.no_grad()
def float32_error(network: nn.Sequential, bound: LipschitzBound, box: Box = (0.0, 1.0)) -> float:
    """A bound on the L2 error of logits that float32 computes from any input in ``box``.

    The largest input of a layer is |h(x)| <= |h(c)| + L |x - c|, with c the middle of the box.

    Args:
        network: the folded float64 network of ``bound``.
    """
    low, high = box
    center = torch.full((1, *bound.input_shape), (low + high) / 2, dtype=torch.float64)
    error = Float32Error.around(network, bound.layers, center)
    reach = (high - low) / 2 * sqrt(prod(bound.input_shape)) * UP
    return inf if reach > float(error.most) else float(error.fixed + error.slope * reach) * UP


@dataclass(frozen=True)
class Float32Error:
    """Around each input, |float32 value - exact value| <= fixed + slope r in L2, within distance r <= most.

    Beyond ``most`` a sum may exceed the largest float32.
    """

    fixed: Tensor  # [n]
    slope: float
    most: Tensor  # [n]

    @classmethod
    def around(cls, network: nn.Sequential, layers: Sequence[LayerBound], x: Tensor) -> Float32Error:
        """The error of the network's values around float64 inputs ``x`` [n, …], layer after layer.

        The size of a layer's sums is computed for each input, |W| |h(x)| coordinate by coordinate, which
        is less than the norm of |W| times |h(x)|; only the change within the ball is bounded by norms.
        """
        value, error = x, cls.none(x)
        grown = 1.0
        for module, layer in zip(network, layers, strict=True):
            error, grown = error.through(module, layer, value, grown)
            value = module(value)
        return error

    @classmethod
    def none(cls, x: Tensor) -> Float32Error:
        """No error: inputs are float32."""
        return cls(x.new_zeros(len(x)), 0.0, x.new_full((len(x),), LARGEST))

    def through(self, module: nn.Module, layer: LayerBound, value: Tensor, grown: float) -> tuple[Float32Error, float]:
        """The error behind ``module``, and how fast its output moves with the network's input, at most.

        Args:
            module: a layer of the folded float64 network.
            value: its float64 inputs, [n, …].
            grown: how fast these move with the network's input, at most.
        """
        size = _sums_size(module, layer, value) if layer.terms else value.new_zeros(len(value))
        return self.after(layer, size, grown, length(value, "l2") * UP), grown * layer.value * UP

    def after(self, layer: LayerBound, size: Tensor, grown: float, inputs: Tensor) -> Float32Error:
        """The error behind ``layer``.

        Args:
            size: L2 norm of the sizes of its sums at the inputs, [n].
            grown: how fast the layer's input moves with the network's, at most.
            inputs: L2 norm of the layer's inputs, [n].
        """
        if not layer.terms:
            return Float32Error(self.fixed * layer.value * UP, self.slope * layer.value * UP, self.most)
        if layer.terms > MOST_TERMS:
            return Float32Error(torch.full_like(self.fixed, inf), inf, torch.zeros_like(self.most))
        unit = 1.01 * layer.terms * UNIT32
        sums, rate = size + layer.absolute * self.fixed, layer.absolute * (grown + self.slope)
        most = torch.minimum(self.most, _within(sums, rate))
        if layer.peak:
            peak = layer.peak * (inputs + self.fixed) + layer.peak_offset
            most = torch.minimum(most, _within(peak, layer.peak * (grown + self.slope)))
        fixed = layer.value * self.fixed + unit * sums + layer.terms * SMALLEST * 1e6
        return Float32Error(fixed * UP, (layer.value * self.slope + unit * rate) * UP, most)


def _within(size: Tensor, rate: float) -> Tensor:
    """How far an input may move until a value of this ``size`` [n] that grows at ``rate`` may exceed float32."""
    return ((LARGEST - size) / max(rate, 1e-300)).clamp_min(0) / UP


def _sums_size(module: nn.Module, layer: LayerBound, value: Tensor) -> Tensor:
    """The L2 norm of |W| |``value``| + |b| of ``module`` for each row, or a bound of it by ``layer``: [n]."""
    if type(module) in (nn.Linear, BlockedLinear):
        assert isinstance(module, nn.Linear)
        bias = None if module.bias is None else module.bias.abs()
        return length(F.linear(value.abs(), module.weight.abs(), bias), "l2") * UP
    if isinstance(module, nn.Conv2d) and type(module) in _CONVOLUTIONS and module.padding_mode == "zeros":
        around = None if module.bias is None else module.bias.abs()
        sizes = F.conv2d(
            value.abs(), module.weight.abs(), around, module.stride, module.padding, module.dilation, module.groups
        )
        return length(sizes, "l2") * UP
    return (layer.absolute * length(value, "l2") + layer.offset) * UP
