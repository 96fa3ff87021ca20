"""Complete verification: general VNN-LIB, verdicts against brute force, counterexamples that replay."""

from __future__ import annotations

import gzip
import itertools
import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from radii.errors import InputError
from radii.models.io.export import export
from radii.models.io.exported_programs import OnnxRuntime
from radii.verification._runnable_network import Deployed
from radii.verification.verify import verify
from radii.verification.vnnlib import read_query

SHARED = Path(os.environ.get("RADII_VERIFY", Path(__file__).parents[2].parent / "shared" / "verify"))


def declared(inputs: int, outputs: int) -> str:
    names = [f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(outputs)]
    return "".join(f"(declare-const {name} Real)\n" for name in names)


def box(inputs: int, low: float, high: float) -> str:
    return "".join(f"(assert (>= X_{i} {low}))\n(assert (<= X_{i} {high}))\n" for i in range(inputs))


def test_disjunctions_equalities_terms_and_any_order(tmp_path: Path) -> None:
    path = tmp_path / "p.vnnlib.gz"
    text = """; a comment
(assert (or (and (<= X_0 1) (>= X_0 0.5) (>= Y_0 2)) (and (<= 0 X_0 ) (>= 0.25 X_0) (<= (+ Y_0 (* 2.0 Y_1)) -1.5))))
(declare-const Y_1 Real) (declare-const X_0 Real) (declare-const X_1 Real) (declare-const Y_0 Real)
(assert (= X_1 0.125))
(assert (<= (- Y_0 Y_1) 3))
"""
    path.write_bytes(gzip.compress(text.encode()))
    query = read_query(path)
    assert (query.inputs, query.outputs, len(query.cases)) == (2, 2, 2)
    first, second = query.cases
    assert first.lower.tolist() == [0.5, 0.125]
    assert first.upper.tolist() == [1.0, 0.125]
    assert second.upper.tolist() == [0.25, 0.125]
    assert first.matrix.tolist() == [[1.0, -1.0], [-1.0, 0.0]]
    assert first.limit.tolist() == [3.0, -2.0]
    assert second.matrix.tolist() == [[1.0, -1.0], [1.0, 2.0]]
    assert second.limit.tolist() == [3.0, -1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(assert (<= X_0 1)", "not closed"),
        ("(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= X_0 1))(assert (>= Y_0 0))", "X_0 has no lower"),
        ("(declare-const X_0 Real)(declare-const Y_0 Real)(assert (not (<= Y_0 1)))", "not"),
        ("(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= (* Y_0 Y_0) 1))", "not linear"),
        ("(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= Y_3 1))", "Y_3 is not declared"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.vnnlib"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_query(path)


def exact_minimum(model: nn.Sequential, low: float, high: float) -> float:
    """The least output of a network with one hidden layer, by one linear program for every pattern of signs."""
    W, b = (value.detach().double().numpy() for value in (model[0].weight, model[0].bias))
    V, c = (value.detach().double().numpy() for value in (model[2].weight, model[2].bias))
    best = np.inf
    for pattern in itertools.product([0, 1], repeat=len(b)):
        signs = np.array(pattern)
        sides = np.where(signs == 1, -1, 1)[:, None]
        answer = linprog((V[0] * signs) @ W, sides * W, (-sides[:, 0] * b), bounds=[(low, high)] * W.shape[1])
        if answer.status == 0:
            best = min(best, answer.fun + (V[0] * signs) @ b + c[0])
    return float(best)


@pytest.mark.parametrize("inputs", [3, 24])  # input splitting and ReLU splitting
@pytest.mark.parametrize("seed", range(3))
def test_verdicts_meet_at_the_exact_minimum(tmp_path: Path, inputs: int, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(inputs, 7), nn.ReLU(), nn.Linear(7, 2)).eval()
    export(model, tmp_path / "net.onnx", (inputs,), certificate=False)
    least = exact_minimum(model, -1.0, 1.0)
    for shift, expected in ((-0.01, "unsat"), (0.01, "sat")):
        path = tmp_path / f"{expected}.vnnlib"
        path.write_text(declared(inputs, 2) + box(inputs, -1.0, 1.0) + f"(assert (<= Y_0 {least + shift}))\n")
        answer = verify(tmp_path / "net.onnx", path, seconds=120)
        assert answer.verdict == expected
        if expected == "sat":
            assert answer.counterexample is not None
            point = torch.from_numpy(answer.counterexample)
            assert float(point.abs().max()) <= 1
            assert float(OnnxRuntime(tmp_path / "net.onnx")(point[None])[0, 0]) <= least + shift
            assert answer.text().startswith("sat\n((X_0 ")


def sum_network(folder: Path, inputs: int) -> Path:
    """Y_0 = X_0 + X_1 + …, without rounding on numbers of few bits."""
    model = nn.Linear(inputs, 1, bias=False).eval()
    with torch.no_grad():
        model.weight.fill_(1.0)
    export(model, folder / "sum.onnx", (inputs,), certificate=False)
    return folder / "sum.onnx"


@pytest.mark.parametrize("inputs", [2, 24])  # input splitting and ReLU splitting
@pytest.mark.parametrize(
    ("formula", "possible"),
    [
        ("(> Y_0 {top})", False),
        ("(< {top} Y_0)", False),
        ("(< Y_0 0)", False),
        ("(or (> Y_0 {top}) (< Y_0 0.0))", False),
        ("(and (>= Y_0 {top}) (> Y_0 {top}))", False),
        ("(>= Y_0 {top})", True),
        ("(<= (* 2.0 Y_0) 0)", True),
        ("(or (> Y_0 {top}) (<= Y_0 0.0))", True),
        ("(= Y_0 {top})", True),
        ("(>= Y_0 {top}.00000000000000000001)", False),  # a decimal that float64 rounds to the top
        ("(> Y_0 0)", True),
    ],
)
def test_strict_inequalities_are_strict(tmp_path: Path, inputs: int, formula: str, possible: bool) -> None:
    """The sum over [0, 1]^n reaches n and 0 and never exceeds them, in the file's own decimals."""
    text = declared(inputs, 1) + box(inputs, 0.0, 1.0) + f"(assert {formula.format(top=inputs)})\n"
    (tmp_path / "p.vnnlib").write_text(text)
    answer = verify(sum_network(tmp_path, inputs), tmp_path / "p.vnnlib", seconds=5, nodes=200)
    assert (answer.verdict == "sat") == possible
    if not possible:
        assert answer.counterexample is None


@pytest.mark.parametrize(
    ("low", "high", "sign"),
    [("0.0", "0.5", "<"), ("0.0", "0.1", "<="), ("0.1000000000001", "0.1000000000002", "<="), ("0.7", "0.7", "<=")],
)
def test_counterexamples_lie_within_the_decimals_of_the_file(tmp_path: Path, low: str, high: str, sign: str) -> None:
    """What is written lies inside although no float32 does, and float32 reads it as the counterexample."""
    bounds = f"(assert (>= X_0 {low}))(assert ({sign} X_0 {high}))(assert (= X_1 0.3000000001))"
    (tmp_path / "p.vnnlib").write_text(declared(2, 1) + bounds + "(assert (> Y_0 0.2))")
    answer = verify(sum_network(tmp_path, 2), tmp_path / "p.vnnlib", seconds=20)
    assert answer.verdict == "sat"
    assert answer.counterexample is not None
    written = dict(re.findall(r"\((\w_\d+) ([\d.]+)\)", answer.text()))
    first, second, outcome = (Fraction(written[name]) for name in ("X_0", "X_1", "Y_0"))
    assert Fraction(low) <= first <= Fraction(high)
    assert sign == "<=" or first < Fraction(high)
    assert second == Fraction("0.3000000001")
    assert outcome > Fraction("0.2")
    assert [np.float32(written[f"X_{i}"]) for i in (0, 1)] == answer.counterexample.tolist()


@pytest.mark.parametrize("number", ["nan", "inf", "1e400"])
def test_numbers_beyond_float64_are_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "p.vnnlib"
    path.write_text(declared(1, 1) + box(1, 0, 1) + f"(assert (<= Y_0 {number}))")
    with pytest.raises(InputError, match="no number of float64"):
        read_query(path)


def folding_network(folder: Path, first: float, second: float) -> Path:
    """Y = x[0] + … + x[3]: a convolution by ``first`` and a batch norm by ``second`` between their inverses."""
    from onnx import TensorProto, helper, numpy_helper, save

    ones = np.ones(1, np.float32)
    constants = {
        "up": ones / np.float32(first), "w": np.full((1, 1, 1, 1), first, np.float32),
        "s": ones * np.float32(second), "zero": 0 * ones, "v": ones, "back": ones / np.float32(second),
        "sum": np.ones((4, 1), np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Mul", ["x", "up"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["b"], kernel_shape=[1, 1]),
        helper.make_node("BatchNormalization", ["b", "s", "zero", "zero", "v"], ["c"], epsilon=0.0),
        helper.make_node("Mul", ["c", "back"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("MatMul", ["e", "sum"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "folding",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, str(folder / "folding.onnx"))
    return folder / "folding.onnx"


@pytest.mark.parametrize(("first", "second"), [(1e-25, 1e-30), (1e-30, 1e-20), (1e30, 1e20)])
def test_weights_that_a_session_folds_to_nothing_prove_nothing(tmp_path: Path, first: float, second: float) -> None:
    """onnxruntime's default session multiplies both weights, and their product is no float32 number."""
    path = folding_network(tmp_path, first, second)
    x = torch.rand(3, 4)
    torch.testing.assert_close(OnnxRuntime(path)(x)[:, 0], x.sum(1))
    assert not torch.allclose(OnnxRuntime(path, optimized=True)(x)[:, 0], x.sum(1))
    (tmp_path / "p.vnnlib").write_text(declared(4, 1) + box(4, 0.5, 1.0) + "(assert (<= Y_0 1.0))\n")
    try:
        verdict = verify(path, tmp_path / "p.vnnlib", seconds=20, nodes=20).verdict
    except InputError:
        verdict = "refused"
    assert verdict not in ("sat", "unsat")


def test_ordinary_batch_norms_that_a_session_folds_are_verified(tmp_path: Path) -> None:
    (tmp_path / "p.vnnlib").write_text(declared(4, 1) + box(4, 0.5, 1.0) + "(assert (<= Y_0 1.0))\n")
    assert verify(folding_network(tmp_path, 0.3, 7.0), tmp_path / "p.vnnlib", seconds=20).verdict == "unsat"


@pytest.mark.parametrize("inputs", [4, 30])
def test_a_conjunction_is_proved_by_its_rows_together(tmp_path: Path, inputs: int) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(inputs, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
    with torch.no_grad():  # the second output is minus the first: both cannot be large
        model[2].weight[1], model[2].bias[1] = -model[2].weight[0], -model[2].bias[0]
    export(model, tmp_path / "net.onnx", (inputs,), certificate=False)
    path = tmp_path / "p.vnnlib"
    path.write_text(declared(inputs, 2) + box(inputs, -1, 1) + "(assert (>= Y_0 0.01))\n(assert (>= Y_1 0.01))\n")
    assert verify(tmp_path / "net.onnx", path, seconds=60).verdict == "unsat"


def test_a_deep_convolutional_network_is_decided(tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    ).eval()
    export(model, tmp_path / "net.onnx", (1, 6, 6), certificate=False)
    with torch.no_grad():
        samples = model(0.4 + 0.2 * torch.rand(2000, 1, 6, 6))
    top = float(samples[:, 0].max())
    for limit, expected in ((top - 0.01, "sat"), (top + 1.0, "unsat")):
        path = tmp_path / "p.vnnlib"
        path.write_text(declared(36, 3) + box(36, 0.4, 0.6) + f"(assert (>= Y_0 {limit}))\n")
        assert verify(tmp_path / "net.onnx", path, seconds=60).verdict == expected


def test_limits_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.verification._relu_split.INTEGER_SECONDS", 1.0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 1)).eval()
    export(model, tmp_path / "net.onnx", (30,), certificate=False)
    with torch.no_grad():
        least = float(model(torch.rand(50_000, 30) * 4 - 2).min())
    path = tmp_path / "p.vnnlib"
    path.write_text(declared(30, 1) + box(30, -2, 2) + f"(assert (<= Y_0 {least * 1.6 - 1.5}))\n")
    answer = verify(tmp_path / "net.onnx", path, seconds=600, nodes=6)
    assert answer.verdict in ("unknown", "unsat")
    assert verify(tmp_path / "net.onnx", path, seconds=0.01).verdict in ("timeout", "unsat")


def test_a_property_of_another_network_is_refused(tmp_path: Path) -> None:
    export(nn.Linear(3, 2).eval(), tmp_path / "net.onnx", (3,), certificate=False)
    path = tmp_path / "p.vnnlib"
    path.write_text(declared(4, 2) + box(4, 0, 1) + "(assert (<= Y_0 0))")
    with pytest.raises(InputError, match="4 inputs and 2 outputs, the network 3 and 2"):
        verify(tmp_path / "net.onnx", path)


@pytest.mark.parametrize(
    ("folder", "network", "query", "expected"),
    [
        ("acasxu", "ACASXU_run2a_2_6_batch_2000.onnx", "prop_3.vnnlib", "unsat"),
        ("acasxu", "ACASXU_run2a_1_4_batch_2000.onnx", "prop_2.vnnlib", "sat"),
        ("acasxu", "ACASXU_run2a_4_6_batch_2000.onnx", "prop_1.vnnlib", "unsat"),
        ("linearizenn", "AllInOne_120_120.onnx", "prop_120_120.vnnlib", "unsat"),
        ("sat_relu", "unsat_v6_c30.onnx", "unsat_v6_c30.vnnlib", "unsat"),
        ("collins_rul_cnn", "NN_rul_small_window_20.onnx", "monotonicity_CI_shift20_w20.vnnlib.gz", "unsat"),
    ],
)
def test_known_verdicts_of_published_instances(folder: str, network: str, query: str, expected: str) -> None:
    if not SHARED.is_dir():
        pytest.skip("the published instances are not there: set RADII_VERIFY to their folder")
    root = SHARED / folder
    assert verify(root / "onnx" / network, root / "vnnlib" / query, seconds=120).verdict == expected


def test_a_module_needs_no_file(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).eval()
    deployed = Deployed.of(model, (3,))
    x = torch.rand(4, 3)
    torch.testing.assert_close(deployed.outputs(x), model(x))
    with pytest.raises(InputError, match="shape"):
        Deployed.of(model)


class Formula(nn.Module):
    """A formula over x in [0, 1]: the first output is 1 if every clause holds, the second 0 if each x is 0 or 1."""

    def __init__(self, variables: int, clauses: list[list[int]]) -> None:
        super().__init__()
        weight, bias = torch.zeros(len(clauses) + 2 * variables, variables), torch.zeros(len(clauses) + 2 * variables)
        for row, clause in enumerate(clauses):  # positive where every literal fails
            for literal in clause:
                weight[row, abs(literal) - 1] = -1.0 if literal > 0 else 1.0
            bias[row] = 1.0 - sum(literal < 0 for literal in clause)
        for variable in range(variables):
            weight[len(clauses) + 2 * variable, variable] = 1.0
            weight[len(clauses) + 2 * variable + 1, variable] = 2.0
            bias[len(clauses) + 2 * variable + 1] = -1.0
        outputs = torch.zeros(2, len(bias))
        outputs[0, : len(clauses)] = -1.0
        outputs[1, len(clauses) :] = torch.tensor([1.0, -1.0]).repeat(variables)
        self.first, self.last = nn.Linear(variables, len(bias)), nn.Linear(len(bias), 2)
        for layer, values in ((self.first, (weight, bias)), (self.last, (outputs, torch.tensor([1.0, 0.0])))):
            layer.weight.data, layer.bias.data = values

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)))


@pytest.mark.parametrize("seed", range(4))
def test_formulas_are_decided_as_by_all_assignments(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    variables = 8 if seed % 2 else 22  # 22 are more than input splitting takes
    planted = rng.integers(0, 2, variables)
    clauses = []
    for _ in range(3 * variables):
        places = rng.choice(variables, 3, replace=False)
        signs = rng.integers(0, 2, 3)
        if not (signs == planted[places]).any():
            signs[0] = planted[places[0]]
        clauses.append([int(place + 1) * (1 if sign else -1) for place, sign in zip(places, signs, strict=True)])
    if seed % 2:  # three variables in all ways: no assignment is left
        clauses += [[a * 1, b * 2, c * 3] for a, b, c in itertools.product((1, -1), repeat=3)]
    export(Formula(variables, clauses).eval(), tmp_path / "net.onnx", (variables,), certificate=False)
    text = declared(variables, 2) + box(variables, 0, 1) + "(assert (>= Y_0 1.0))\n(assert (<= Y_1 0.0))\n"
    (tmp_path / "p.vnnlib").write_text(text)
    answer = verify(tmp_path / "net.onnx", tmp_path / "p.vnnlib", seconds=120)
    assert answer.verdict == ("unsat" if seed % 2 else "sat")
    if answer.counterexample is not None:
        chosen = answer.counterexample > 0.5
        assert all(any(chosen[abs(literal) - 1] == (literal > 0) for literal in clause) for clause in clauses)


def test_an_interrupted_search_says_how_far_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1)).eval()
    export(model, tmp_path / "net.onnx", (24,), certificate=False)
    (tmp_path / "p.vnnlib").write_text(declared(24, 1) + box(24, -1, 1) + "(assert (>= Y_0 0.9))\n")
    from radii.verification import _relu_split as relu_split

    calls, first = [], relu_split.choose_splits

    def ended(*arguments: object) -> object:
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return first(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(relu_split, "choose_splits", ended)
    monkeypatch.setattr(relu_split, "INTEGER_SECONDS", 1.0)
    monkeypatch.setattr("radii.verification.verify.SOME_INPUTS", 0)
    answer = verify(tmp_path / "net.onnx", tmp_path / "p.vnnlib", seconds=600)
    assert answer.interrupted
    assert answer.verdict == "unknown"
    assert 0 < answer.open <= 1
    assert answer.bound is not None
    assert answer.bound < 0


@pytest.mark.parametrize("inputs", [4, 24], ids=["boxes", "signs"])
def test_an_undecided_search_is_kept_and_continued(tmp_path: Path, inputs: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs, 20), nn.ReLU(), nn.Linear(20, 1)).eval()
    net, state = tmp_path / "net.onnx", tmp_path / "search.state"
    export(model, net, (inputs,), certificate=False)
    corners = torch.rand(20_000, inputs).round() * 2 - 1
    with torch.no_grad():
        best = float(model(corners).max())
    for name, limit in (("p", best + 0.15), ("q", best + 0.2)):
        text = declared(inputs, 1) + box(inputs, -1, 1) + f"(assert (>= Y_0 {limit}))\n"
        (tmp_path / f"{name}.vnnlib").write_text(text)
    first = verify(net, tmp_path / "p.vnnlib", nodes=1, state=state)
    assert first.verdict == "unknown"
    assert state.exists()
    with pytest.raises(InputError, match="another network"):
        verify(net, tmp_path / "q.vnnlib", state=state)
    kept = state.read_bytes()
    second = verify(net, tmp_path / "p.vnnlib", seconds=120, state=state)
    whole = verify(net, tmp_path / "p.vnnlib", seconds=120)
    assert second.verdict == whole.verdict
    assert second.verdict in ("sat", "unsat")
    assert not state.exists()
    state.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(InputError, match="not the state"):
        verify(net, tmp_path / "p.vnnlib", state=state)
