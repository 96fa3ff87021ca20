"""VNN-LIB properties: written, read as queries, and refuted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from radii.errors import InputError
from radii.threat import Ball
from radii.verification._goal import goals
from radii.verification.vnnlib import (
    holds,
    local_robustness,
    parse_query,
    read_counterexample,
    read_query,
    refutes,
    write_instances,
    write_property,
)


def test_reading_gives_what_was_written(tmp_path: Path) -> None:
    x = torch.rand(1, 3, 3, generator=torch.Generator().manual_seed(0))
    statement = local_robustness(x, 2, 4, Ball("linf", 0.1))
    write_property(tmp_path / "p.vnnlib", statement)
    again = read_query(tmp_path / "p.vnnlib")
    assert (again.inputs, again.outputs, len(again.cases)) == (9, 4, 3)
    for case, rival in zip(again.cases, (0, 1, 3), strict=True):
        assert np.array_equal(case.lower, statement.lower)
        assert np.array_equal(case.upper, statement.upper)
        assert np.array_equal(case.matrix, np.eye(4)[[2]] - np.eye(4)[[rival]])  # y_2 - y_rival <= 0
    text = (tmp_path / "p.vnnlib").read_text()
    assert text.count("declare-const X_") == 9
    assert not re.search(r"\de[-+]?\d", text)  # no exponents
    assert text.count("(") == text.count(")")


def test_a_tie_is_a_counterexample_of_what_is_written(tmp_path: Path) -> None:
    """A rival that reaches the label's score is asked for, and one that stays below is not; ends belong to the box."""
    statement = local_robustness(torch.tensor([0.5, 0.25]), 1, 3, Ball("linf", 0.25))
    write_property(tmp_path / "p.vnnlib", statement)
    query = read_query(tmp_path / "p.vnnlib")
    for inputs in (["0.5", "0.25"], ["0.75", "0"], ["0.25", "0.5"]):
        assert holds(query, inputs, ["-1", "0.5", "0.5"])
        assert holds(query, inputs, ["0.6", "0.5", "-1"])
        assert not holds(query, inputs, ["0.49", "0.5", "-1"])
    assert not holds(query, ["0.76", "0.25"], ["1", "0", "0"])


def test_outputs_meet_a_case_strictly_where_it_is_strict() -> None:
    """All rows of one case, by the last digit; NaN meets nothing."""
    head = "(declare-const X_0 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)(assert (== X_0 0.5))"
    outputs = torch.tensor([[0.5, 0.0], [0.25, 0.0], [0.0, 0.0], [0.0, 1.0], [float("nan"), 0.0]])
    for text, met in (
        ("(and (<= Y_0 0.25) (<= Y_1 0))", [False, True, True, False, False]),
        ("(and (< Y_0 0.25) (<= Y_1 0))", [False, False, True, False, False]),
        ("(and (< Y_0 0.25) (>= Y_1 0))", [False, False, True, True, False]),
        ("(and (<= Y_0 0.25) (> Y_1 0))", [False, False, False, True, False]),
        ("(or (> Y_0 0.25) (> Y_1 0))", [True, False, False, True, False]),
    ):
        (goal,) = goals(parse_query(f"{head}(assert {text})"))
        assert goal.met(outputs).tolist() == met, text


def test_a_case_fails_only_where_its_bound_is_surely_positive() -> None:
    head = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
    box = "(assert (and (>= X_0 0.1) (<= X_0 0.7) (>= X_1 0.7) (<= X_1 0.9)))"
    (goal,) = goals(parse_query(f"{head}{box}(assert (or (<= Y_0 0.5) (<= Y_0 -4)))"))
    lowers = torch.tensor([[0.0, 0.0], [-1e-9, -1e-9], [2.0**-54, 2.0**-50], [1e-12, 1e-12]], dtype=torch.float64)
    assert goal.failing(lowers).tolist() == [[False, False], [False, False], [False, False], [True, True]]
    (low, high), (up, down) = goal.reach(), goal.inside()
    for end in (goal.lower, goal.upper):  # what an end rounds to is reached, too, and what is searched lies inside
        assert (low <= torch.minimum(goal.lower, goal.lower.float().double())).all()
        assert ((low <= end) & (end <= high)).all()
    assert (high >= torch.maximum(goal.upper, goal.upper.float().double())).all()
    assert ((goal.lower <= up.double()) & (down.double() <= goal.upper)).all()
    assert torch.equal(up, torch.tensor([0.1, 0.70000005]))


def test_counterexamples_come_back_and_are_replayed(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    statement = local_robustness(torch.tensor([0.5, 0.45]), 0, 2, Ball("linf", 0.1))
    (tmp_path / "sat").write_text("sat\n((X_0 0.45)\n (X_1 0.5)\n (Y_0 0.45) (Y_1 0.5))")
    found = read_counterexample(tmp_path / "sat", (2,))
    assert refutes(model, found, statement)
    assert not refutes(model, torch.tensor([0.5, 0.45]), statement)
    assert not refutes(model, torch.tensor([0.0, 1.0]), statement)  # another class, but outside
    with pytest.raises(InputError, match="X_0 to X_2"):
        read_counterexample(tmp_path / "sat", (3,))


def test_instances_hold_the_same_network(tmp_path: Path) -> None:
    """The ONNX file and the properties read back say what the model says."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    x = torch.rand(3, 1, 2, 2)
    files = write_instances(tmp_path, model, x, Ball("linf", 0.05))
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    logits = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    assert np.allclose(logits, model(x).detach().numpy(), atol=1e-5)
    labels = [int(read_query(path).cases[0].matrix[0].argmax()) for path in files]
    assert labels == logits.argmax(1).tolist()
    assert (tmp_path / "instances.csv").read_text().splitlines()[0] == "model.onnx,point-0-0.05.vnnlib,60"


def test_bad_input_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="linf"):
        local_robustness(torch.rand(3), 0, 2, Ball("l2", 0.1))
    with pytest.raises(InputError, match="label"):
        local_robustness(torch.rand(3), 5, 2, Ball("linf", 0.1))
