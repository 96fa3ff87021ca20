"""Operations that are linear in what they read: W x + bias, sums and differences, values side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from radii.networks.operations.linear_maps import Convolution, Dense, LinearMap, Move, Scale, TransposedConvolution
from radii.networks.operations.operation import OnnxGraph, Operation, Shape


@dataclass(frozen=True)
class Peak:
    """|x| factor + offset bounds what an operation computes on its way from an input x: the sum of an average, say.

    An operation whose peak may exceed the largest float32 proves nothing, however small its result is.
    """

    factor: Tensor | float  # broadcast over the input
    offset: Tensor | float = 0.0

    def of(self, size: Tensor) -> Tensor:
        """The peak of inputs of at most this ``size`` [n, …]."""
        return size * self.factor + self.offset


@dataclass(frozen=True)
class Linear(Operation):
    """W x + bias.

    Attributes:
        bias: [out], flat.
        bias_size: [out], what the rounding of the bias is relative to: larger than the bias where it is a
            difference, as in a batch norm.
        peak: given where more is computed on the way than |W| |x| + |bias|.
    """

    linear: LinearMap
    in_shape: Shape
    shape: Shape
    bias: Tensor | None = None
    bias_size: Tensor | None = None
    peak: Peak | None = None

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """One value."""
        return (self.in_shape,)

    @property
    def out_shape(self) -> Shape:
        """The result's."""
        return self.shape

    @property
    def terms(self) -> int:
        """Products that are summed forward; 0: values are only moved."""
        return self.linear.terms

    @property
    def back_terms(self) -> int:
        """Products that are summed by the transposed map."""
        return _back_terms(self.linear, self.shape)

    def value(self, *inputs: Tensor) -> Tensor:
        """W x + bias."""
        y = self.linear.apply(inputs[0])
        return y if self.bias is None else y + self.bias.view(self.shape)

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """The map, then Add."""
        y = self.linear.onnx(graph, inputs[0], self.in_shape, self.shape)
        return y if self.bias is None else graph.node("Add", y, graph.constant(self.bias))

    def apply(self, x: Tensor) -> Tensor:
        """W x + bias for rows [n, in]."""
        y = self.linear.apply(x.unflatten(1, self.in_shape)).flatten(1)
        return y if self.bias is None else y + self.bias

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x for rows [n, in]."""
        return self.linear.absolute(x.unflatten(1, self.in_shape)).flatten(1)

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows [m, out]."""
        return self.linear.transpose(rows.unflatten(1, self.shape)).flatten(1)

    def largest(self, size: Tensor) -> Tensor:
        """What is computed on the way beside the sums, at most, from inputs of these sizes [n, in]."""
        return size if self.peak is None else self.peak.of(size.unflatten(1, self.in_shape)).flatten(1)


@dataclass(frozen=True)
class Sum(Operation):
    """a + b, or a - b with ``sign`` -1."""

    shape: Shape
    sign: float

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """Two values of one shape."""
        return self.shape, self.shape

    @property
    def out_shape(self) -> Shape:
        """That of each part."""
        return self.shape

    def value(self, *inputs: Tensor) -> Tensor:
        """a ± b."""
        return inputs[0] + inputs[1] if self.sign > 0 else inputs[0] - inputs[1]

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """Add or Sub."""
        return graph.node("Add" if self.sign > 0 else "Sub", *inputs)


@dataclass(frozen=True)
class Join(Operation):
    """Flat values one behind the other; nothing is rounded."""

    shapes: tuple[Shape, ...]

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """Any number of values."""
        return self.shapes

    @property
    def out_shape(self) -> Shape:
        """One axis."""
        return (sum(self.sizes),)

    @property
    def sizes(self) -> list[int]:
        """How many numbers each part has."""
        return [prod(shape) for shape in self.shapes]

    def value(self, *inputs: Tensor) -> Tensor:
        """All parts in one row."""
        return torch.cat([x.flatten(1) for x in inputs], 1)

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """Concat."""
        return graph.node("Concat", *inputs, axis=1)

    def split(self, rows: Tensor) -> Sequence[Tensor]:
        """The columns of ``rows`` [m, out] that belong to each part."""
        return rows.split(self.sizes, 1)


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
    return linear.repeats if isinstance(linear, Move) else prod(after)


def batch_norm_peak(weight: Tensor, bias: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """What a batch norm computes on its way from an input x, in any order, is at most |x| factor + offset.

    Its results are ``weight`` (x - ``mean``) ``inverse`` + ``bias``, or x s + (bias - mean s) with s = weight inverse;
    inverse is 1 / std. A scale s below float32's normal numbers has lost bits, which inputs up to 2^27 do not show:
    larger ones are above any limit.
    """
    scale = (weight * inverse).abs()
    factor = torch.stack([torch.ones_like(inverse), inverse, scale]).amax(0)
    factor = torch.where((scale > 0) & (scale < 2.0**-126), factor.clamp_min(2.0**101), factor)
    return factor, (mean.abs() + 1) * torch.stack([torch.ones_like(inverse), inverse, scale]).amax(0) + bias.abs()


def normalized_underflow(weight: Tensor) -> Tensor:
    """What the ``weight`` of a batch norm makes of a normalized value that underflows, as a size that is rounded."""
    return weight.abs() * 2.0**-120
