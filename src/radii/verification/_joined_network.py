"""Networks of a property as one network of one input and one output, written as ONNX.

The joined input holds every coordinate of the property once; slices of it are the inputs of the networks. The joined
output holds all hidden values and outputs, and then the coordinates that constraints tie to others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from radii.errors import InputError
from radii.models.io.exported_programs import onnx_session
from radii.networks.read_onnx import load_onnx, load_proto
from radii.verification._runnable_network import Deployed
from radii.verification._vnnlib_cases import Layout
from radii.verification._vnnlib_formulas import Declared, DeclaredNetwork
from radii.verification.vnnlib import Query

if TYPE_CHECKING:
    import onnx

INPUT, OUTPUT = "radii.input", "radii.output"
INPUTS_OF_SLICE = 10  # the opset from which Slice takes its ends as inputs


def joined(files: Mapping[str, Path], query: Query) -> Deployed:
    """The networks of ``query`` as one that runs, from the file of each."""
    parts = [_Part.read(declared, files[declared.name]) for declared in query.layout.networks]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "joined.onnx"
        _write(_joined(parts, query), path)
        module = load_onnx(path)
    runtime, optimized = (_PartsRuntime(parts, query.layout, optimized) for optimized in (False, True))
    return Deployed(module, module.graph.input_shape, runtime, optimized)


@dataclass(frozen=True)
class _Part:
    """A declared network with its file; the values of the graph in the order of the declared tensors."""

    declared: DeclaredNetwork
    path: Path
    model: onnx.ModelProto
    values: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]  # of the inputs

    @classmethod
    def read(cls, declared: DeclaredNetwork, path: Path) -> _Part:
        from onnx import TensorProto

        model = load_proto(path)
        fixed = {entry.name for entry in model.graph.initializer}
        inputs = {entry.name: entry for entry in model.graph.input if entry.name not in fixed}
        ends = {
            "input": list(inputs),
            "output": [entry.name for entry in model.graph.output],
            "hidden": [name for node in model.graph.node for name in node.output],
        }
        values = tuple(_matched(path, declared, tensor, ends[tensor.role]) for tensor in declared.tensors)
        taken = [value for value, tensor in zip(values, declared.tensors, strict=True) if tensor.role == "input"]
        if sorted(taken) != sorted(inputs):
            raise InputError(f"{path} has {len(inputs)} inputs, the property declares {len(set(taken))} of them.")
        for name in taken:
            if inputs[name].type.tensor_type.elem_type != TensorProto.FLOAT:
                raise InputError(f"{path}: its input {name!r} must be float32.")
        return cls(declared, path, model, values, tuple(_shape(path, inputs[name]) for name in taken))

    def inputs(self) -> Iterator[tuple[Declared, str, tuple[int, ...]]]:
        """Each declared input, its name in the graph, and its shape there."""
        pairs = zip(self.declared.tensors, self.values, strict=True)
        for (tensor, name), shape in zip([pair for pair in pairs if pair[0].role == "input"], self.shapes, strict=True):
            if prod(shape) != tensor.size:
                raise InputError(f"{self.path}: its input {name!r} has shape {shape}, the property {tensor.shape}.")
            yield tensor, name, shape

    def outputs(self) -> list[tuple[Declared, str]]:
        """The declared hidden values and outputs, and their names in the graph."""
        pairs = zip(self.declared.tensors, self.values, strict=True)
        return [pair for pair in pairs if pair[0].role != "input"]


def _matched(path: Path, declared: DeclaredNetwork, tensor: Declared, names: list[str]) -> str:
    """The value of the graph that a declared tensor is: by its ONNX name, or by its place."""
    if tensor.onnx_name:
        if tensor.onnx_name not in names:
            raise InputError(f"{path} has no {tensor.role} {tensor.onnx_name!r}, which the property names.")
        return tensor.onnx_name
    place = [other.name for other in declared.tensors if other.role == tensor.role].index(tensor.name)
    if place >= len(names):
        raise InputError(f"{path} has {len(names)} {tensor.role}s, the property declares more.")
    return names[place]


def _shape(path: Path, entry: Any) -> tuple[int, ...]:
    """The static shape of an input; a first size that is not known is 1."""
    sizes = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
    shape = (max(1, sizes[0]), *sizes[1:]) if sizes else ()
    if min(shape, default=1) < 1:
        raise InputError(f"{path}: the shape of its input {entry.name!r} is not known: {sizes}.")
    return shape


def _joined(parts: Sequence[_Part], query: Query) -> onnx.ModelProto:
    """One model of all networks; names of network k begin with ``k.``."""
    from onnx import TensorProto, compose, helper, shape_inference

    building = _Building(_opset(parts))
    models = [compose.add_prefix(part.model, f"{number}.") for number, part in enumerate(parts)]
    ends = list[str]()
    for number, (part, model) in enumerate(zip(parts, models, strict=True)):
        for tensor, name, shape in part.inputs():
            wanted = query.layout.source[tensor.first : tensor.first + tensor.size]
            building.reshape(building.picked(wanted), shape, f"{number}.{name}")
        building.nodes += model.graph.node
        building.tensors += model.graph.initializer
        for tensor, name in part.outputs():
            ends.append(building.reshape(f"{number}.{name}", (1, tensor.size)))
    if query.layout.carried:
        ends.append(building.picked(query.layout.carried))
    building.node("Concat", ends, OUTPUT, axis=1)
    floats = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
        for name, size in ((INPUT, query.inputs), (OUTPUT, query.outputs))
    ]
    graph = helper.make_graph(building.nodes, "joined", floats[:1], floats[1:], building.tensors)
    domains = {entry.domain: entry for part in parts for entry in part.model.opset_import}
    model = helper.make_model(graph, opset_imports=list(domains.values()))
    model.functions.extend(function for one in models for function in one.functions)
    model.ir_version = max(part.model.ir_version for part in parts)
    try:
        return shape_inference.infer_shapes(model, strict_mode=True)
    except shape_inference.InferenceError as error:
        raise InputError(f"The networks do not fit their property: {str(error).splitlines()[0]}") from error


def _opset(parts: Sequence[_Part]) -> int:
    versions = {(entry.domain, entry.version) for part in parts for entry in part.model.opset_import}
    if len({domain for domain, _ in versions}) < len(versions):
        raise InputError("The networks of the property use different opsets of ONNX; convert them to the same one.")
    return max((version for domain, version in versions if domain in ("", "ai.onnx")), default=1)


class _Building:
    """Nodes and constants of a graph while it is joined."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes = list[Any]()
        self.tensors = list[Any]()

    def node(self, kind: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"radii.{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], output, **attributes))
        return output

    def constant(self, values: Sequence[int]) -> str:
        from onnx import numpy_helper

        name = f"radii.constant.{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.array(values, dtype=np.int64), name))
        return name

    def reshape(self, name: str, shape: Sequence[int], output: str = "") -> str:
        return self.node("Reshape", [name, self.constant(shape)], output)

    def picked(self, places: Sequence[int]) -> str:
        """These coordinates of the joined input, [1, count]: slices of runs, side by side."""
        breaks = [place for place, (a, b) in enumerate(pairwise(places), 1) if b != a + 1]
        runs = [(places[a], places[b - 1] + 1) for a, b in pairwise([0, *breaks, len(places)])]
        parts = [self.sliced(start, stop) for start, stop in runs]
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, axis=1)

    def sliced(self, start: int, stop: int) -> str:
        if self.opset < INPUTS_OF_SLICE:
            return self.node("Slice", [INPUT], axes=[1], starts=[start], ends=[stop])
        return self.node("Slice", [INPUT, *(self.constant([value]) for value in (start, stop, 1))])


