"""Train beside test with gaps, and the worst examples as pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from radii.data.dataset import Data, Dataset
from radii.errors import InputError
from radii.evaluation.evaluate import evaluate
from radii.evaluation.examples import sheet, worst_examples
from radii.evaluation.scores import SplitScores
from radii.runs.component_specs import choose_rows
from radii.threat import Ball


@pytest.fixture
def data() -> Data:
    """Images of 4 x 4 pixels whose class is whether the left half is brighter; test labels are noisy."""
    draw = np.random.default_rng(0)
    x = draw.random((120, 1, 4, 4), np.float32)
    y = (x[:, 0, :, :2].mean((1, 2)) > x[:, 0, :, 2:].mean((1, 2))).astype(np.int64)
    noisy = y[60:].copy()
    noisy[::4] = 1 - noisy[::4]
    classes = ("right", "left")
    return Data(Dataset(x[:60], y[:60], classes), Dataset(x[60:], noisy, classes), "halves")


@pytest.fixture
def model() -> nn.Module:
    """The rule itself, as a linear model."""
    linear = nn.Linear(16, 2)
    with torch.no_grad():
        weight = torch.tensor([-1.0, -1.0, 1.0, 1.0] * 4)
        linear.weight.copy_(torch.stack([weight, -weight]))
        linear.bias.zero_()
    return nn.Sequential(nn.Flatten(), linear)


def test_gaps_are_train_minus_test(model: nn.Module, data: Data) -> None:
    ball = Ball("linf", 0.02)
    found = SplitScores(
        *(evaluate(model, *part.tensors(), ball, suite="fast", lipschitz=True) for part in (data.train, data.test))
    )
    assert found.train.clean.value == 1.0
    assert found.test.clean.value == 0.75
    assert found.gaps["clean"] == 0.25
    assert found.gaps["unbroken"] == found.train.robust.unbroken.value - found.test.robust.unbroken.value
    assert found.gaps["local Lipschitz"] == pytest.approx(0, abs=0.5)
    assert found.train.local_lipschitz == pytest.approx(32, rel=0.1)  # two logits of 16 unit weights
    assert json.loads(json.dumps(found.summary(), allow_nan=False))["gaps"]["clean"] == 0.25
    few = evaluate(model, *data.test.tensors(choose_rows(data.test, 10, seed=0)), ball, suite="fast")
    assert SplitScores(few, few).gaps["local Lipschitz"] is None
    assert len(few.points.label) == 10


def test_points_are_chosen_in_order(data: Data) -> None:
    x, y = data.train.tensors(choose_rows(data.train, 10, seed=0))
    assert len(x) == 10
    assert int((y == 0).sum()) == 5
    assert len(choose_rows(data.train, 100, 0)) == 60


def test_the_worst_examples_come_nearest_first(model: nn.Module, data: Data) -> None:
    x, y = data.train.tensors()
    scores = evaluate(model, x, y, Ball("linf", 0.1), suite="fast")
    examples = worst_examples(scores, x, count=5)
    assert len(examples) == 5
    assert [example.radius for example in examples] == sorted(example.radius for example in examples)
    first = examples[0]
    assert first.prediction == first.label
    assert first.adversarial_prediction != first.label
    shown = 0.5 + 10 * (first.adversarial - first.clean)
    assert np.allclose(first.perturbation, shown.clip(0, 1), atol=1e-6)
    picture = sheet(examples)
    assert picture.height > 3 * 64, "three rows of images, enlarged"
    assert picture.width > 5 * 64, "a column for every example"
    with pytest.raises(InputError, match="Pictures need images"):
        worst_examples(scores, x.flatten(1))
