"""Program: a network as a list of operations on flat vectors, the one form that everything else knows.

Values that are only reshaped share one number, and a bias that is added to a matrix product joins it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import torch
from torch import Tensor

from radii.networks.operations.activations import Relu
from radii.networks.operations.linear import Linear
from radii.networks.operations.linear_maps import Convolution, Dense, Move, Scale
from radii.networks.operations.operation import Nonlinear, Operation, Shape


@dataclass(frozen=True)
class Program:
    """Operations by the number of the value they compute, in the order they run; value 0 is the input.

    Attributes:
        steps: the operations.
        input_shape: the shape of one input, without the batch.
        output: the number of the value that the network returns.
        dtype: the type of its weights.
    """

    steps: dict[int, Operation]
    input_shape: Shape
    output: int
    dtype: torch.dtype
    sizes: dict[int, int] = field(init=False)  # how many numbers each value has

    def __post_init__(self) -> None:
        sizes = {0: prod(self.input_shape)} | {number: prod(step.out_shape) for number, step in self.steps.items()}
        object.__setattr__(self, "sizes", sizes)

    @property
    def outputs(self) -> int:
        """How many numbers it returns: the classes of a classifier."""
        return self.sizes[self.output]

    def run(self, x: Tensor) -> Tensor:
        """What the network returns [n, outputs] for inputs ``x`` [n, …], operation by operation in the type of x."""
        return self.values(x)[self.output]

    def values(self, x: Tensor) -> dict[int, Tensor]:
        """All values as rows [n, d] at the inputs ``x`` [n, …]."""
        values = {0: x.reshape(len(x), -1)}
        for number, step in self.steps.items():
            shaped = (
                values[source].reshape(len(x), *shape)
                for source, shape in zip(step.inputs, step.in_shapes, strict=True)
            )
            values[number] = step.value(*shaped).flatten(1)
        return values

    def readers(self) -> dict[int, list[int]]:
        """Which operations read each value."""
        read: dict[int, list[int]] = {number: [] for number in (0, *self.steps)}
        for number, step in self.steps.items():
            for source in step.inputs:
                read[source].append(number)
        return read

    def pre_activations(self) -> dict[int, list[int]]:
        """Values that operations which are not linear read, with these readers."""
        read: dict[int, list[int]] = {}
        for number, step in self.steps.items():
            if isinstance(step, Nonlinear):
                for source in step.inputs:
                    read.setdefault(source, []).append(number)
        return read

    def behind_activations(self) -> set[int]:
        """Values behind an operation that is not linear."""
        behind: set[int] = set()
        for number, step in self.steps.items():
            if isinstance(step, Nonlinear) or behind & set(step.inputs):
                behind.add(number)
        return behind

    def fusable_relus(self) -> set[int]:
        """ReLUs whose input only they read and W x + bias makes."""
        readers = self.readers()
        return {
            number
            for number, step in self.steps.items()
            if isinstance(step, Relu)
            and len(readers[step.inputs[0]]) == 1
            and isinstance(self.steps.get(step.inputs[0]), Linear)
        }


@dataclass
class Builder:
    """A program while it is made: operations get numbers in the order in which they are added."""

    input_shape: Shape
    steps: dict[int, Operation] = field(default_factory=dict)

    def add(self, step: Operation) -> int:
        """The number of the value of ``step``; that of its input if it only changes the shape."""
        if isinstance(step, Linear) and isinstance(step.linear, Move) and step.bias is None and step.linear.keeps_order:
            return step.inputs[0]
        number = len(self.steps) + 1
        self.steps[number] = step
        return number

    def finish(self, output: int, dtype: torch.dtype) -> Program:
        """The program whose result is the value ``output``, without operations that nothing reads."""
        return _joined_biases(Program(_needed(self.steps, output), self.input_shape, output, dtype))


def _needed(steps: dict[int, Operation], output: int) -> dict[int, Operation]:
    needed = {output}
    for number in sorted(steps, reverse=True):
        if number in needed:
            needed.update(steps[number].inputs)
    return {number: step for number, step in steps.items() if number in needed}


def _joined_biases(program: Program) -> Program:
    """The program with a sum W x + bias in one operation where the bias was added by a second one."""
    readers, steps = program.readers(), dict(program.steps)
    for number, step in program.steps.items():
        before = steps.get(step.inputs[0]) if step.inputs else None
        if not isinstance(step, Linear) or not isinstance(before, Linear) or len(readers[step.inputs[0]]) > 1:
            continue
        if _adds_bias(step, before):
            steps.pop(step.inputs[0])
            steps[number] = replace(before, bias=step.bias, bias_size=step.bias_size)
    return replace(program, steps=steps)


def _adds_bias(step: Linear, before: Linear) -> bool:
    """Whether ``step`` only adds a bias to the product ``before``, which has none."""
    return (
        isinstance(step.linear, Scale)
        and step.peak is None
        and step.bias is not None
        and bool((step.linear.factor == 1).all())
        and isinstance(before.linear, Dense | Convolution)
        and before.bias is None
        and step.in_shape == before.shape
    )
