"""The examples of docs/guide/evaluate.md run and print what they should."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from radii.errors import InputError
from radii.models.adapter import BlackBox

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def shares(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"([\d.]+)% \[", text)]


def test_a_torch_model(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed("evaluate_torch_model.py", capsys)
    clean, robust = shares(out)
    assert clean > 85
    assert robust < clean
    assert "refused: Inputs must lie in [0, 1]" in out


def test_a_scikit_learn_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    clean, robust = shares(printed("evaluate_sklearn.py", capsys))
    assert clean > 85
    assert robust < clean - 10


def test_few_classes_and_features(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed("evaluate_features.py", capsys)
    assert "2 classes, 30 features" in out
    assert "3 classes, 13 features" in out
    assert out.count("alarms []") == 2
    clean_two, robust_two, clean_three, robust_three = shares(out)
    assert min(clean_two, clean_three) > 90
    assert robust_two < clean_two
    assert robust_three < clean_three


def test_black_boxes_say_what_they_need() -> None:
    with pytest.raises(InputError, match="must return scores"):
        BlackBox(lambda x: np.zeros(3))(torch.zeros(2, 2))
    with pytest.raises(InputError, match="probabilities=False"):
        BlackBox(lambda x: -np.ones((2, 2)))(torch.zeros(2, 2))
    assert BlackBox(lambda x: -np.ones((2, 2)), probabilities=False)(torch.zeros(2, 2)).shape == (2, 2)
