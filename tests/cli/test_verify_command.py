"""``radii verify``: sentences, result files and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from radii.cli.main import app, guarded
from radii.models.io.export import export


def call(*arguments: str) -> int:
    return guarded(lambda: app(list(arguments), standalone_mode=False))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    export(
        nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).eval(),
        tmp_path / "net.onnx",
        (2,),
        certificate=False,
    )
    head = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
    bounds = "(assert (>= X_0 0))(assert (<= X_0 1))(assert (= X_1 0.5))"
    (tmp_path / "holds.vnnlib").write_text(f"{head}{bounds}(assert (>= Y_0 1000))")
    (tmp_path / "fails.vnnlib").write_text(f"{head}{bounds}(assert (<= Y_0 1000))")
    (tmp_path / "list.csv").write_text(
        "onnx,vnnlib,timeout_s,verdict\nnet.onnx,holds.vnnlib,20,unsat\nnet.onnx,fails.vnnlib,20,unsat\n"
    )
    return tmp_path


def test_codes_and_result_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = folder / "result.txt"
    assert call("verify", str(folder / "net.onnx"), str(folder / "holds.vnnlib"), "--result", str(result)) == 0
    assert result.read_text() == "unsat\n"
    assert call("verify", str(folder / "net.onnx"), str(folder / "fails.vnnlib"), "--result", str(result)) == 1
    lines = result.read_text().splitlines()
    assert lines[0] == "sat"
    assert lines[1].startswith("((X_0 ")
    assert lines[3].startswith("(Y_0 ")
    assert "replayed" in capsys.readouterr().out


def test_a_list_reports_verdicts_that_differ(folder: Path) -> None:
    out = folder / "out.json"
    code = call(
        "verify",
        "--instances",
        str(folder / "list.csv"),
        "--table",
        str(folder / "t.csv"),
        "--workers",
        "0",
        "--json",
        str(out),
    )
    assert code == 1
    content = json.loads(out.read_text())
    assert (content["decided"], content["wrong"]) == (2, 1)


@pytest.mark.parametrize(
    "arguments", [[], ["net.onnx"], ["missing.onnx", "holds.vnnlib"], ["net.onnx", "missing.vnnlib"]]
)
def test_mistakes_are_one_sentence(folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("verify", *(str(folder / name) for name in arguments)) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_proof_is_written_and_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, query, proof = folder / "net.onnx", folder / "holds.vnnlib", folder / "net.proof"
    assert call("verify", str(network), str(query), "--proof", str(proof)) == 0
    assert call("check", str(proof), "--network", str(network), "--property", str(query)) == 0
    assert "holds: " in capsys.readouterr().out
    assert call("check", str(proof), "--property", str(folder / "fails.vnnlib")) == 1
    assert "another property" in capsys.readouterr().out
    content = bytearray(proof.read_bytes())
    content[len(content) // 2] ^= 1
    proof.write_bytes(content)
    assert call("check", str(proof)) == 1
    assert "rejected" in capsys.readouterr().out
    assert call("check", str(folder / "none.proof")) == 2


def test_ctrl_c_prints_and_stores_how_far_the_search_came(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from radii.certificates.complete import input_split

    def ended(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(input_split, "_halved", ended)
    monkeypatch.setattr(input_split, "_bounded", ended)
    out = folder / "out.json"
    code = call("verify", str(folder / "net.onnx"), str(folder / "holds.vnnlib"), "--json", str(out))
    assert code == 130
    content = json.loads(out.read_text())
    assert (content["verdict"], content["interrupted"], content["open"]) == ("unknown", True, 1.0)


@pytest.mark.parametrize(
    "arguments", [["--executor", "dask"], ["--executor", "ray"], ["--address", "here:1"]], ids=lambda value: value[-1]
)
def test_wrong_executors_are_one_sentence(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("verify", "--instances", str(folder / "list.csv"), *arguments) == 2
    assert "Traceback" not in capsys.readouterr().err
