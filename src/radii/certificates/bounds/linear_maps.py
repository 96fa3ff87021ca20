"""Linear maps with what bounds need of them: the map, its absolute, its squares and its transpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


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


@dataclass(frozen=True)
class Dense:
    """A matrix [out, in]."""

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


@dataclass(frozen=True)
class Convolution:
    """A 2-D convolution with zero padding."""

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
        return F.conv2d(x, weight, None, self.stride, self.padding, self.dilation, self.groups)

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
        spare = [
            size - ((out - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1)
            for size, out, stride, pad, dilation, kernel in zip(
                self.input_shape[1:],
                rows.shape[2:],
                self.stride,
                self.padding,
                self.dilation,
                self.weight.shape[2:],
                strict=True,
            )
        ]
        return F.conv_transpose2d(rows, self.weight, None, self.stride, self.padding, spare, self.groups, self.dilation)


@dataclass(frozen=True)
class TransposedConvolution:
    """The transpose of a 2-D convolution, with zeros behind what its stride never reached."""

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


@dataclass(frozen=True)
class Gather:
    """Sums, means and moves of coordinates with nonnegative weights: ``move`` is any such linear function.

    ``count`` inputs make one output; 0 if each output is one input or zero, as in reshaping, padding, slicing.
    """

    move: Callable[[Tensor], Tensor]
    input_shape: tuple[int, ...]
    count: int = 0

    @property
    def terms(self) -> int:
        """Inputs of one output."""
        return self.count

    def apply(self, x: Tensor) -> Tensor:
        """W x."""
        return self.move(x)

    def absolute(self, x: Tensor) -> Tensor:
        """|W| x = W x."""
        return self.move(x)

    def squares(self, x: Tensor) -> Tensor | None:
        """The same for moves, whose weights are 0 and 1."""
        return self.move(x) if self.count == 0 else None

    def transpose(self, rows: Tensor) -> Tensor:
        """W^T rows, which is how gradients go back through a linear function."""
        with torch.enable_grad():
            x = rows.new_zeros((len(rows), *self.input_shape), requires_grad=True)
            (back,) = torch.autograd.grad(self.move(x), x, rows, create_graph=rows.requires_grad)
        return back


def folded_transpose(linear: LinearMap, A: Tensor) -> Tensor:
    """W^T of the map ``linear`` for every row of the coefficients ``A`` [n, s, …]."""
    n, s = A.shape[:2]
    return linear.transpose(A.flatten(0, 1)).unflatten(0, (n, s))
