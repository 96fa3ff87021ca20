"""An ONNX network as matrices on flat vectors, read for the checker alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]
Shape = tuple[int, ...]


class ProofError(ValueError):
    """A proof is rejected, or the checker does not understand its network; the sentence says why."""


@dataclass(frozen=True)
class PlainStep:
    """A value: ``affine`` is matrix x + bias, ``sum`` adds values, ``relu`` cuts at 0.

    ``matrix`` [out, in] is None for the identity; ``terms`` is how many rounded products float32 sums, 0 if exact.
    """

    kind: str
    sources: tuple[int, ...]
    size: int
    matrix: Any = None
    bias: Array | None = None
    terms: int = 0


@dataclass(frozen=True)
class PlainNetwork:
    """Steps by the number of their value, from 1; value 0 is the input, the last one the output."""

    steps: tuple[PlainStep, ...]
    inputs: int

    @property
    def output(self) -> int:
        """The number of the last value."""
        return len(self.steps) - 1

    def relus(self) -> list[int]:
        """The numbers of the ReLUs, in the order of the file."""
        return [number for number, step in enumerate(self.steps) if step.kind == "relu"]


def read_plain(raw: bytes) -> PlainNetwork:
    """The network in ``raw``, the bytes of an ONNX file."""
    import onnx

    try:
        model = onnx.load_model_from_string(raw)
        if model.functions:
            raise ProofError(f"The checker does not understand functions of a file: {model.functions[0].name}.")
        return _Reading(model.graph, {entry.domain: entry.version for entry in model.opset_import}.get("", 1)).whole()
    except ProofError:
        raise
    except Exception as error:
        raise ProofError(
            f"The network cannot be read: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from error


def _numbers(tensor: Any) -> Array:
    """The numbers in the file itself; a proof says nothing of numbers in files that lie elsewhere."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL:
        raise ProofError(f"The weights {tensor.name!r} lie in another file, which a proof does not hold.")
    return numpy_helper.to_array(tensor)


class _Reading:
    """A file while it is read: constants by name, and for every value its number and the shape in the file."""

    def __init__(self, graph: Any, opset: int) -> None:
        self.graph, self.opset = graph, opset
        self.fixed: dict[str, Array] = {entry.name: _numbers(entry) for entry in graph.initializer}
        (entry,) = (entry for entry in graph.input if entry.name not in self.fixed)
        sizes = [size.dim_value for size in entry.type.tensor_type.shape.dim]
        shape = (max(1, sizes[0]), *sizes[1:])
        self.values: dict[str, tuple[int, Shape]] = {entry.name: (0, shape)}
        self.steps = [PlainStep("input", (), prod(shape))]

    def whole(self) -> PlainNetwork:
        from onnx import helper

        for node in self.graph.node:
            given = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
            if node.domain not in ("", "ai.onnx"):
                raise self.refusal(node)
            if node.op_type == "Constant":
                self.fixed[node.output[0]] = _numbers(given["value"])
            elif node.op_type in _MOVES:
                self._move(node, given)
            elif node.op_type in _LAYERS:
                _LAYERS[node.op_type](self, node, given)
            else:
                raise self.refusal(node)
        number, _ = self.values[self.graph.output[0].name]
        if number != len(self.steps) - 1:
            self.add(
                self.graph.output[0].name,
                (self.steps[number].size,),
                PlainStep("affine", (number,), self.steps[number].size),
            )
        return PlainNetwork(tuple(self.steps), self.steps[0].size)

    def refusal(self, node: Any) -> ProofError:
        return ProofError(f"The checker does not understand node {node.name or node.output[0]!r} ({node.op_type}).")

    def add(self, name: str, shape: Shape, step: PlainStep) -> None:
        self.steps.append(step)
        self.values[name] = (len(self.steps) - 1, shape)

    def affine(self, node: Any, shape: Shape, matrix: Any, bias: Array | None, terms: int) -> None:
        number, _ = self.values[node.input[0]]
        whole = None if bias is None else np.broadcast_to(bias.astype(np.float64), shape).ravel()
        self.add(node.output[0], shape, PlainStep("affine", (number,), prod(shape), matrix, whole, terms))

    def _move(self, node: Any, given: dict[str, Any]) -> None:
        """Values that only change their places: an index array goes through the same move."""
        parts = [entry for entry in node.input if entry in self.values]
        rest = [self.fixed[entry].tolist() if entry else None for entry in node.input if entry not in self.values]
        if node.op_type == "Concat" and rest:
            raise self.refusal(node)
        starts = np.cumsum([0, *(prod(self.values[part][1]) for part in parts)])
        arrays = [
            np.arange(a, b).reshape(self.values[p][1]) for p, a, b in zip(parts, starts, starts[1:], strict=False)
        ]
        places = _MOVES[node.op_type](arrays, rest, given)
        flat, total = places.ravel(), int(starts[-1])
        numbers = [self.values[part][0] for part in parts]
        if len(parts) == 1 and np.array_equal(flat, np.arange(total)):
            self.values[node.output[0]] = (numbers[0], places.shape)
            return
        pick = sparse.csr_matrix((np.ones(len(flat)), (np.arange(len(flat)), flat)), shape=(len(flat), total))
        made = []
        for number, start, stop in zip(numbers, starts, starts[1:], strict=False):
            self.steps.append(PlainStep("affine", (number,), len(flat), pick[:, start:stop]))
            made.append(len(self.steps) - 1)
        self.values[node.output[0]] = (made[0], places.shape)
        if len(made) > 1:  # every coordinate has one part that is not 0
            self.add(node.output[0], places.shape, PlainStep("sum", tuple(made), len(flat)))


