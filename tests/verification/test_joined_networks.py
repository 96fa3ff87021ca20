"""Properties of several networks, inputs, outputs and hidden values, and ties between them."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from radii.errors import InputError
from radii.models.io.export import export
from radii.verification.verify import Verification, verify

TWO = """(vnnlib-version <2.0>)
(declare-network f (declare-input X real [1,2]) (declare-output Y real [1,1]))
(declare-network g ({how} f) (declare-input U real [1,2]) (declare-output V real [1,1]))
(assert (and (>= X[0,0] -1.0) (<= X[0,0] 1.0) (>= X[0,1] -1.0) (<= X[0,1] 1.0)))
"""
SAME = "(assert (== U[0,0] X[0,0]))(assert (== X[0,1] U[0,1]))\n"


def saved(folder: Path, name: str, first: list[list[float]], second: list[float]) -> Path:
    """second . relu(first x), as ONNX."""
    model = nn.Sequential(nn.Linear(2, len(first), bias=False), nn.ReLU(), nn.Linear(len(first), 1, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(first))
        model[2].weight.copy_(torch.tensor([second]))
    export(model.eval(), folder / name, (2,), certificate=False)
    return folder / name


def asked(folder: Path, text: str) -> Path:
    (folder / "p.vnnlib").write_text(text)
    return folder / "p.vnnlib"


def tensors(answer: Verification) -> dict[str, list[Fraction]]:
    """A counterexample in the format of version 2."""
    verdict, *lines = answer.text().splitlines()
    assert verdict == "sat"
    found: dict[str, list[Fraction]] = {}
    for line in lines:
        head = re.fullmatch(r"(\w+) (real|float32) \[([0-9,]*)\]", line)
        if head:
            name = head[1]
            found[name] = []
        else:
            found[name].append(Fraction(line))
    return found


def test_two_networks_differ_at_most_by_what_they_can(tmp_path: Path) -> None:
    """f = |x|, g = 1.25 |x| on [-1, 1]: they differ by 0.25 at most, at the ends."""
    f = saved(tmp_path, "f.onnx", [[1.0, 0.0], [-1.0, 0.0]], [1.0, 1.0])
    g = saved(tmp_path, "g.onnx", [[1.0, 0.0], [-1.0, 0.0]], [1.25, 1.25])
    for limit, verdict in (("0.2501", "unsat"), ("0.2", "sat")):
        text = TWO.format(how="isomorphic-to") + SAME + f"(assert (> (- V[0,0] Y[0,0]) {limit}))"
        answer = verify({"f": f, "g": g}, asked(tmp_path, text), seconds=60)
        assert answer.verdict == verdict
    found = tensors(answer)
    assert list(found) == ["X", "Y", "U", "V"]
    assert found["X"] == found["U"]
    assert found["V"][0] - found["Y"][0] > Fraction("0.2")
    assert answer.counterexample is not None
    assert answer.counterexample.shape == (4,)
    listed = f"[('f', '{f.name}'), ('g', '{g.name}')]"
    assert verify(tmp_path / listed, tmp_path / "p.vnnlib", seconds=60).verdict == "sat"


@pytest.mark.parametrize(("sign", "verdict"), [("<", "unsat"), (">", "sat")])
def test_one_network_twice_is_monotonic(tmp_path: Path, sign: str, verdict: str) -> None:
    """f = relu(x_0) - relu(x_1): at least as much where x_0 is larger. The second box follows from the tie."""
    f = saved(tmp_path, "f.onnx", [[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    text = TWO.format(how="equal-to") + "(assert (== U[0,1] X[0,1]))(assert (and (<= U[0,0] X[0,0]) (>= U[0,0] -1.0)))"
    text += f"(assert ({sign}= (+ Y[0,0] 0.3) V[0,0]))"
    answer = verify(f, asked(tmp_path, text), seconds=60)
    assert answer.verdict == verdict
    if verdict == "sat":
        found = tensors(answer)
        assert found["U"][0] <= found["X"][0]
        assert found["U"][1] == found["X"][1]


def test_inputs_and_outputs_are_tied(tmp_path: Path) -> None:
    """f = |x_0| has a value above x_0 + 1, and none above 1.5 - x_0 / 2 within [-1, 1]."""
    f = saved(tmp_path, "f.onnx", [[1.0, 0.0], [-1.0, 0.0]], [1.0, 1.0])
    text = """(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)
