"""`radii evaluate` and `radii attack` on a model given by import path and weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from radii.data import sources
from radii.errors import InputError

FACTORY = """
from torch import nn

def net(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A small net on the digits, on disk; the words that name it on a command line."""
    (tmp_path / "my_factory.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    x, y = sources.load("digits").train.tensors()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    return ["my_factory:net", "digits", "--weights", str(tmp_path / "net.safetensors")]


def test_evaluate_tells_and_writes(app: typer.Typer, model: list[str], tmp_path: Path) -> None:
    out, chart, sheet = tmp_path / "scores.json", tmp_path / "curve.svg", tmp_path / "worst.png"
    words = ["--threat", "linf:0.1", "--suite", "fast", "--points", "40", "--json", str(out)]
    words += ["--plot", str(chart), "--pictures", str(sheet), "--lipschitz"]
    result = CliRunner().invoke(app, ["evaluate", *model, *words], catch_exceptions=False)
    assert result.exit_code == 0
    found = json.loads(out.read_text())
    assert found["points"] == 40
    assert len(found["table"]) == 40
    assert found["robust"]["proved"]["value"] <= found["robust"]["unbroken"]["value"] < found["clean"]["value"]
    assert found["local_lipschitz"] > 0
    assert "robust accuracy, unbroken at most" in result.stdout
    assert chart.read_text().startswith("<svg")
    assert sheet.read_bytes().startswith(b"\x89PNG")


def test_both_splits_have_gaps(app: typer.Typer, model: list[str], tmp_path: Path) -> None:
    out = tmp_path / "scores.json"
    words = ["--threat", "l2:0.3", "--suite", "pgd", "--points", "20", "--split", "both", "--json", str(out)]
    assert CliRunner().invoke(app, ["evaluate", *model, *words], catch_exceptions=False).exit_code == 0
    found = json.loads(out.read_text())
    assert found["gaps"]["clean"] == pytest.approx(found["train"]["clean"]["value"] - found["test"]["clean"]["value"])


def test_asking_twice_answers_at_once(app: typer.Typer, model: list[str], tmp_path: Path) -> None:
    """A model by import path is identified by the content of its code and weights."""
    words = ["--threat", "linf:0.1", "--suite", "pgd", "--points", "10", "--json", str(tmp_path / "one.json")]
    first = CliRunner().invoke(app, ["evaluate", *model, *words], catch_exceptions=False)
    assert "not computed again" not in first.stdout
    moved = tmp_path / "moved.safetensors"
    moved.write_bytes(Path(model[-1]).read_bytes())
    again = CliRunner().invoke(app, ["evaluate", *model[:-1], str(moved), *words], catch_exceptions=False)
    assert "found, not computed again" in again.stdout
    attacked = [CliRunner().invoke(app, ["attack", *model, *words[:2], "--points", "9"]).stdout for _ in range(2)]
    assert ["not computed again" in text for text in attacked] == [False, True]
    kinds = sorted(path.name.split("-")[0] for path in (tmp_path / "runs" / "runs").iterdir())
    assert kinds == ["attack", "evaluate"]


def test_attack_writes_its_inputs(app: typer.Typer, model: list[str], tmp_path: Path) -> None:
    out = tmp_path / "found.npz"
    words = ["--threat", "linf:0.1", "--attack", "apgd-dlr", "--points", "30", "--out", str(out), "--json", "-"]
    result = CliRunner().invoke(app, ["attack", *model, *words], catch_exceptions=False)
    found = json.loads(result.stdout)
    arrays = np.load(out)
    assert arrays["x"].shape == (30, 1, 8, 8)
    assert found["unbroken"]["correct"] == int((~arrays["broken"]).sum())


def test_mistakes_are_sentences(app: typer.Typer, model: list[str]) -> None:
    for words, reason in (
        (["evaluate", *model, "--threat", "linf:0.1", "--split", "validation"], "--split must be"),
        (["evaluate", *model, "--threat", "linf:0.1", "--suite", "standart"], "Did you mean 'standard'"),
        (["attack", *model, "--threat", "linf:0.1", "--attack", "apgd"], "No attack is called 'apgd'"),
        (["attack", *model, "--threat", "linf:0.1", "--out", "x.txt"], "must end in .npz"),
    ):
        with pytest.raises(InputError, match=reason):
            CliRunner().invoke(app, words, catch_exceptions=False)
