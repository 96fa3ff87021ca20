"""``radii verify``: sentences, result files and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from made_instances import write_files
from radii.cli.main import app, guarded
from radii.runs.store import Store
from radii.verification import verify as verification


def call(*arguments: str) -> int:
    return guarded(lambda: app(list(arguments), standalone_mode=False))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path)
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


def test_the_same_command_again_finds_the_answer(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, table = [str(folder / "net.onnx"), str(folder / "fails.vnnlib"), "--seconds", "20"], str(folder / "t.csv")
    assert call("verify", "--instances", str(folder / "list.csv"), "--workers", "0", "--table", table) == 1
    assert "not computed again" not in capsys.readouterr().out
    monkeypatch.setattr(verification, "verify", lambda *_, **__: pytest.fail("searched again"))
    assert call("verify", "--instances", str(folder / "list.csv"), "--workers", "0", "--table", table + "2") == 1
    assert "(2 found, not computed again)" in capsys.readouterr().out
    result, out = folder / "result.txt", folder / "out.json"
    assert call("verify", *words, "--result", str(result), "--json", str(out)) == 1
    assert "(found, not computed again)" in capsys.readouterr().out
    assert call("runs", "--json", str(folder / "runs.json")) == 0
    assert "net.onnx fails.vnnlib" in {row["what"] for row in json.loads((folder / "runs.json").read_text())["runs"]}
    content = json.loads(out.read_text())
    assert content["verdict"] == "sat"
    assert content["run"].startswith("verify-")
    assert [float(line.split()[1].rstrip(")")) for line in result.read_text().split("\n")[1:-1]] == [
        *content["counterexample"],
        *content["outputs"],
    ]


def test_a_found_answer_loads_no_torch(folder: Path) -> None:
    code = (
        "import sys; from radii.cli.main import app, guarded\n"
        "assert guarded(lambda: app(sys.argv[1:], standalone_mode=False)) == 0\n"
        "loaded = {'torch', 'onnx', 'scipy'} & set(sys.modules); assert not loaded, loaded\n"
    )
    words = ("verify", str(folder / "net.onnx"), str(folder / "holds.vnnlib"))
    assert call(*words) == 0
    subprocess.run([sys.executable, "-c", code, *words], check=True)


def test_more_seconds_count_only_the_rows_of_these_seconds(folder: Path) -> None:
    words = ("verify", "--instances", str(folder / "list.csv"), "--workers", "0", "--table", str(folder / "t.csv"))
    assert call(*words) == 1
    (folder / "t.csv").write_text((folder / "t.csv").read_text().replace(",unsat,", ",timeout,", 1))
    out = folder / "out.json"
    assert call(*words, "--seconds", "30", "--json", str(out)) == 1
    content = json.loads(out.read_text())
    assert (content["decided"], len(content["instances"])) == (2, 2)


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
    assert call("verify", str(network), str(query)) == 0  # that the store has the answer does not matter
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
    from radii.verification import _input_split as input_split

    def ended(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(input_split, "_halved", ended)
    monkeypatch.setattr(input_split._Search, "_bounded", ended)
    out = folder / "out.json"
    code = call("verify", str(folder / "net.onnx"), str(folder / "holds.vnnlib"), "--json", str(out))
    assert code == 130
    content = json.loads(out.read_text())
    assert (content["verdict"], content["interrupted"], content["open"]) == ("unknown", True, 1.0)
    assert content["run"] is None
    assert not Store.default().runs(), "an interrupted search is no answer"
    words = ("verify", "--instances", str(folder / "list.csv"), "--table", str(folder / "t.csv"), "--workers", "0")
    assert call(*words) == 130
    assert not Store.default().runs()


@pytest.mark.parametrize(
    "arguments", [["--executor", "dask"], ["--executor", "ray"], ["--address", "here:1"]], ids=lambda value: value[-1]
)
def test_wrong_executors_are_one_sentence(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("verify", "--instances", str(folder / "list.csv"), *arguments) == 2
    assert "Traceback" not in capsys.readouterr().err