(assert (>= X_0 -1))(assert (<= X_0 1))(assert (>= X_1 0))(assert (<= X_1 1))
"""
    assert verify(f, asked(tmp_path, text + "(assert (> Y_0 (+ X_0 1)))"), seconds=60).verdict == "sat"
    assert verify(f, asked(tmp_path, text + "(assert (> Y_0 (- 1.51 (* 0.5 X_0))))"), seconds=60).verdict == "unsat"
    answer = verify(f, asked(tmp_path, text + "(assert (> X_1 (+ X_0 1.5)))(assert (> Y_0 0.25))"), seconds=60)
    assert answer.verdict == "sat"
    assert answer.counterexample is not None
    assert answer.counterexample[1] > answer.counterexample[0] + 1.5
    with pytest.raises(InputError, match="A proof is written for one network"):
        verify(f, tmp_path / "p.vnnlib", proof=tmp_path / "x.proof")


def many(folder: Path, opset: int) -> Path:
    """Y = relu(A) + relu(B), Z = -relu(A), with A [1,2] and B [2]; the hidden value ``h`` is relu(A)."""
    nodes = [
        helper.make_node("Relu", ["a"], ["h"], "first"),
        helper.make_node("Relu", ["b"], ["k"], "second"),
        helper.make_node("Add", ["h", "k"], ["y"], "sum"),
        helper.make_node("Mul", ["h", "minus"], ["z"], "turned"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in
            (("a", [1, 2]), ("b", [1, 2]), ("y", [1, 2]), ("z", [1, 2]))]  # fmt: skip
    minus = numpy_helper.from_array(np.full((1, 2), -1.0, dtype=np.float32), "minus")
    graph = helper.make_graph(nodes, "many", ends[:2], ends[2:], [minus])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, str(folder / "many.onnx"))
    return folder / "many.onnx"


MANY = """(vnnlib-version <2.0>)
(declare-network f
  (declare-input B float32 [2] "b")
  (declare-input A float32 [1,2] "a")
  (declare-hidden H float32 [2] "h")
  (declare-output Z float32 [2] "z")
  (declare-output Y float32 [1,2] "y"))
(assert (and (>= B[0] -1.0) (<= B[0] 0.5) (>= B[1] -1.0) (<= B[1] 0.5)))
(assert (and (>= A[0,0] -1.0) (<= A[0,0] 1.0) (>= A[0,1] -1.0) (<= A[0,1] 1.0)))
"""


@pytest.mark.parametrize("opset", [9, 13])
def test_several_inputs_outputs_and_a_hidden_value(tmp_path: Path, opset: int) -> None:
    network = many(tmp_path, opset)
    text = MANY + "(assert (and (>= Y[0,0] 1.25) (<= Z[1] -0.25) (<= H[0] 0.9)))"
    answer = verify(network, asked(tmp_path, text), seconds=60)
    found = tensors(answer)
    assert list(found) == ["B", "A", "H", "Z", "Y"]
    session = onnxruntime.InferenceSession(str(network))
    feeds = {"a": np.array([found["A"]], dtype=np.float32), "b": np.array([found["B"]], dtype=np.float32)}
    y, z = session.run(["y", "z"], feeds)
    assert y[0].tolist() == [float(value) for value in found["Y"]]
    assert z[0].tolist() == [float(value) for value in found["Z"]]
    assert found["H"][0] == max(found["A"][0], 0)
    assert verify(network, asked(tmp_path, text.replace("1.25", "1.41")), seconds=60).verdict == "unsat"


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    f = saved(tmp_path, "f.onnx", [[1.0, 0.0]], [1.0])
    g = saved(tmp_path, "g.onnx", [[1.0, 0.5]], [1.0])
    equal = asked(tmp_path, TWO.format(how="equal-to") + SAME + "(assert (<= Y[0,0] 1.0))")
    with pytest.raises(InputError, match="must be the network 'f'"):
        verify({"f": f, "g": g}, equal)
    with pytest.raises(InputError, match="no network 'h'"):
        verify({"f": f, "h": g}, equal)
    other = asked(tmp_path, TWO.format(how="isomorphic-to") + SAME + "(assert (<= Y[0,0] 1.0))")
    with pytest.raises(InputError, match="networks f, g; give a file for each"):
        verify(f, other)
    with pytest.raises(InputError, match="'g' of the property has no file"):
        verify({"f": f}, other)
    with pytest.raises(InputError, match="no hidden 'nothing'"):
        verify(many(tmp_path, 13), asked(tmp_path, MANY.replace('"h"', '"nothing"') + "(assert (<= H[0] 1.0))"))
    larger = MANY.replace("B float32 [2]", "B float32 [3]") + "(assert (== B[2] 0.0))(assert (<= H[0] 1.0))"
    with pytest.raises(InputError, match="has shape"):
        verify(many(tmp_path, 13), asked(tmp_path, larger))
