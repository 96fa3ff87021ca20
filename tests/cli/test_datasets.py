"""`radii datasets`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from radii.data import hub


def test_lists_what_is_here_and_what_could_be(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "cifar10").mkdir(parents=True)
    (tmp_path / "data" / "cifar10" / "train.parquet").write_bytes(bytes(2_000_000))
    monkeypatch.setenv("RADII_DATA", str(tmp_path / "data"))
    result = CliRunner().invoke(app, ["datasets", "--json", str(tmp_path / "out.json")])
    assert result.exit_code == 0, result.output
    listed = {entry["name"]: entry for entry in json.loads((tmp_path / "out.json").read_text())["datasets"]}
    assert listed["cifar10"]["megabytes"] == 2.0
    assert listed["cifar10"]["path"] == str(tmp_path / "data" / "cifar10")
    assert listed["svhn"]["where"] == "hub: ufldl-stanford/svhn"
    assert not listed["svhn"]["path"]
    assert {"digits", *hub.KNOWN} <= listed.keys()
    assert "digits" in result.output
    assert not (tmp_path / "cache" / "decoded").exists()


def test_describes_a_folder_without_decoding_it(app: typer.Typer, tmp_path: Path) -> None:
    from PIL import Image

    for word, count in (("cat", 10), ("dog", 5)):
        (tmp_path / "pets" / word).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (12, 9), (number, 0, 0)).save(tmp_path / "pets" / word / f"{number}.png")
    (tmp_path / "pets" / "notes.txt").write_text("by hand")
    out = tmp_path / "out.json"
    result = CliRunner().invoke(app, ["datasets", str(tmp_path / "pets"), "--json", str(out)])
    assert result.exit_code == 0, result.output
    written = json.loads(out.read_text())
    assert written["counts"] == {"train": {"cat": 8, "dog": 4}, "test": {"cat": 2, "dog": 1}}
    assert written["shape"] == [3, 9, 12]
    for words in ("images of 3 x 9 x 12", "2 classes", "no test split", "left out: 1 .txt"):
        assert words in result.output
    assert not (tmp_path / "cache" / "decoded").exists()


def test_describes_names_and_tables(app: typer.Typer, tmp_path: Path) -> None:
    digits = CliRunner().invoke(app, ["datasets", "digits"])
    assert "digits (bundled): images of 1 x 8 x 8" in digits.output
    (tmp_path / "wine.csv").write_text("acid,sugar,kind\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(20)))
    table = CliRunner().invoke(app, ["datasets", str(tmp_path / "wine.csv"), "--label", "kind"])
    assert "rows of 2 features, 2 classes" in table.output
    wrong = CliRunner().invoke(app, ["datasets", "digitz"])
    assert wrong.exit_code != 0
