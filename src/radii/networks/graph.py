"""A network as named operations on named values, independent of the file format.

Every value keeps the shape that its file gives it, behind one leading axis of
examples: a file with a batch of one runs on any number of examples, and an
operation that moves axes needs to know nothing about batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.networks.calling import NODE_NAMES

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """One operation: ``output`` = ``operation``(``inputs``; ``attributes``). ``name`` is the file's, for messages."""

    name: str
    operation: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """Operations in the order they run. Constants [1, …] and values [n, …] have a leading axis of examples.

    ``shape`` is the input's shape in the file (its batch is 1), ``output`` the name of the result.
    """

    nodes: tuple[Node, ...]
    constants: dict[str, Tensor]
    input: str
    shape: Shape
    output: str

    @property
    def input_shape(self) -> Shape:
        """The shape of one example: the file's without its batch."""
        return self.shape[1:] if len(self.shape) > 1 and self.shape[0] == 1 else self.shape


class GraphNetwork(nn.Module):
    """A graph that runs in torch, with gradients: inputs [n, *input_shape] to outputs [n, numbers].

    Args:
        strict: inputs of another shape are refused even if they have as many numbers; a property's inputs are flat.
    """

    def __init__(self, graph: Graph, strict: bool = False) -> None:
        super().__init__()
        self.graph, self.strict = graph, strict
        self._names = {name: f"constant_{number}" for number, name in enumerate(graph.constants)}
        for name, place in self._names.items():
            self.register_buffer(place, graph.constants[name])

    def forward(self, x: Tensor) -> Tensor:
        """The network's result for each example, flattened to one row."""
        same = x.shape[1:] == torch.Size(self.graph.input_shape)
        if not same and (self.strict or x.shape[1:].numel() != torch.Size(self.graph.shape).numel()):
            raise InputError(f"Inputs must have shape {self.graph.input_shape}, got {tuple(x.shape[1:])} instead.")
        values = {self.graph.input: x.reshape(len(x), *self.graph.shape)}
        values |= {name: getattr(self, place) for name, place in self._names.items()}
        hear = NODE_NAMES.get()
        for node in self.graph.nodes:
            if hear is not None:
                hear(f"node {node.name!r} ({node.operation})")
            values[node.output] = run_node(node, [values[name] for name in node.inputs], self._names)
        return values[self.graph.output].flatten(1)


def run_node(node: Node, inputs: list[Tensor], constants: dict[str, Any]) -> Tensor:
    """The value of ``node`` at ``inputs``; ``constants`` names the inputs that do not depend on the example."""
    if node.operation == "matmul":
        if node.inputs[0] in constants and inputs[0].dim() == 2:  # a vector before a value
            return _matmul(inputs[1].transpose(-1, -2), inputs[0], True)
        if node.inputs[0] in constants and inputs[0].dim() == 3 and inputs[1].dim() > 2:  # W x = (x^T W^T)^T
            return _matmul(inputs[1].transpose(-1, -2), inputs[0].transpose(-1, -2), True).transpose(-1, -2)
        return _matmul(inputs[0], inputs[1], node.inputs[1] in constants)
    return OPERATIONS[node.operation](*inputs, **node.attributes)


def _aligned(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Both with as many axes: shapes are aligned at their ends, behind the examples."""
    rank = max(first.dim(), second.dim())
    return tuple(  # type: ignore[return-value]
        value.reshape(len(value), *[1] * (rank - value.dim()), *value.shape[1:]) for value in (first, second)
    )


def _elementwise(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda first, second: function(*_aligned(first, second))


def _matmul(first: Tensor, second: Tensor, fixed: bool = False) -> Tensor:
    if fixed and second.dim() == 3:
        rows = first.flatten(0, -2) @ second[0]
        return rows.reshape(*first.shape[:-1], second.shape[-1])
    if fixed and second.dim() == 2:
        return (first.flatten(0, -2) @ second[0][:, None]).reshape(first.shape[:-1])
    if second.dim() == 2:  # a vector behind the examples
        return (first @ second[..., None])[..., 0]
    return torch.matmul(*_aligned(first, second))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = F.linear(x.flatten(0, -2), weight[0], None if bias is None else bias[0])
    return rows.reshape(*x.shape[:-1], rows.shape[-1])


def _images(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Run a layer that knows one batch axis on examples whose file has another."""
    result = function(x.flatten(0, 1))
    return result.reshape(len(x), x.shape[1], *result.shape[1:])


def _conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, transposed: bool = False, **settings: Any
) -> Tensor:
    names = {1: ("conv1d", "conv_transpose1d"), 2: ("conv2d", "conv_transpose2d"), 3: ("conv3d", "conv_transpose3d")}
    layer = getattr(F, names[weight.dim() - 3][transposed])
    return _images(lambda v: layer(v, weight[0], None if bias is None else bias[0], **settings), x)


def _batch_norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float) -> Tensor:
    return _images(lambda v: F.batch_norm(v, mean[0], variance[0], scale[0], bias[0], False, 0.0, epsilon), x)


