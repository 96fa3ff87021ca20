"""Verdicts hold for onnxruntime's default session, which merges factors into neighboring products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import radii
from radii.errors import InputError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def write(path: Path, nodes: list[tuple[str, list[str], str]], constants: dict[str, Any], shape: list[int]) -> Path:
    helper, numbers = onnx.helper, onnx.numpy_helper
    made = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes]
    ends = [helper.make_tensor_value_info(name, 1, size) for name, size in (("x", shape), ("y", [1, 2]))]
    known = [numbers.from_array(np.asarray(value, dtype=np.float32), name) for name, value in constants.items()]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], known)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def asked(path: Path, x: list[float], shape: list[int], optimized: bool) -> float:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    return float(session.run(None, {"x": np.array(x, dtype=np.float32).reshape(shape)})[0].flatten()[0])


def judged(folder: Path, network: Path, inputs: int, upper: float, claim: str) -> str:
    lines = [f"(declare-const X_{i} Real)\n(assert (>= X_{i} 0))\n(assert (<= X_{i} {upper}))" for i in range(inputs)]
    lines += ["(declare-const Y_0 Real)", "(declare-const Y_1 Real)", f"(assert {claim})"]
    (folder / "p.vnnlib").write_text("\n".join(lines))
    try:
        return radii.verify(network, folder / "p.vnnlib", seconds=3).verdict
    except InputError:
        return "refused"


def test_a_factor_that_is_moved_behind_a_product_may_overflow(tmp_path: Path) -> None:
    """1e-38 x before the weights 3e38: merged, their sum is infinite in a corner that random points miss."""
    nodes = [("Mul", ["x", "s"], "a"), ("MatMul", ["a", "W"], "y")]
    path = write(tmp_path / "n.onnx", nodes, {"s": 1e-38, "W": [[3e38, 0], [3e38, 1]]}, [1, 2])
    assert asked(path, [0.57, 0.57], [1, 2], optimized=False) < 4
    assert asked(path, [0.57, 0.57], [1, 2], optimized=True) == np.inf
    assert judged(tmp_path, path, 2, 0.57, "(>= Y_0 100)") != "unsat"
    assert judged(tmp_path, path, 2, 0.5, "(>= Y_0 100)") == "unsat"  # at most 3e38: nothing overflows


@pytest.mark.parametrize("kind", ["Mul", "BatchNormalization"])
def test_a_factor_that_is_merged_into_a_convolution_may_underflow(kind: str, tmp_path: Path) -> None:
    """1e-25 and 3e-30 are merged into 0; what follows shows the difference only where x is above 0.95."""
    norm = {"g": [3e-30], "b": [0.0], "m": [0.0], "v": [1.0]} if kind != "Mul" else {"g": [[[[3e-30]]]]}
    constants = {"up": 1e20, "W": [[[[1e-25]]]], "back": 1e35 / 3, "L": [[1.0, 0.0]], "lb": [-0.95, 0.0]} | norm
    nodes = [
        ("Mul", ["x", "up"], "a"),
        ("Conv", ["a", "W"], "c"),
        (kind, ["c", *norm], "n"),
        ("Mul", ["n", "back"], "u"),
        ("Flatten", ["u"], "f"),
        ("MatMul", ["f", "L"], "q"),
        ("Add", ["q", "lb"], "r"),
        ("Relu", ["r"], "y"),
    ]
    path = write(tmp_path / "n.onnx", nodes, constants, [1, 1, 1, 1])
    values = [asked(path, [1.0], [1, 1, 1, 1], optimized) for optimized in (False, True)]
    assert values == [pytest.approx(0.05, abs=1e-4), 0.0]
    assert judged(tmp_path, path, 1, 1.0, "(>= Y_0 0.04)") != "unsat"
    assert judged(tmp_path, path, 1, 1.0, "(<= Y_0 -0.01)") != "sat"
