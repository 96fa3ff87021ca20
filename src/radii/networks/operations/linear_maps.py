"""Linear maps with what bounds need of them: the map, its absolute, its squares and its transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.networks.operations.operation import OnnxGraph, Shape


class LinearMap(Protocol):
    """x -> W x on rows [n, …]. ``terms`` products are summed for one output; 0: values are only moved."""

    @property
    def terms(self) -> int:
        """Summands of one output, for rounding bounds."""

    def apply(self, x: Tensor) -> Tensor:
        """W x."""

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x."""

    def squares(self, x: Tensor) -> Tensor | None:
        """(W * W) x, or None where it is not offered."""

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T applied to rows [m, …]."""

    def onnx(self, graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:
        """The map in ONNX, from flat rows of shape ``before`` to flat rows of shape ``after``."""


@dataclass(frozen=True)
class Dense:
    """A matrix [out, in], applied to the last axis."""

    weight: Tensor

    @property
    def terms(self) -> int:
        """One product per input."""
        return self.weight.shape[1]

    def apply(self, x: Tensor) -> Tensor:
        """W x."""
        return x @ self.weight.T

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x."""
        return x @ self.weight.abs().T

    def squares(self, x: Tensor) -> Tensor:
        """(W * W) x."""
        return x @ self.weight.square().T

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows."""
        return rows @ self.weight

    def onnx(self, graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:  # noqa: ARG002
        """MatMul."""
        return graph.flat(graph.node("MatMul", graph.shaped(x, before), graph.constant(self.weight.T)))


@dataclass(frozen=True)
class Convolution:
    """A convolution over one, two or three axes, with zero padding."""

    weight: Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    input_shape: tuple[int, ...]

    @property
    def terms(self) -> int:
        """One product per input channel of the group and place in the kernel."""
        return self.weight[0].numel()

    def _with(self, weight: Tensor, x: Tensor) -> Tensor:
        layer = (F.conv1d, F.conv2d, F.conv3d)[weight.dim() - 3]
        return layer(x, weight, None, self.stride, self.padding, self.dilation, self.groups)

    def apply(self, x: Tensor) -> Tensor:
        """W x."""
        return self._with(self.weight, x)

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x."""
        return self._with(self.weight.abs(), x)

    def squares(self, x: Tensor) -> Tensor:
        """(W * W) x."""
        return self._with(self.weight.square(), x)

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows; pixels that the stride never reached get zeros."""
        layer = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.weight.dim() - 3]
        spare = self.spare(rows.shape[2:])
        return layer(rows, self.weight, None, self.stride, self.padding, spare, self.groups, self.dilation)

    def spare(self, after: Sequence[int]) -> list[int]:
        """How many pixels of each axis lie behind the last window that an output of these sizes has."""
        sizes = self.input_shape[1:], after, self.stride, self.padding, self.dilation, self.weight.shape[2:]
        return [
            size - ((out - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1)
            for size, out, stride, pad, dilation, kernel in zip(*sizes, strict=True)
        ]

    def onnx(self, graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:  # noqa: ARG002
        """Conv."""
        return self._node(graph, "Conv", x, before)

    def transposed_onnx(self, graph: OnnxGraph, x: str, before: Shape) -> str:
        """ConvTranspose."""
        return self._node(graph, "ConvTranspose", x, before, output_padding=self.spare(before[1:]))

    def _node(self, graph: OnnxGraph, kind: str, x: str, before: Shape, **more: Any) -> str:
        settings = {"strides": self.stride, "pads": self.padding * 2, "dilations": self.dilation, "group": self.groups}
        return graph.flat(graph.node(kind, graph.shaped(x, before), graph.constant(self.weight), **settings, **more))


@dataclass(frozen=True)
class TransposedConvolution:
    """The transpose of a convolution, with zeros behind what its stride never reached."""

    forward: Convolution  # from this layer's output to its input
    input_shape: tuple[int, ...]

    @property
    def terms(self) -> int:
        """At most one product per input channel of the group and place in the kernel."""
        weight = self.forward.weight
        return weight.shape[0] // self.forward.groups * weight.shape[2:].numel()

    def apply(self, x: Tensor) -> Tensor:
        """W x."""
        return self.forward.transpose(x)

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x."""
        return replace(self.forward, weight=self.forward.weight.abs()).transpose(x)

    def squares(self, x: Tensor) -> Tensor:
        """(W * W) x."""
        return replace(self.forward, weight=self.forward.weight.square()).transpose(x)

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows."""
        return self.forward.apply(rows)

    def onnx(self, graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:  # noqa: ARG002
        """ConvTranspose."""
        return self.forward.transposed_onnx(graph, x, before)


@dataclass(frozen=True)
class Scale:
    """A factor for every coordinate, broadcast over the batch; ``terms`` operations compute and apply it."""

    factor: Tensor
    terms: int = 1

    def apply(self, x: Tensor) -> Tensor:
        """W x."""
        return x * self.factor

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x."""
        return x * self.factor.abs()

    def squares(self, x: Tensor) -> Tensor:
        """(W * W) x."""
        return x * self.factor.square()

    def transpose(self, rows: Tensor) -> Tensor:
        """A diagonal is its own transpose."""
        return rows * self.factor

    def onnx(self, graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:  # noqa: ARG002
        """Mul."""
        return graph.node("Mul", x, graph.constant(self.factor.expand(before).flatten()))


@dataclass(frozen=True)
class Move:
    """Each output is one input, or 0: reshaping, transposing, slicing, padding, repeating.

    Attributes:
        index: which number of the flat input each number of the flat output is [out]; -1: it is 0.
        before: the shape of the input.
        after: the shape of the output.
    """

    index: Tensor
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def terms(self) -> int:
        """Nothing is summed."""
        return 0

    @cached_property
    def repeats(self) -> int:
        """How many outputs are copies of one input, at most."""
        kept = self.index[self.index >= 0]
        return int(kept.bincount().max()) if len(kept) else 0

    @property
    def keeps_order(self) -> bool:
        """Whether nothing but the shape changes."""
        return len(self.index) == prod(self.before) and torch.equal(self.index, torch.arange(len(self.index)))

    @cached_property
    def _inverse(self) -> Tensor:
        """Which output each input went to, -1: to none; for moves that repeat nothing."""
        inverse = torch.full((prod(self.before),), -1)
        outputs = torch.nonzero(self.index >= 0)[:, 0]
        inverse[self.index[outputs]] = outputs
        return inverse

    def apply(self, x: Tensor) -> Tensor:
        """W x."""
        return _picked(x.flatten(1), self.index).unflatten(1, self.after)

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x = W x."""
        return self.apply(x)

    def squares(self, x: Tensor) -> Tensor:
        """The same, because weights are 0 and 1."""
        return self.apply(x)

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows: each input gets the sum of its copies."""
        flat = rows.flatten(1)
        if self.repeats <= 1:
            return _picked(flat, self._inverse).unflatten(1, self.before)
        outputs = torch.nonzero(self.index >= 0)[:, 0].to(rows.device)
        back = flat.new_zeros(len(flat), prod(self.before))
        return back.index_add(1, self.index.to(rows.device)[outputs], flat[:, outputs]).unflatten(1, self.before)

    def onnx(self, graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:  # noqa: ARG002
        """Gather, with a zero behind the numbers if outputs are 0."""
        return _gathered(graph, x, self.index, prod(self.before))


def _gathered(graph: OnnxGraph, x: str, places: Tensor, size: int) -> str:
    """The numbers at ``places`` of flat rows with ``size`` numbers, 0 where a place is -1."""
    if bool((places < 0).any()):
        x = graph.node("Pad", x, graph.constant([0, 0, 0, 1]))
    return graph.node("Gather", x, graph.constant(torch.where(places < 0, size, places)), axis=1)


def _picked(x: Tensor, index: Tensor) -> Tensor:
    """The columns ``index`` of ``x`` [n, d], zeros where it is -1."""
    columns = x.index_select(1, index.clamp_min(0).to(x.device))
    return columns if bool((index >= 0).all()) else columns.masked_fill((index < 0).to(x.device), 0.0)


@dataclass(frozen=True)
class Average:
    """Weighted sums of inputs with nonnegative weights: sums and means over axes, average pooling.

    Attributes:
        members: which numbers of the flat input each output sums [out, k]; -1: none.
        weight: of each member [out, k].
        before: the shape of the input.
        after: the shape of the output.
    """

    members: Tensor
    weight: Tensor
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def terms(self) -> int:
        """Inputs of one output."""
        return self.members.shape[1]

    def _with(self, weight: Tensor, x: Tensor) -> Tensor:
        parts = x.flatten(1)[:, self.members.clamp_min(0).to(x.device)]
        return (parts * weight.to(x)).sum(2).unflatten(1, self.after)

    def apply(self, x: Tensor) -> Tensor:
        """W x."""
        return self._with(self.weight, x)

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x = W x."""
        return self.apply(x)

    def squares(self, x: Tensor) -> Tensor:
        """(W * W) x."""
        return self._with(self.weight.square(), x)

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows."""
        flat, weight = rows.flatten(1), self.weight.to(rows)
        back = flat.new_zeros(len(flat), prod(self.before))
        places = self.members.clamp_min(0).flatten().to(rows.device)
        return back.index_add(1, places, (flat[..., None] * weight).flatten(1)).unflatten(1, self.before)

    def onnx(self, graph: OnnxGraph, x: str, before: Shape, after: Shape) -> str:  # noqa: ARG002
        """Gather, Mul, ReduceSum."""
        parts = _gathered(graph, x, self.members, prod(self.before))
        weighted = graph.node("Mul", parts, graph.constant(self.weight.float()))
        return graph.node("ReduceSum", weighted, graph.constant([2]), keepdims=0)


def _folded_transpose(linear: LinearMap, A: Tensor) -> Tensor:
    """W^T of the map ``linear`` for every row of the coefficients ``A`` [n, s, …]."""
    n, s = A.shape[:2]
    return linear.transpose(A.flatten(0, 1)).unflatten(0, (n, s))
