"""Operations that compare values, written with ReLUs: maximum, minimum, absolute values; and joining of values.

max(a, b) = a + relu(b - a). The identity is exact for real numbers and comparing rounds nothing, so bounds of the
written form hold for the operation. MaxMin and GroupSort of 1-Lipschitz networks become these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.certificates.bounds.linear_maps import Gather, Scale
from radii.certificates.bounds.relaxations import Affine, Layer, Relu, Sum
from radii.certificates.bounds.tracing import ROWS, Operands, Record, Ref, refusal, same

SPLITS = ("split", "split_with_sizes", "unbind")


def maximum(record: Record, operands: Operands) -> Layer | None:
    """max(a, b) = a + relu(b - a), and min(a, b) = a - relu(a - b).

    Args:
        record: the traced operation.
        operands: what it reads.
    """
    first, second = operands[0], operands[1]
    if not isinstance(first, Ref) or not isinstance(second, Ref) or operands.shape(0) != operands.shape(1):
        return None
    return _larger(operands, first.number, second.number, record.operation.__name__.startswith("max"))


def _larger(operands: Operands, first: int, second: int, largest: bool) -> Sum:
    """The larger (or smaller) of two values. Comparing rounds nothing, so the bounds hold for the operation itself."""
    name, shape = operands.record.layer, operands.shapes[first]
    pair = (second, first) if largest else (first, second)
    above = operands.add(Relu(name, (operands.add(Sum(name, pair, -1.0), shape),)), shape)
    return Sum(name, (first, above), 1.0 if largest else -1.0)


def extreme(record: Record, operands: Operands) -> Layer | None:
    """The largest or smallest along one axis of at most eight places: pairs of values in rounds.

    Args:
        record: the traced operation.
        operands: what it reads.
    """
    shape, axes = operands.shape(0), operands[1]
    if not axes or len(axes) != 1:
        return None
    axis = axes[0] % (len(shape) + 1)
    if axis == 0 or not 2 <= shape[axis - 1] <= 8:
        return None
    largest, source = record.operation.__name__.startswith("amax"), operands[0].number
    values = [
        operands.add(
            Affine(record.layer, (source,), Gather(_selected(axis, k, record.shape), shape), None), record.shape
        )
        for k in range(shape[axis - 1])
    ]
    while len(values) > 2:
        layer = _larger(operands, values[0], values[1], largest)
        values = [*values[2:], operands.add(layer, record.shape)]
    return _larger(operands, values[0], values[1], largest)


def _selected(axis: int, place: int, after: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.select(axis, place).reshape(len(x), *after)


def absolute(record: Record, operands: Operands) -> Layer | None:
    """|x| = relu(x) + relu(-x).

    Args:
        record: the traced operation.
        operands: what it reads.
    """
    source, shape = operands[0].number, operands.shape(0)
    negative = operands.add(Affine(record.layer, (source,), Scale(torch.tensor(-1.0)), None), shape)
    parts = [operands.add(Relu(record.layer, (number,)), shape) for number in (source, negative)]
    return Sum(record.layer, (parts[0], parts[1]), 1.0)


def joined(record: Record, operands: Operands) -> Layer | None:
    """Values side by side: the sum of all, each padded by zeros.

    Args:
        record: the traced operation.
        operands: what it reads.
    """
    parts, after = operands.record.arguments[0], record.shape
    axis = (operands[1] or 0) % (len(after) + 1)
    if axis == 0 or not all(isinstance(part, Ref) and part.number in operands.shapes for part in parts):
        return None
    stacked, start, total = record.operation.__name__.startswith("stack"), 0, None
    for part in parts:
        shape = operands.shapes[part.number]
        size = 1 if stacked else shape[axis - 1]
        sides = [0, 0] * (len(after) - axis) + [start, after[axis - 1] - start - size]
        layer = Affine(record.layer, (part.number,), Gather(_padded(axis, sides, stacked), shape), None)
        number = operands.add(layer, after)
        start += size
        total = number if total is None else operands.add(Sum(record.layer, (total, number), 1.0), after)
    assert total is not None
    return Affine(record.layer, (total,), Gather(same, after), None)


def split_parts(record: Record, operands: Operands) -> Iterator[tuple[int, Layer, tuple[int, ...]]]:
    """The parts of a value that is cut along an axis: number, layer and shape of each.

    Args:
        record: the traced operation.
        operands: what it reads.
    """
    operation, rest, keywords = record.operation, record.arguments[1:], record.keywords
    shape = operands.shape(0)
    pieces = operation(torch.zeros(ROWS, *shape), *rest, **keywords)
    if any(len(piece) != ROWS for piece in pieces) or len(pieces) != len(record.outputs):
        raise refusal(record, "cuts a batch into its inputs")
    for place, (number, piece) in enumerate(zip(record.outputs, pieces, strict=True)):
        move = Gather(_part(partial(operation, **keywords), rest, place), shape)
        yield number, Affine(record.layer, (operands[0].number,), move, None), tuple(piece.shape[1:])


def _part(cut: Callable[..., Sequence[Tensor]], rest: tuple[Any, ...], place: int) -> Callable[[Tensor], Tensor]:
    return lambda x: cut(x, *rest)[place]


def _padded(axis: int, sides: list[int], stacked: bool) -> Callable[[Tensor], Tensor]:
    return lambda x: F.pad(x.unsqueeze(axis) if stacked else x, sides)
