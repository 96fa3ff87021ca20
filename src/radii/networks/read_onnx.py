"""ONNX files as graphs: opsets 7 to 23, the operators of ordinary networks, everything else refused by name.

Shapes are static: a batch of unknown size is read as one example. Nodes whose
inputs are all constants are computed while reading; nodes that draw random numbers are
refused wherever they stand, because no constant is what they compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.errors import InputError
from radii.networks._onnx_operators import CONVERSIONS, check_inference
from radii.networks.graph import Graph, GraphNetwork, Node, Shape, run_node
from radii.networks.onnx_content import read_proto

if TYPE_CHECKING:
    import onnx

OPSETS = range(7, 24)
STANDARD = ("", "ai.onnx")
RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


def read_onnx(path: Path) -> Graph:
    """The network of an ONNX file.

    Args:
        path: the file; its external data must lie in the same folder or below it.
    """
    model = load_proto(path)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    opset = versions.get("", versions.get("ai.onnx", 0))
    if opset not in OPSETS:
        raise InputError(f"{path} uses ONNX opset {opset}; opsets {OPSETS.start} to {OPSETS.stop - 1} are understood.")
    for function in model.functions:
        if function.domain in STANDARD:
            raise InputError(f"{path} replaces the operator {function.name} by a function of its own.")
    inside = (entry for function in model.functions for entry in _nodes(function, nested=True))
    for node, nested in (*_nodes(model.graph), *inside):
        if node.domain in STANDARD and _draws(node, nested):
            raise InputError(f"{path}: node {node.name or node.output[0]!r} ({node.op_type}) draws random numbers.")
    return Reader(path, model.graph, opset).read()


def _nodes(part: onnx.GraphProto | onnx.FunctionProto, nested: bool = False) -> Iterator[tuple[onnx.NodeProto, bool]]:
    """The nodes of a graph or function, and those of the graphs inside them (If, Loop, Scan), which are nested."""
    for node in part.node:
        yield node, nested
        for entry in node.attribute:
            for inside in (*entry.graphs, *([entry.g] if entry.HasField("g") else [])):
                yield from _nodes(inside, nested=True)


def _draws(node: onnx.NodeProto, nested: bool) -> bool:
    """Whether a node may draw random numbers; the reader looks at the mode of a Dropout that is not nested."""
    return node.op_type in RANDOM or (nested and node.op_type == "Dropout" and any(node.input[2:3]))


def load_onnx(path: Path) -> GraphNetwork:
    """The network of the ONNX file ``path`` as a torch module with gradients; see :func:`read_onnx`."""
    return GraphNetwork(read_onnx(path)).eval()


def load_proto(path: Path) -> onnx.ModelProto:
    """The model of the ONNX file ``path`` with its external data, which must lie in the file's folder or below it."""
    model = read_proto(path)
    from onnx import external_data_helper

    try:
        external_data_helper.load_external_data_for_model(model, str(path.resolve().parent))
    except Exception as error:
        raise InputError(f"{path}: its external data cannot be read: {str(error).splitlines()[0]}") from error
    return model


