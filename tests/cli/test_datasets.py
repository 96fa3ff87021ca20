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