def _axes(rest: list[Any], given: dict[str, Any]) -> tuple[int, ...]:
    return tuple(rest[0] if rest else given.get("axes", ()))


def _squeezed(arrays: list[Array], rest: list[Any], given: dict[str, Any]) -> Array:
    return np.squeeze(arrays[0], _axes(rest, given) or None)


def _sliced(arrays: list[Array], rest: list[Any], given: dict[str, Any]) -> Array:
    starts, ends = (rest[0], rest[1]) if rest else (given["starts"], given["ends"])
    axes = rest[2] if len(rest) > 2 and rest[2] is not None else given.get("axes", range(len(starts)))
    steps = rest[3] if len(rest) > 3 and rest[3] is not None else [1] * len(starts)
    cuts = [slice(None)] * arrays[0].ndim
    for axis, start, stop, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1:
            raise ProofError("The checker does not understand a Slice that runs backward.")
        cuts[axis] = slice(start, stop, step)
    return arrays[0][tuple(cuts)]


def _dropped(arrays: list[Array], rest: list[Any], given: dict[str, Any]) -> Array:
    if any(rest[1:]) or given.get("is_test", 1) == 0:
        raise ProofError("The checker does not understand a Dropout in training mode: it draws random numbers.")
    return arrays[0]


def _flattened(arrays: list[Array], _: list[Any], given: dict[str, Any]) -> Array:
    axis = given.get("axis", 1) % (arrays[0].ndim + 1)
    return arrays[0].reshape(prod(arrays[0].shape[:axis]), -1)


def _reshaped(arrays: list[Array], rest: list[Any], _: dict[str, Any]) -> Array:
    sizes = [arrays[0].shape[place] if size == 0 else size for place, size in enumerate(rest[0])]
    return arrays[0].reshape(sizes)


_MOVES: dict[str, Callable[[list[Array], list[Any], dict[str, Any]], Array]] = {
    "Identity": lambda arrays, *_: arrays[0],
    "Dropout": _dropped,
    "Flatten": _flattened,
    "Reshape": _reshaped,
    "Squeeze": _squeezed,
    "Unsqueeze": lambda arrays, rest, given: np.expand_dims(arrays[0], _axes(rest, given)),
    "Transpose": lambda arrays, _, given: arrays[0].transpose(given.get("perm")),
    "Slice": _sliced,
    "Concat": lambda arrays, _, given: np.concatenate(arrays, given["axis"]),
}