def _max_pool(x: Tensor, *, rank: int, **settings: Any) -> Tensor:
    return _images(lambda v: getattr(F, f"max_pool{rank}d")(v, **settings), x)


def _average_pool(x: Tensor, *, rank: int, **settings: Any) -> Tensor:
    return _images(lambda v: getattr(F, f"avg_pool{rank}d")(v, **settings), x)


def _slice(x: Tensor, *, axis: int, start: int, stop: int, step: int) -> Tensor:
    places = range(x.shape[axis + 1])[start:stop:step] if stop is not None else range(x.shape[axis + 1])[start::step]
    if places.step == 1:
        return x.narrow(axis + 1, places.start, len(places))
    return x.index_select(axis + 1, torch.tensor(list(places), dtype=torch.int64))


def _gather(x: Tensor, *, axis: int, places: Tensor) -> Tensor:
    result = x.index_select(axis + 1, places.flatten())
    return result.reshape(*x.shape[: axis + 1], *places.shape, *x.shape[axis + 2 :])


def _reduce(x: Tensor, *, axes: tuple[int, ...], keep: bool, mean: bool) -> Tensor:
    places = [axis + 1 for axis in axes]
    return x.mean(places, keepdim=keep) if mean else x.sum(places, keepdim=keep)


def _concat(*values: Tensor, axis: int) -> Tensor:
    """The sum of all values, each padded by zeros to the whole: exact, and linear, so that it can be bounded."""
    whole, start, total = sum(value.shape[axis + 1] for value in values), 0, None
    for value in values:
        size = value.shape[axis + 1]
        sides = [0, 0] * (value.dim() - axis - 2) + [start, whole - start - size]
        padded = F.pad(value, sides)
        total = padded if total is None else total + padded
        start += size
    assert total is not None
    return total


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    x, slope = _aligned(x, slope)
    return F.relu(x) - slope * F.relu(-x)


def _repeat(x: Tensor, *, counts: tuple[int, ...]) -> Tensor:
    for axis, count in enumerate(counts):
        x = x.repeat_interleave(count, axis + 1) if count > 1 else x
    return x


def _moved(x: Tensor, *, places: Tensor) -> Tensor:
    """The numbers at ``places`` of each example, whatever its shape."""
    return x.flatten(1).index_select(1, places.flatten()).reshape(len(x), *places.shape)


def _interpolate(x: Tensor, *, size: tuple[int, ...], mode: str, corners: bool | None) -> Tensor:
    return _images(lambda v: F.interpolate(v, size, mode=mode, align_corners=corners), x)


def _extreme(x: Tensor, *, axes: tuple[int, ...], keep: bool, largest: bool) -> Tensor:
    places = [axis + 1 for axis in axes]
    return x.amax(places, keepdim=keep) if largest else x.amin(places, keepdim=keep)


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, epsilon: float) -> Tensor:
    return F.layer_norm(x, weight.shape[1:], weight[0], None if bias is None else bias[0], epsilon)


OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "abs": torch.abs,
    "max": _elementwise(torch.maximum),
    "min": _elementwise(torch.minimum),
    "prelu": _prelu,
    "elu": lambda x, *, alpha: F.elu(x, alpha),
    "selu": F.selu,
    "celu": lambda x, *, alpha: F.celu(x, alpha),
    "gelu": lambda x, *, approximate: F.gelu(x, approximate=approximate),
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "hardsigmoid": lambda x, *, alpha, beta: (x * alpha + beta).clamp(0.0, 1.0),
    "mish": F.mish,
    "erf": torch.erf,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "pow": lambda x, *, exponent: x.pow(exponent),
    "layer_norm": _layer_norm,
    "repeat": _repeat,
    "moved": _moved,
    "interpolate": _interpolate,
    "log_softmax": lambda x, *, axis: x.log_softmax(axis + 1),
    "ceil": torch.ceil,
    "extreme": _extreme,
    "add": _elementwise(torch.add),
    "sub": _elementwise(torch.sub),
    "mul": _elementwise(torch.mul),
    "div": _elementwise(torch.div),
    "neg": lambda x: -x,
    "linear": _linear,
    "matmul": _matmul,
    "conv": _conv,
    "batch_norm": _batch_norm,
    "relu": F.relu,
    "leaky_relu": lambda x, *, slope: F.leaky_relu(x, slope),
    "clip": lambda x, *, low, high: x.clamp(low, high),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softmax": lambda x, *, axis: x.softmax(axis + 1),
    "sign": torch.sign,
    "floor": torch.floor,
    "round": torch.round,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "reshape": lambda x, *, shape: x.reshape(len(x), *shape),
    "transpose": lambda x, *, order: x.permute(0, *(axis + 1 for axis in order)),
    "pad": lambda x, *, amounts, value=0.0: F.pad(x, amounts, value=value),
    "concat": _concat,
    "slice": _slice,
    "gather": _gather,
    "reduce": _reduce,
    "identity": lambda x: x,
}
