"""Products of two values, between two planes each (McCormick 1976)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from radii.networks.operations.operation import Interval, Lines, Nonlinear, OnnxGraph, Shape

ROUNDING = 2.0**-21  # of a product and of its planes, relative to the largest product of the ends
TINY = 2.0**-125  # below it float32 may round to 0


@dataclass(frozen=True)
class Product(Nonlinear):
    """a b in each coordinate."""

    shape: Shape

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """Two values of one shape."""
        return self.shape, self.shape

    @property
    def out_shape(self) -> Shape:
        """That of each factor."""
        return self.shape

    def value(self, *inputs: Tensor) -> Tensor:
        """a b."""
        return inputs[0] * inputs[1]

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """Mul."""
        return graph.node("Mul", *inputs)

    def interval(self, *ends: Interval) -> Interval:
        """The least and the greatest product of ends."""
        (a, b), (c, d) = ends
        products = torch.stack([a * c, a * d, b * c, b * d])
        if self.squared:
            products = torch.stack([a * a, b * b, torch.where((a <= 0) & (b >= 0), 0.0, a * b)])
        error = products.abs().amax(0) * ROUNDING + TINY
        return products.amin(0) - error, products.amax(0) + error

    @property
    def squared(self) -> bool:
        """Whether both factors are one value."""
        return self.inputs[0] == self.inputs[1]

    def lines(self, A: Tensor, ends: Sequence[Interval]) -> Lines:
        """Below: max of a' b + b' a - a' b' at the lower and at the upper ends; above at the mixed ends.

        Of two planes the better one in the middle of the ends is taken.
        """
        (a, b), (c, d) = ends
        below = _better(((c, a, -a * c), (d, b, -b * d)), (a + b) / 2, (c + d) / 2, highest=True)
        above = _better(((d, a, -a * d), (c, b, -b * c)), (a + b) / 2, (c + d) / 2, highest=False)
        size = torch.maximum(a.abs(), b.abs()) * torch.maximum(c.abs(), d.abs())
        positive, negative = A.clamp_min(0), A.clamp_max(0)
        first, second, shift = (
            positive * low[:, None] + negative * high[:, None] for low, high in zip(below, above, strict=True)
        )
        slack = A.abs() * (4 * size * ROUNDING + TINY)[:, None]
        return (first, second), (shift - slack).flatten(2).sum(2)


Plane = tuple[Tensor, Tensor, Tensor]


def _better(planes: tuple[Plane, Plane], x: Tensor, y: Tensor, highest: bool) -> Plane:
    """The plane (by x, by y, constant) that is highest, or lowest, at (x, y), coordinate by coordinate."""
    first, second = (by_x * x + by_y * y + constant for by_x, by_y, constant in planes)
    take = first >= second if highest else first <= second
    by_x, by_y, constant = (torch.where(take, one, other) for one, other in zip(*planes, strict=True))
    return by_x, by_y, constant