def _write(model: onnx.ModelProto, path: Path) -> None:
    import onnx

    try:
        onnx.save(model, str(path))
    except ValueError as error:
        raise InputError("The networks of the property are too large to be joined: 2 GB at most.") from error


class _PartsRuntime:
    """The networks of a property run by onnxruntime, each from its own file, on joined inputs [n, inputs]."""

    def __init__(self, parts: Sequence[_Part], layout: Layout, optimized: bool) -> None:
        self._layout = layout
        self._parts = [(part, _session_of(part, optimized)) for part in parts]

    def __call__(self, x: Tensor) -> Tensor:
        """Joined outputs [n, outputs] of each row of ``x``."""
        return torch.stack([self._row(row) for row in x.detach().numpy().astype(np.float32)])

    def _row(self, row: Any) -> Tensor:
        declared = row[list(self._layout.source)]
        found = []
        for part, session in self._parts:
            feeds = {
                name: declared[tensor.first : tensor.first + tensor.size].reshape(shape)
                for tensor, name, shape in part.inputs()
            }
            found += session.run([name for _, name in part.outputs()], feeds)
        found.append(row[list(self._layout.carried)])
        return torch.from_numpy(np.concatenate([np.asarray(value, dtype=np.float32).reshape(-1) for value in found]))


def _session_of(part: _Part, optimized: bool) -> Any:
    """A session of the part's file; hidden values that the property names become outputs."""
    hidden = [name for tensor, name in part.outputs() if tensor.role == "hidden"]
    if not hidden:
        return onnx_session(part.path, threads=1, optimized=optimized)
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(part.model)
    known = {entry.name for entry in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in hidden if name not in known)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hidden.onnx"
        _write(model, path)
        return onnx_session(path, threads=1, optimized=optimized)
