"""MODEL strings in Python: the same as on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import radii
from radii.data.dataset import Data
from radii.models.adapter import adapt
from radii.models.io import timm_and_transformers
from radii.training.schedule import Recipe

CODE = """
import torch
from torch import nn

def own():
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def sized(num_classes):
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

def random():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.fixture
def digits_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    return radii.load("digits")


def test_functions_runs_and_files(digits_data: Data) -> None:
    x, y = digits_data.test.tensors(range(20))
    for name in ("mine.py:own", "mine.py:sized"):
        scores = radii.evaluate(name, x, y, "linf:0.01", suite="pgd", alarms=False)
        assert scores.clean.total == 20
    trained = radii.train("digits", "mlp", recipe=Recipe(steps=2))
    for name in (trained.run.id, trained.run.id[:12], str(trained.run.folder)):
        assert torch.equal(adapt(name, x)(x), trained.model(x))
    with pytest.raises(radii.InputError, match=r"its weights are random\. Load them in the function"):
        adapt("mine.py:random", x)
    with pytest.raises(radii.InputError, match="asks how many classes there are"):
        radii.certify("mine.py:sized", x, threat="linf:0.01")
    with pytest.raises(radii.InputError, match="no run with a model fits 'train-12'"):
        radii.evaluate("train-12", x, y, "linf:0.01")


def test_a_name_of_the_hub_brings_its_normalization(digits_data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    own = timm_and_transformers._LibraryNetwork(network, mean=(0.5,), std=(0.25,))
    monkeypatch.setattr(timm_and_transformers, "load_from_library", lambda *_: own)
    x, _ = digits_data.test.tensors(range(8))
    assert torch.equal(adapt("hf:owner/name", x)(x), network((x - 0.5) / 0.25))
    assert radii.gate("hf:owner/name", digits_data.test.subset(40), ["clean>=0.5"], least=10).results