@dataclass
class Reader:
    """A file while it is read: constants, examples of the values that move with the input, and nodes so far."""

    path: Path
    source: onnx.GraphProto
    opset: int
    fixed: dict[str, NDArray[Any]] = field(default_factory=dict)
    example: dict[str, Tensor] = field(default_factory=dict)  # [1, …], of the values that move with the input
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)

    def read(self) -> Graph:
        """The graph of the file."""
        from onnx import numpy_helper

        self.fixed = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.source.initializer}
        inputs = [entry for entry in self.source.input if entry.name not in self.fixed]
        if len(inputs) != 1 or len(self.source.output) != 1:
            raise InputError(
                f"{self.path} has {len(inputs)} inputs and {len(self.source.output)} outputs; one of each is needed."
            )
        shape = self._input_shape(inputs[0])
        self.example[inputs[0].name] = torch.zeros(1, *shape)
        with torch.no_grad():
            for node in self.source.node:
                self._node(node)
        output = self.source.output[0].name
        if output not in self.example:
            raise InputError(f"{self.path}: its output {output!r} does not depend on its input.")
        return Graph(tuple(self.nodes), self.constants, inputs[0].name, shape, output)

    def _input_shape(self, entry: onnx.ValueInfoProto) -> Shape:
        from onnx import TensorProto

        kind = entry.type.tensor_type
        if kind.elem_type != TensorProto.FLOAT:
            raise InputError(f"{self.path}: its input {entry.name!r} must be float32.")
        sizes = [dim.dim_value for dim in kind.shape.dim]
        if sizes and sizes[0] <= 0:
            sizes[0] = 1
        if not sizes or min(sizes) <= 0:
            raise InputError(f"{self.path}: the shape of its input {entry.name!r} is not known: {sizes}.")
        return tuple(sizes)

    def _node(self, source: onnx.NodeProto) -> None:
        from onnx import helper

        names = [name for name in source.input if name]
        attributes = {entry.name: helper.get_attribute_value(entry) for entry in source.attribute}
        if source.domain not in STANDARD:
            raise self.refusal(source, f"is of the domain {source.domain!r}")
        if source.op_type == "Dropout":
            check_inference(self, source, attributes)
        if source.op_type == "Shape":
            self.fixed[source.output[0]] = np.array(self.shape(names[0]), dtype=np.int64)[
                slice(attributes.get("start", 0), attributes.get("end"))
            ]
        elif all(name in self.fixed for name in names):
            self._fold(source)
        else:
            missing = [name for name in names if name not in self.fixed and name not in self.example]
            if missing:
                raise self.refusal(source, f"reads {missing[0]!r}, which no node before it computes")
            convert = CONVERSIONS.get(source.op_type)
            if convert is None:
                raise self.refusal(source, "is not among the operators that are understood")
            convert(self, source, attributes)

    def shape(self, name: str) -> Shape:
        """The file's shape of a value."""
        return tuple(self.example[name].shape[1:] if name in self.example else self.fixed[name].shape)

    def refusal(self, source: onnx.NodeProto, why: str) -> InputError:
        """The error for a node."""
        return InputError(f"{self.path}: node {source.name or source.output[0]!r} ({source.op_type}) {why}.")

    def _fold(self, source: onnx.NodeProto) -> None:
        """Compute a node of constants."""
        import onnx
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        inputs = {name: self.fixed[name] for name in source.input if name}
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in inputs.items()
        ]
        ends = [onnx.ValueInfoProto(name=name) for name in source.output]
        graph = helper.make_graph([source], "constant", values, ends)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        try:
            outputs = ReferenceEvaluator(model).run(None, inputs)
        except Exception as error:
            raise self.refusal(source, f"cannot be computed: {str(error).splitlines()[0]}") from error
        self.fixed |= {name: np.asarray(value) for name, value in zip(source.output, outputs, strict=True)}

    def numbers(self, source: onnx.NodeProto, place: int) -> list[int] | None:
        """The integers of a constant input, or None where it is left out."""
        value = self.tensor(source, place)
        return None if value is None else [int(number) for number in value.flatten()]

    def tensor(self, source: onnx.NodeProto, place: int) -> NDArray[Any] | None:
        """A constant input, or None where it is left out."""
        name = source.input[place] if place < len(source.input) else ""
        if not name:
            return None
        if name not in self.fixed:
            raise self.refusal(source, f"computes its input {name!r} from the network's input")
        return self.fixed[name]

    def emit(
        self,
        source: onnx.NodeProto,
        operation: str,
        inputs: list[str] | None = None,
        output: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node; its value becomes known by running it on the example."""
        names = [name for name in source.input if name] if inputs is None else inputs
        for name in names:
            if name in self.fixed and name not in self.constants:
                self.constants[name] = _constant(self.fixed[name])
        node = Node(source.name or source.output[0], operation, tuple(names), output or source.output[0], attributes)
        values = [self.example[name] if name in self.example else self.constants[name] for name in names]
        try:
            self.example[node.output] = run_node(node, values, self.constants)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise self.refusal(source, f"does not fit its inputs: {str(error).splitlines()[0]}") from error
        self.nodes.append(node)
        return node.output

    def make_constant(self, name: str, value: NDArray[Any]) -> str:
        """A constant that the file does not have."""
        self.fixed[name] = value
        return name


def _constant(value: NDArray[Any]) -> Tensor:
    tensor = torch.from_numpy(np.array(value))
    return (tensor.float() if tensor.dtype == torch.float64 else tensor)[None]
