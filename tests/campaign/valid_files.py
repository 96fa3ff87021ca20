"""Small valid files, made once, of the formats whose damage matters most: networks, properties, images, runs."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

PROPERTY = """(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (>= X_0 0.1))
(assert (<= X_0 0.4))
(assert (>= X_1 0.1))
(assert (<= X_1 0.4))
(assert (or (and (<= Y_0 Y_1)) (and (>= Y_0 3.0))))
"""


@cache
def onnx(inputs: int = 2, outputs: int = 2) -> bytes:
    """A network of two products with a ReLU between them."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    sizes = [(inputs, 6), (6,), (6, outputs), (outputs,)]
    weights = [
        numpy_helper.from_array(draw.normal(size=size).astype(np.float32), f"w{k}") for k, size in enumerate(sizes)
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "w1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "w3"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", inputs), ("y", outputs))
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@cache
def png() -> bytes:
    """An image of 8 x 8 pixels."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (8, 8), dtype=np.uint8)).save(out, "PNG")
    return out.getvalue()


@cache
def run_folder() -> dict[str, bytes]:
    """The files of a short training, by their paths below the store."""
    from radii.runs.planning import data_spec, train_step
    from radii.runs.store import Store

    with tempfile.TemporaryDirectory() as top:
        store = Store(Path(top))
        run = store.ensure(train_step(data_spec("digits", store), "mlp", "natural", {"epochs": 1}))
        return {str(path.relative_to(top)): path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
