"""A frozen network as an ONNX file, operation by operation, with facts beside it under the name ``radii``.

Values are flat between operations, so that a runtime sees a Reshape between a convolution and what follows it and does
not merge their weights, whose products may underflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from radii.errors import InputError
from radii.networks.frozen import Frozen
from radii.networks.operations.operation import Shape

NAME, OPSET, FORMAT = "radii", 20, 9


@dataclass
class _Graph:
    """The nodes and constants so far; see :class:`~radii.networks.operations.operation.OnnxGraph`."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        tensor = value.detach().cpu().contiguous() if isinstance(value, Tensor) else torch.tensor(value)
        self.constants.append(numpy_helper.from_array(tensor.numpy(), name))
        return name

    def shaped(self, value: str, shape: Shape) -> str:
        return value if len(shape) == 1 else self.node("Reshape", value, self.constant([-1, *shape]))

    def flat(self, value: str) -> str:
        return self.node("Flatten", value, axis=1)


def onnx_content(network: Frozen, facts: Mapping[str, Any]) -> bytes:
    """The bytes of an ONNX file that computes the returned values of ``network``; ``facts`` are JSON data."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise InputError("Writing ONNX needs the extra packages: pip install onnx onnxruntime onnxscript.") from None
    program = network.program
    if program.dtype != torch.float32:
        raise InputError("ONNX files are written of float32 networks: certify model.float().")
    graph = _Graph()
    names = {0: graph.flat("pixels")}
    for number, step in program.steps.items():
        names[number] = step.onnx(graph, *(names[source] for source in step.inputs))
    values = _headed(graph, names[program.output], network.head)
    classes = 2 if network.head == "one sigmoid" else program.outputs
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
        for name, shape in (("pixels", program.input_shape), (values, (classes,)))
    ]
    content = helper.make_graph(graph.nodes, NAME, ends[:1], ends[1:], graph.constants)
    model = helper.make_model(content, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT)
    helper.set_model_props(model, {NAME: json.dumps(dict(facts))})
    written: bytes = model.SerializeToString()
    return written


def _headed(graph: _Graph, logits: str, head: str) -> str:
    if not head:
        return logits
    if head == "softmax":
        return graph.node("Softmax", logits, axis=1)
    values = graph.node("Sigmoid", logits)
    if head == "sigmoid":
        return values
    return graph.node("Concat", graph.node("Sub", graph.constant(torch.tensor(1.0)), values), values, axis=1)
