"""A network as a short program on flat vectors: what the fast bounds run.

Values that are only reshaped share one number, a bias that is added to a matrix
product joins it, and every linear step knows how many numbers it sums forward
and backward, which is what its rounding depends on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from radii.certificates.bounds.linear_maps import Convolution, Dense, Gather, LinearMap, Scale, TransposedConvolution
from radii.certificates.bounds.network import Network
from radii.certificates.bounds.relaxations import Affine, Nonlinear, Relu, Sum

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Linear:
    """W x + bias on flat vectors. ``weight`` is the matrix of a dense layer; others use ``linear`` on their shapes."""

    inputs: tuple[int]
    linear: LinearMap
    bias: Tensor | None  # [out]
    bias_size: Tensor | None  # [out], what the rounding of the bias is relative to
    in_shape: Shape
    out_shape: Shape
    terms: int  # products summed forward
    back_terms: int  # products summed backward

    def apply(self, x: Tensor) -> Tensor:
        """W x + bias for rows [n, in]."""
        y = self.linear.apply(x.unflatten(1, self.in_shape)).flatten(1)
        return y if self.bias is None else y + self.bias

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x."""
        return self.linear.absolute(x.unflatten(1, self.in_shape)).flatten(1)

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows [m, out]."""
        return self.linear.transpose(rows.unflatten(1, self.out_shape)).flatten(1)


@dataclass(frozen=True)
class Plus:
    """a + b or a - b."""

    inputs: tuple[int, int]
    sign: float


@dataclass(frozen=True)
class Bend:
    """A layer that is not linear, with the shape of its input."""

    inputs: tuple[int]
    layer: Nonlinear
    in_shape: Shape

    @property
    def relu(self) -> Relu | None:
        """The layer, if it is a ReLU or leaky ReLU."""
        return self.layer if isinstance(self.layer, Relu) else None


Step = Linear | Plus | Bend


@dataclass(frozen=True)
class Program:
    """Steps by the number of the value they compute; value 0 is the input."""

    steps: dict[int, Step]
    sizes: dict[int, int]
    input_shape: Shape
    output: int
    dtype: torch.dtype

    def bent(self) -> dict[int, list[int]]:
        """Values that layers which are not linear read, with these readers."""
        read: dict[int, list[int]] = {}
        for number, step in self.steps.items():
            if isinstance(step, Bend):
                read.setdefault(step.inputs[0], []).append(number)
        return read

    def beyond_bends(self) -> set[int]:
        """Values behind a layer that is not linear."""
        behind: set[int] = set()
        for number, step in self.steps.items():
            if isinstance(step, Bend) or behind & set(step.inputs):
                behind.add(number)
        return behind

    def plain_relus(self) -> set[int]:
        """ReLUs whose input only they read and a linear layer makes."""
        readers: dict[int, int] = {}
        for step in self.steps.values():
            for source in step.inputs:
                readers[source] = readers.get(source, 0) + 1
        return {
            number
            for number, step in self.steps.items()
            if isinstance(step, Bend)
            and step.relu is not None
            and readers[step.inputs[0]] == 1
            and isinstance(self.steps.get(step.inputs[0]), Linear)
        }


def compiled(network: Network, dtype: torch.dtype) -> Program:
    """The program of ``network``, whose weights have type ``dtype``."""
    shapes = _shapes(network, dtype)
    alias, steps = {0: 0}, dict[int, Step]()
    readers = network.readers()
    for number, layer in network.layers.items():
        sources = tuple(alias[source] for source in layer.inputs)
        alias[number] = number
        if isinstance(layer, Affine):
            step = _linear(layer, sources[0], shapes[layer.inputs[0]], shapes[number], dtype)
            if step is None:
                alias[number] = sources[0]
                continue
            before = steps.get(sources[0])
            if _joins(step, before) and len(readers[layer.inputs[0]]) == 1:
                assert isinstance(before, Linear)
                step = replace(before, bias=step.bias, bias_size=step.bias_size)
                steps.pop(sources[0])
            steps[number] = step
        elif isinstance(layer, Sum):
            steps[number] = Plus((sources[0], sources[1]), layer.sign)
        else:
            steps[number] = Bend((sources[0],), layer, shapes[layer.inputs[0]])
    sizes = {number: prod(shapes[number]) for number in (0, *steps)}
    return Program(steps, sizes, network.input_shape, alias[network.output], dtype)


def _shapes(network: Network, dtype: torch.dtype) -> dict[int, Shape]:
    """The shape of every value, by running the network on zeros."""
    values = {0: torch.zeros(1, *network.input_shape, dtype=dtype)}
    for number, layer in network.layers.items():
        inputs = [values[source] for source in layer.inputs]
        if isinstance(layer, Affine):
            values[number] = layer.linear.apply(inputs[0]) + (0.0 if layer.bias is None else layer.bias)
        elif isinstance(layer, Sum):
            values[number] = inputs[0] + layer.sign * inputs[1]
        else:
            values[number] = layer.interval(inputs[0], inputs[0])[0]
    return {number: tuple(value.shape[1:]) for number, value in values.items()}


def _linear(layer: Affine, source: int, before: Shape, after: Shape, dtype: torch.dtype) -> Linear | None:
    """The step, or None for a value that is only reshaped."""
    linear = layer.linear
    if isinstance(linear, Gather) and linear.count == 0 and layer.bias is None and prod(before) == prod(after):
        places = torch.arange(prod(before), dtype=torch.float64).view(1, *before)
        if torch.equal(linear.apply(places).flatten(), places.flatten()):
            return None
    bias = None if layer.bias is None else layer.bias.to(dtype).expand(after).flatten()
    size = None
    if bias is not None:
        size = bias.abs() if layer.bias_size is None else layer.bias_size.to(dtype).expand(after).flatten()
    return Linear((source,), linear, bias, size, before, after, linear.terms, _back_terms(linear, after))


def _back_terms(linear: LinearMap, after: Shape) -> int:
    if isinstance(linear, Dense):
        return linear.weight.shape[0]
    if isinstance(linear, Convolution):
        window = zip(linear.weight.shape[2:], linear.stride, after[1:], strict=True)
        return linear.weight.shape[0] // linear.groups * prod(min(-(-size // step), out) for size, step, out in window)
    if isinstance(linear, TransposedConvolution):
        return linear.forward.terms
    if isinstance(linear, Scale):
        return 1
    if isinstance(linear, Gather) and linear.count == 0:  # how many outputs copy one input
        return int(linear.transpose(torch.ones(1, *after)).max())
    return prod(after)


def _joins(step: Linear, before: Step | None) -> bool:
    """Whether ``step`` only adds a bias to a product that has none."""
    return (
        isinstance(step.linear, Scale)
        and step.bias is not None
        and bool((step.linear.factor == 1).all())
        and isinstance(before, Linear)
        and isinstance(before.linear, Dense | Convolution)
        and before.bias is None
    )
