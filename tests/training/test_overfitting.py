"""Catastrophic overfitting: seen on held-out points, answered by several steps, the same bits after a resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from radii.data.dataset import Dataset
from radii.errors import InputError
from radii.randomness import numpy_stream, threads
from radii.training.history import Watched
from radii.training.loop import train
from radii.training.objectives.cross_entropies import Natural
from radii.training.objectives.objective import Loss, TrainingProgress
from radii.training.objectives.single_step import NoiseFGSM
from radii.training.overfitting import HeldOut
from radii.training.schedule import Recipe

RECIPE = Recipe(steps=20, batch_size=16, watch=24)


def points() -> Dataset:
    x = numpy_stream(0, "points").random((120, 4), dtype=np.float32)
    return Dataset(x, (x[:, 0] > 0.5).astype(np.int64), tuple("01"), "points")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


class Fooled(NoiseFGSM):
    """Its single step helps the network, its several steps do not: what catastrophic overfitting looks like."""

    def attacked(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Tensor:
        return x + (2 * y - 1).float()[:, None] * torch.tensor([5.0, 0, 0, 0])

    def strong(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Tensor:
        return x - (2 * y - 1).float()[:, None] * torch.tensor([5.0, 0, 0, 0])

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        self.several_used = progress.several
        return Natural().loss(model, x, y, progress)


def test_it_is_seen_and_answered() -> None:
    objective = Fooled("linf:0.1")
    history = train(network(), points(), objective, RECIPE.model_copy(update={"steps": 200}))
    assert len(history.watched) == 10
    assert history.watched[-1].steps == 200
    assert history.watched[-1].points == 24
    assert history.watched[-1].overfits
    assert objective.several_used


def test_an_honest_training_shows_no_sign() -> None:
    history = train(network(), points(), NoiseFGSM("linf:0.02"), RECIPE.model_copy(update={"steps": 100}))
    assert not any(look.overfits for look in history.watched)


def test_held_out_points_do_not_train() -> None:
    held_out = HeldOut.of(NoiseFGSM("linf:0.1"), points(), 24, seed=0)
    assert len(held_out.rest) == 96
    rows = {row.tobytes() for row in held_out.rest.x}
    assert not any(row.numpy().tobytes() in rows for row in held_out.x)
    seen = set[bytes]()

    class Watching(Fooled):
        def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
            seen.update(row.numpy().tobytes() for row in x)
            return super().loss(model, x, y, progress)

    train(network(), points(), Watching("linf:0.1"), RECIPE, seed=0)  # 20 batches of 16: each of 96 points thrice
    assert seen == rows


class _StopError(Exception):
    pass


class Killed(Fooled):
    """Stops after some steps, once."""

    def __init__(self, at: int) -> None:
        super().__init__("linf:0.1")
        self.at = at

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        if progress.number == self.at:
            raise _StopError
        scale = 2.0 if progress.several else 1.0  # the answer changes the training
        own = super().loss(model, x, y, progress)
        return Loss(scale * own.value, own.logits)


def test_a_resumed_training_remembers_what_it_saw(tmp_path: Path) -> None:
    recipe = RECIPE.model_copy(update={"steps": 150})
    whole, parts = network(), network()
    with threads(1):
        once = train(whole, points(), Killed(-1), recipe)
        with pytest.raises(_StopError):
            train(parts, points(), Killed(140), recipe, checkpoint=tmp_path / "c", checkpoint_seconds=0)
        parts = network()
        again = train(parts, points(), Killed(-1), recipe, checkpoint=tmp_path / "c")
    assert once.watched == again.watched
    assert once.watched[-1].overfits
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))


def test_refusals() -> None:
    with pytest.raises(InputError, match="noise-fgsm"):
        train(network(), points(), Natural(), RECIPE)
    with pytest.raises(InputError, match="leave points"):
        train(network(), points(), NoiseFGSM("linf:0.1"), RECIPE.model_copy(update={"watch": 120}))


def test_old_specs_keep_their_hash() -> None:
    assert "watch" not in Recipe().canonical()
    assert Watched(1, 2, 0.5, 0.5, False).overfits is False
