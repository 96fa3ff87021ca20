"""The average of the weights: its formula, that training does not see it, and that a resumed one has the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from radii.data.dataset import Dataset
from radii.models.io.weights import read_tensors as read
from radii.randomness import numpy_stream, threads
from radii.training.loop import section, train
from radii.training.objectives.cross_entropies import Natural
from radii.training.optimizers import WeightAverage
from radii.training.schedule import Recipe


def points() -> Dataset:
    x = numpy_stream(0, "points").random((96, 4), dtype=np.float32)
    return Dataset(x, (x[:, 0] > 0.5).astype(np.int64), tuple("01"), "points")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def fit(recipe: Recipe, checkpoint: Path | None = None) -> nn.Module:
    model = network()
    with threads(1):
        train(model, points(), Natural(), recipe, checkpoint=checkpoint)
    return model


def test_the_formula() -> None:
    model = nn.Linear(1, 1, bias=False)
    average, expected = WeightAverage(model, 0.8), float(model.weight.detach())
    for step in range(1, 60):
        nn.init.constant_(model.weight, step)
        average.follow(model, step)
        decay = min(0.8, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * step
    average.give(model)
    assert abs(float(model.weight.detach()) - expected) < 1e-3


def test_statistics_are_averaged_and_counts_are_copied() -> None:
    model, expected = nn.BatchNorm1d(1), 0.0
    average = WeightAverage(model, 0.8)
    for step in range(1, 60):
        model.running_mean.fill_(step)
        model.num_batches_tracked.fill_(step)
        average.follow(model, step)
        decay = min(0.8, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * step
    average.give(model)
    assert abs(float(model.running_mean) - expected) < 1e-3
    assert int(model.num_batches_tracked) == 59


def test_training_does_not_see_it_and_ends_with_it(tmp_path: Path) -> None:
    plain = fit(Recipe(steps=20, batch_size=16))
    averaged = fit(Recipe(steps=20, batch_size=16, average=0.9), tmp_path / "c.safetensors")
    tensors, _ = read(tmp_path / "c.safetensors")
    for key, value in plain.state_dict().items():
        assert torch.equal(section(tensors, "model")[key], value)
        assert torch.equal(section(tensors, "average")[key], averaged.state_dict()[key])
    assert not torch.equal(plain[0].weight, averaged[0].weight)
    assert int(averaged[1].num_batches_tracked) == 20


def test_a_finished_checkpoint_gives_the_average_again(tmp_path: Path) -> None:
    recipe = Recipe(steps=20, batch_size=16, average=0.9)
    once = fit(recipe, tmp_path / "c.safetensors")
    again = fit(recipe, tmp_path / "c.safetensors")  # nothing is left to do
    assert all(torch.equal(a, b) for a, b in zip(once.state_dict().values(), again.state_dict().values(), strict=True))


def test_specs_without_an_average_keep_their_hash() -> None:
    assert "average" not in Recipe().canonical()
    assert Recipe(average=0.9).canonical()["average"] == 0.9
