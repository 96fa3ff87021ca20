"""Proof files: they hold, a changed number is rejected, and no proof of something false passes the checker."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from radii.errors import InputError
from radii.models.io.export import export
from radii.verification.checker import plain_network, plain_property, proof_checker
from radii.verification.checker.plain_network import ProofError, read_plain
from radii.verification.checker.proof_checker import (
    Array,
    check_leaves,
    digest,
    hidden_bounds,
    lower_bounds,
    read_proof,
)
from radii.verification.proof import check_proof
from radii.verification.verify import verify

NETWORKS = {
    "inputs": (nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 2)), (3,)),
    "signs": (nn.Sequential(nn.Linear(24, 9), nn.ReLU(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 2)), (24,)),
    "images": (
        nn.Sequential(nn.Conv2d(1, 3, 3, 2, 1), nn.ReLU(), nn.Conv2d(3, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)),  # noqa: E501
        (1, 6, 6),
    ),
}  # fmt: skip


def written(folder: Path, kind: str) -> Path:
    """A network, a property that needs splits, and its proof."""
    torch.manual_seed(0)
    model, shape = NETWORKS[kind]
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    inputs = int(np.prod(shape))
    export(model.eval(), folder / "net.onnx", shape, certificate=False)
    with torch.no_grad():
        outputs = model(torch.rand(20_000, *shape) * 2 - 1)
    margin = outputs[:, 0] - outputs[:, 1]
    names = [f"X_{i}" for i in range(inputs)] + ["Y_0", "Y_1"]
    text = "".join(f"(declare-const {name} Real)\n" for name in names)
    text += "".join(f"(assert (>= X_{i} -1.0))(assert (<= X_{i} 1.0))\n" for i in range(inputs))
    for step in range(60):  # the first limit that no input reaches: it needs splits
        limit = float(margin.min() - (step + 0.5) / 20 * (margin.max() - margin.min()))
        (folder / "p.vnnlib").write_text(text + f"(assert (<= (- Y_0 Y_1) {limit}))\n")
        answer = verify(folder / "net.onnx", folder / "p.vnnlib", seconds=100, proof=folder / "net.proof")
        if answer.verdict == "unsat":
            break
    return folder / "net.proof"


@pytest.fixture(params=list(NETWORKS), scope="module")
def proof(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp(request.param), request.param)


def test_the_checker_imports_nothing_of_the_prover() -> None:
    for module in (plain_network, plain_property, proof_checker):
        assert module.__file__ is not None
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith(("torch", "radii")) or name.startswith("radii.verification.checker")


def test_a_proof_holds(proof: Path) -> None:
    leaves, arrays = check_proof(proof)
    assert leaves > 1
    assert arrays["network"].tobytes() == (proof.parent / "net.onnx").read_bytes()


def test_one_changed_number_is_rejected(proof: Path, tmp_path: Path) -> None:
    with np.load(proof) as stored:
        arrays = {name: stored[name] for name in stored.files}
    generator = np.random.default_rng(0)
    for name, value in arrays.items():
        for place in generator.integers(0, value.size, 4).tolist() if value.size else []:
            changed = value.copy()
            flat = changed.reshape(-1)
            flat[place] = np.nextafter(flat[place], np.inf) if value.dtype.kind == "f" else flat[place] ^ 1
            np.savez(tmp_path / "x.npz", **{**arrays, name: changed})
            with pytest.raises(ProofError):
                check_proof(tmp_path / "x.npz")


def signed(arrays: dict[str, Array], path: Path) -> Path:
    np.savez(path, **arrays, digest=np.frombuffer(digest(arrays), dtype=np.uint8))
    return path


def test_another_statement_is_rejected_although_the_digest_fits(proof: Path, tmp_path: Path) -> None:
    arrays = read_proof(proof)
    for name in ("0/lower", "0/upper", "0/matrix", "0/limit", "0/cases", "goals"):
        changed = arrays | {name: arrays[name] + np.ones(1, dtype=arrays[name].dtype)}
        with pytest.raises(ProofError):
            check_proof(signed(changed, tmp_path / "x.npz"))
        with pytest.raises(ProofError):
            check_leaves({key: value for key, value in arrays.items() if key != name})


def test_a_proof_of_another_property_is_rejected(proof: Path, tmp_path: Path) -> None:
    """The checker reads the property itself: every goal must be one of its cases, and every case a goal."""
    arrays = read_proof(proof)
    text = arrays["property"].tobytes().decode()
    others = ("(assert (or (<= X_1 0.1) (>= Y_0 0)))", "(assert (<= X_0 0.0))", "(assert (<= Y_0")
    for changed in (text.replace(" (- Y_0 Y_1) ", " (- Y_1 Y_0) "), *(text + other for other in others)):
        assert changed != text
        other = arrays | {"property": np.frombuffer(changed.encode(), dtype=np.uint8)}
        with pytest.raises(ProofError):
            check_proof(signed(other, tmp_path / "x.npz"))
    found = re.search(r"\(- Y_0 Y_1\) (\S+?)\)\)", text)
    assert found is not None
    limit = found[1]
    same = text.replace(f"(assert (<= (- Y_0 Y_1) {limit}))", f"(assert (or (>= {limit} (+ Y_0 (* -1 Y_1)))))")
    assert same != text
    check_proof(signed(arrays | {"property": np.frombuffer(same.encode(), dtype=np.uint8)}, tmp_path / "x.npz"))


def test_no_proof_of_something_false_passes(proof: Path) -> None:
    """The limit is moved to a value that inputs reach; then no tree, slope or multiplier may pass."""
    arrays = read_proof(proof)
    model, shape = NETWORKS[proof.parent.name.rstrip("0123456789")]
    with torch.no_grad():
        outputs = model(torch.rand(20_000, *shape) * 2 - 1)
    false = arrays | {"0/limit": (outputs[:, 0] - outputs[:, 1]).min()[None].double().numpy()}
    generator = np.random.default_rng(0)
    names = [name for name, value in false.items() if name.startswith("0/") and name != "0/limit" and value.size]
    for _ in range(60):
        name = names[generator.integers(len(names))]
        if name in ("0/lower", "0/upper", "0/matrix", "0/case", "0/cases"):
            continue  # these are the statement
        value = false[name].copy()
        value.reshape(-1)[generator.integers(value.size)] = generator.choice([-1, 0, 1, 2, 1e6, -1e6])
        with pytest.raises(ProofError):
            check_leaves(false | {name: value})


def test_trees_that_do_not_cover_are_rejected(proof: Path) -> None:
    arrays = read_proof(proof)
    if "0/cut" in arrays:
        first = int(np.nonzero(arrays["0/cut"] == -1)[0][0])
        for changed in (
            {"0/cut": np.delete(arrays["0/cut"], first), "0/at": np.delete(arrays["0/at"], first)},
            {"0/cut": np.append(arrays["0/cut"], -1), "0/at": np.append(arrays["0/at"], 0.0)},
            {"0/at": arrays["0/at"] + 2.0},
        ):
            with pytest.raises(ProofError, match=r"cover|more nodes|outside"):
                check_leaves(arrays | changed)
        return
    count = int(arrays["0/ends"][0])
    cut = {name: arrays[name][1:] for name in arrays if name.startswith("0/alpha") or name == "0/weights"}
    cut |= {"0/leaf_case": arrays["0/leaf_case"][1:], "0/ends": arrays["0/ends"][1:] - count}
    cut |= {"0/splits": arrays["0/splits"][count:], "0/betas": arrays["0/betas"][count:]}
    with pytest.raises(ProofError, match="cover"):
        check_leaves(arrays | cut)
    for name, value in (("0/betas", -1.0), ("0/alpha0", 1.5), ("0/alpha0", np.nan), ("0/weights", -1.0)):
        with pytest.raises(ProofError):
            check_leaves(arrays | {name: np.full_like(arrays[name], value)})


def test_the_checkers_bounds_hold_the_network(proof: Path) -> None:
    network = read_plain(read_proof(proof)["network"].tobytes())
    model, shape = NETWORKS[proof.parent.name.rstrip("0123456789")]
    low, high = np.full((1, network.inputs), 0.2), np.full((1, network.inputs), 0.6)
    bounds = hidden_bounds(network, low, high)
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, -1.0]])
    least = lower_bounds(network, bounds, network.output, rows, None)
    with torch.no_grad():
        outputs = model(0.2 + 0.4 * torch.rand(5000, *shape)).double().numpy()
    assert (outputs @ rows.T >= least).all()
    point = hidden_bounds(network, low, low)[network.output]
    with torch.no_grad():
        exact = model(torch.full((1, *shape), 0.2)).numpy()
    assert (point[0] <= exact).all()
    assert (exact <= point[1]).all()
    assert (point[1] - point[0]).max() < 1e-4


def test_what_the_checker_cannot_read_is_refused_first(tmp_path: Path) -> None:
    export(
        nn.Sequential(nn.Linear(2, 3), nn.LeakyReLU(), nn.Linear(3, 1)).eval(),
        tmp_path / "n.onnx",
        (2,),
        certificate=False,
    )
    (tmp_path / "p.vnnlib").write_text("(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
        "(assert (= X_0 0))(assert (= X_1 0))(assert (>= Y_0 9))")  # fmt: skip
    with pytest.raises(InputError, match="LeakyRelu"):
        verify(tmp_path / "n.onnx", tmp_path / "p.vnnlib", proof=tmp_path / "x.proof")
    assert not (tmp_path / "x.proof").exists()