def _relu(reading: _Reading, node: Any, _: dict[str, Any]) -> None:
    number, shape = reading.values[node.input[0]]
    reading.add(node.output[0], shape, PlainStep("relu", (number,), prod(shape)))


def _dense(reading: _Reading, node: Any, given: dict[str, Any]) -> None:
    """Gemm x W + b, or MatMul of one row with a matrix."""
    shape, weight = reading.values[node.input[0]][1], reading.fixed[node.input[1]].astype(np.float64)
    plain = given.get("alpha", 1.0) == 1.0 and given.get("beta", 1.0) == 1.0 and not given.get("transA", 0)
    weight = weight if given.get("transB", 0) else weight.T
    if not plain or weight.ndim != 2 or prod(shape) != weight.shape[1]:
        raise reading.refusal(node)
    bias = reading.fixed[node.input[2]].ravel() if len(node.input) > 2 else None
    reading.affine(node, (*shape[:-1], len(weight)), np.ascontiguousarray(weight), bias, weight.shape[1])


def _add(reading: _Reading, node: Any, _: dict[str, Any]) -> None:
    """Two values, or a value and a constant; also differences."""
    names, sign = list(node.input), -1.0 if node.op_type == "Sub" else 1.0
    if all(name in reading.values for name in names):
        (first, shape), (second, other) = (reading.values[name] for name in names)
        if shape != other or sign < 0:
            raise reading.refusal(node)
        reading.add(node.output[0], shape, PlainStep("sum", (first, second), prod(shape), terms=1))
        return
    moving, constant = (0, 1) if names[0] in reading.values else (1, 0)
    if moving == 1 and sign < 0:
        raise reading.refusal(node)
    number, shape = reading.values[names[moving]]
    bias = np.broadcast_to(sign * reading.fixed[names[constant]].astype(np.float64), shape).ravel()
    reading.add(node.output[0], shape, PlainStep("affine", (number,), prod(shape), None, bias, 1))


def _conv(reading: _Reading, node: Any, given: dict[str, Any]) -> None:
    (_, channels, *sizes), weight = reading.values[node.input[0]][1], reading.fixed[node.input[1]].astype(np.float64)
    rank, groups = len(sizes), given.get("group", 1)
    stride, dilation = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    pads = given.get("pads", [0] * 2 * rank)
    if given.get("auto_pad", b"NOTSET") != b"NOTSET" or groups != 1:
        raise reading.refusal(node)
    kernel = weight.shape[2:]
    outs = [
        (size + pads[k] + pads[k + rank] - dilation[k] * (kernel[k] - 1) - 1) // stride[k] + 1
        for k, size in enumerate(sizes)
    ]
    out = np.indices((weight.shape[0], *outs, channels, *kernel)).reshape(2 + 2 * rank, -1)
    inside, flat = np.ones(out.shape[1], dtype=bool), out[rank + 1]
    for k in range(rank):
        place = out[k + 1] * stride[k] - pads[k] + out[rank + 2 + k] * dilation[k]
        inside &= (place >= 0) & (place < sizes[k])
        flat = flat * sizes[k] + place
    row = np.ravel_multi_index(tuple(out[: rank + 1]), (weight.shape[0], *outs))
    value = weight[(out[0], out[rank + 1], *out[rank + 2 :])]
    shape = (weight.shape[0] * prod(outs), channels * prod(sizes))
    matrix = sparse.csr_matrix((value[inside], (row[inside], flat[inside])), shape=shape)
    bias = reading.fixed[node.input[2]].reshape(-1, *[1] * rank) if len(node.input) > 2 else None
    reading.affine(node, (1, weight.shape[0], *outs), matrix, bias, prod(weight.shape[1:]))


_LAYERS: dict[str, Callable[[_Reading, Any, dict[str, Any]], None]] = {
    "Relu": _relu,
    "Gemm": _dense,
    "MatMul": _dense,
    "Add": _add,
    "Sub": _add,
    "Conv": _conv,
}
