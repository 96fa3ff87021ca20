"""What a traced operation reads: values that depend on the input stay references, others are constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from radii.certificates.bounds.linear_maps import Gather, LinearMap
from radii.certificates.bounds.relaxations import Affine, Layer
from radii.certificates.bounds.tracing import SPACING, Record, Ref
from radii.errors import InputError


@dataclass(frozen=True)
class Operands:
    """The arguments of one operation."""

    record: Record
    values: dict[int, Tensor]
    shapes: dict[int, tuple[int, ...]]
    dtype: torch.dtype | None
    layers: dict[int, Layer]  # that were converted so far

    def add(self, layer: Layer, shape: tuple[int, ...]) -> int:
        """A further layer before the operation's own, for one that is written as several.

        Args:
            layer: the layer.
            shape: of its value, without the batch.

        Returns:
            The number of its value.
        """
        number = max((number for number in self.layers), default=0)
        number = max(number, self.record.outputs[0] - SPACING) + 1
        if number >= self.record.outputs[0]:
            raise refusal(self.record, "is made of too many layers")
        self.layers[number], self.shapes[number] = layer, shape
        return number

    def __getitem__(self, place: int) -> Any:
        return self.weight(self.record.arguments[place]) if place < len(self.record.arguments) else None

    def weight(self, value: Any) -> Any:
        if isinstance(value, Ref):
            if value.number in self.shapes:
                return value
            if value.number not in self.values:
                raise refusal(self.record, "reads a second result of a pooling or normalization")
            value = self.values[value.number]
        if isinstance(value, Tensor) and not torch.is_grad_enabled():
            value = value.detach()  # a view of a parameter could not be used after the parameter changes
        if isinstance(value, Tensor) and value.is_floating_point() and self.dtype is not None:
            return value.to(self.dtype)
        return value

    def affine(
        self, linear: LinearMap, bias: Tensor | None = None, place: int = 0, size: Tensor | None = None
    ) -> Affine:
        return Affine(self.record.layer, (self[place].number,), linear, bias, size)

    def moved(self, function: Callable[[Tensor], Tensor], count: int = 0) -> Affine:
        return self.affine(Gather(function, self.shape(0), count))

    def shape(self, place: int) -> tuple[int, ...]:
        reference = self[place]
        if not isinstance(reference, Ref):
            raise refusal(self.record, "moves a value that does not come from the input")
        return self.shapes[reference.number]


def operation_name(record: Record) -> str:
    """The operation's name without its overload, the same in place and not.

    Args:
        record: the operation.
    """
    return str(record.operation.__name__).split(".")[0].removesuffix("_")


def refusal(record: Record, why: str) -> InputError:
    """The error for an operation that has no bounds.

    Args:
        record: the operation.
        why: the rest of the sentence.
    """
    name = getattr(record.operation, "__name__", str(record.operation))
    return InputError(
        f"Layer {record.layer} cannot be bounded: {name} {why}. Bounds exist for linear, convolution, transposed "
        "convolution, ReLU, leaky ReLU, MaxMin, absolute values, sigmoid, tanh, pooling, batch norm in eval mode, "
        "flatten, additions, steps and clamps; "
        "smoothing certifies any model."
    )


def same(x: Tensor) -> Tensor:
    """The value x itself."""
    return x
