"""Operation: what one step of a network computes, and what can be proved about it.

Every value of a program is a flat vector. An operation reads some of them in the shapes that it states and gives one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

Shape = tuple[int, ...]
Interval = tuple[Tensor, Tensor]
Lines = tuple[tuple[Tensor | None, ...], Tensor]


class OnnxGraph(Protocol):
    """An ONNX graph while it is written. Names stand for values; between operations they are flat rows [n, d]."""

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The name of the result of a new node."""

    def constant(self, value: Any) -> str:
        """The name of a constant: a tensor, or numbers."""

    def shaped(self, value: str, shape: Shape) -> str:
        """Flat rows as [n, *shape]."""

    def flat(self, value: str) -> str:
        """A value [n, …] as flat rows."""


@dataclass(frozen=True)
class Operation(ABC):
    """One step of a program.

    Attributes:
        origin: the layer or node that it was read from, for messages.
        inputs: the numbers of the values that it reads.
    """

    origin: str
    inputs: tuple[int, ...]

    @property
    @abstractmethod
    def in_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the values that it reads, without the batch."""

    @property
    @abstractmethod
    def out_shape(self) -> Shape:
        """The shape of its result, without the batch."""

    @abstractmethod
    def value(self, *inputs: Tensor) -> Tensor:
        """Its result [n, …] at ``inputs`` [n, …], in their type: what float32 computes, for float32."""

    @abstractmethod
    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """The same in ONNX: from flat inputs to its flat result."""


class Nonlinear(Operation):
    """An operation that is not linear, bounded by intervals and between lines.

    A new one says its value, its interval and its lines; both must hold for what float32 computes.
    """

    def at(self, *inputs: Tensor) -> Tensor:
        """:meth:`value` on flat rows [n, d]."""
        shaped = (x.unflatten(1, shape) for x, shape in zip(inputs, self.in_shapes, strict=True))
        return self.value(*shaped).flatten(1)

    @abstractmethod
    def interval(self, *ends: Interval) -> Interval:
        """The least and the greatest result for inputs between the ``ends`` (lower, upper) [n, …]."""

    @abstractmethod
    def lines(self, A: Tensor, ends: Sequence[Interval]) -> Lines:
        """Coefficients of each input [n, s, …] and a constant [n, s] with A . f(x) >= sum of back . x + constant.

        Args:
            A: coefficients of the result [n, s, …].
            ends: lower and upper bounds of each input [n, …]. None stands for coefficients that are 0.
        """
