"""A file whose name the user did not type is replaced only if radii wrote it; outputs are checked before work."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.every_option import CommandOption, options_of_kind

Run = Callable[..., Any]
WORDS = "my own words\n"
# command, its other words, the file it writes by default
DEFAULTS = {
    "assess": (("digits",), "report.html"),
    "board": ((), "board.html"),
    "card": (("result.json",), "MODEL_CARD.md"),
    "variants": (("digits+binarize",), "digits-binarize-variants.png"),
    "verify": (("--instances", "instances.csv"), "verdicts.csv"),
}
# options that name a file to read, or a folder to which files of new names are added
READ = {"against", "config", "instances", "network", "property", "query", "store", "weights"}
FOLDERS = {"vnnlib"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command is called."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "instances.csv").write_text("a.onnx,a.vnnlib,1\n")
    (place / "result.json").write_text(json.dumps({}))
    return place


def test_the_table_above_is_complete() -> None:
    known = {(each.words[0], each.name) for each in options_of_kind("Path") if each.default is not None}
    own = {("assess", "out"), ("board", "out"), ("card", "out"), ("verify", "table")}
    assert known == own  # variants makes its name itself


@pytest.mark.parametrize("command", DEFAULTS)
@pytest.mark.parametrize("content", [WORDS, "onnx,vnnlib\n1,2\n", "<!-- written by radii, sha256 00 -->\n"])
def test_a_file_of_the_user_is_never_replaced_by_default(
    radii: Run, folder: Path, command: str, content: str, tmp_path: Path
) -> None:
    words, name = DEFAULTS[command]
    (folder / name).write_text(content)
    done = radii(command, *words)
    assert done.code == 2
    assert name in done.err
    assert done.err.count("\n") == 1
    assert (folder / name).read_text() == content
    assert sorted(os.listdir(folder)) == sorted({name, "instances.csv", "result.json"})
    assert not (tmp_path / "runs").exists(), "refused before any work"


def test_a_file_that_the_user_names_is_replaced(radii: Run, folder: Path) -> None:
    done = radii("variants", "digits", "--binarize", "--out", _written(folder / "digits-variants.png"))
    assert done.code == 0, done.err
    assert (folder / "digits-variants.png").read_bytes().startswith(b"\x89PNG")


def test_radiis_own_file_is_replaced_until_somebody_changes_it(radii: Run, folder: Path) -> None:
    for _ in range(2):
        done = radii("variants", "digits", "--binarize")
        assert done.code == 0, done.err
    picture = folder / "digits-variants.png"
    picture.write_bytes(picture.read_bytes() + b" ")
    assert "--out" in radii("variants", "digits", "--binarize").err


def test_a_table_of_verdicts_is_continued_not_replaced(radii: Run, folder: Path) -> None:
    assert radii("verify", "--instances", "instances.csv", "--workers", 0).code == 3  # there is no a.onnx: an error row
    (folder / "other.csv").write_text("b.onnx,b.vnnlib,1\n")
    first = (folder / "verdicts.csv").read_text().replace("error", "timeout")
    (folder / "verdicts.csv").write_text(first)
    radii("verify", "--instances", "other.csv", "--workers", 0)
    assert (folder / "verdicts.csv").read_text().startswith(first)


@pytest.mark.parametrize("row", ["a,b,1,sat,1,m,1,1,sat,more", "a,b,soon,sat,1,m,1,1,sat", "a,b"])
def test_a_damaged_table_of_verdicts_is_refused(radii: Run, folder: Path, row: str) -> None:
    head = "onnx,vnnlib,timeout_s,verdict,seconds,method,nodes,open,expected\n"
    (folder / "verdicts.csv").write_text(f"{head}{row}\n")
    done = radii("verify", "--instances", "instances.csv")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert (folder / "verdicts.csv").read_text() == f"{head}{row}\n"


@pytest.mark.parametrize("name", ["model.onnx", "instances.csv", "point-0-0.1.vnnlib"])
def test_a_folder_of_somebody_elses_network_is_refused(radii: Run, folder: Path, name: str, tmp_path: Path) -> None:
    (folder / "instances.csv").unlink()
    (folder / name).write_text(WORDS)
    done = radii("certify", "timm:net", "digits", "--vnnlib", ".")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert name in done.err
    assert (folder / name).read_text() == WORDS
    assert not (tmp_path / "runs").exists()


def test_charts_beside_the_named_one_are_not_replaced(radii: Run, folder: Path, tmp_path: Path) -> None:
    _written(folder / "chart-2.png")
    for words in (("run", "separation", "--budget", "smoke"), ("show", "separation")):
        done = radii("study", *words, "--plot", "chart.png")
        assert done.code == 2
        assert "chart-2.png" in done.err
    assert (folder / "chart-2.png").read_text() == WORDS
    assert not (tmp_path / "runs").exists()


MORE = {  # words without which a command complains of something else
    "gate": ("--require", "clean>=0.5"),
    "evaluate": ("--threat", "l2:1"),
    "attack": ("--threat", "l2:1"),
    "verify": ("a.onnx", "a.vnnlib"),
    "table": ("--instances", "instances.csv"),
}
WRITTEN = [
    pytest.param(each, id=f"{'-'.join(each.words)}-{each.name}")
    for each in options_of_kind("Path")
    if each.name not in READ | FOLDERS
]


@pytest.mark.parametrize("option", WRITTEN)
def test_every_output_is_checked_before_work(radii: Run, folder: Path, option: CommandOption) -> None:
    """Hours of work must not end in "is a folder"."""
    (folder / "taken.png").mkdir()
    more = MORE.get(option.name) or MORE.get(option.words[0], ())
    done = radii(*option.words, *["digits"] * option.required, *more, f"--{option.name}", "taken.png")
    assert done.code == 2
    assert "is a folder" in done.err, done.err


def _written(path: Path) -> Path:
    path.write_text(WORDS)
    return path
