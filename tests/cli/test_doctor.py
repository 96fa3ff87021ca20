"""``radii doctor`` as users type it, and what is checked before an assessment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from radii.data.sources import load

CODE = """
from torch import nn

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def other():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

class Levels(nn.Sequential):
    def forward(self, x):
        return super().forward(x / 255)

def levels():
    return Levels(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Code and the weights of a linear classifier of the digits, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    x, y = load("digits").train.tensors()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), 0.03)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    torch.save(network.state_dict(), "w.th")
    return tmp_path


def test_the_doctor_on_the_command_line(radii: Callable[..., Any], folder: Path) -> None:
    sound = radii("doctor", "mine.py:net", "digits", "--weights", "w.th", "--json", "d.json")
    assert sound.code == 0, sound
    assert json.loads((folder / "d.json").read_text())["passed"]
    wrong = radii("doctor", "mine.py:levels", "digits", "--weights", "w.th")
    assert wrong.code == 1
    assert "radii.Classifier(net, std=1 / 255)" in " ".join(wrong.out.split())
    assert radii("doctor", "mine.py:levels", "digits", "--weights", "w.th", "--mean", "0", "--std", "1/255").code == 0
    unfit = radii("doctor", "mine.py:other", "digits", "--weights", "w.th")
    assert unfit.code == 1
    assert "must have shape" in unfit.out


def test_models_are_tried_before_an_audit(radii: Callable[..., Any], folder: Path) -> None:
    weights = torch.load("w.th", weights_only=True)
    torch.save({"1.weight": torch.zeros(10, 784), "1.bias": weights["1.bias"]}, "other.th")
    done = radii("assess", "digits", "--model", "mine.py:other", "--weights", "other.th", "--workers", "0")
    assert done.code == 2
    assert "fails on inputs of shape" in done.err
    assert not list(folder.rglob("audit-*"))
