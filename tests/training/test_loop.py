"""The loop learns, agrees with a hand-written loop, and resumes to the same bits after kill -9."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from radii.data.augmentation import Augmentation
from radii.data.batches import Batches
from radii.data.dataset import Dataset, statistics
from radii.errors import InputError
from radii.models.io.bundle import Architecture, initialize
from radii.models.io.weights import read_tensors as read
from radii.randomness import numpy_stream, stream_seed, threads
from radii.training.history import History
from radii.training.logs import logged_to, open_log
from radii.training.loop import accuracy_on, train
from radii.training.objectives.adversarial import AdversarialTraining
from radii.training.objectives.cross_entropies import Natural
from radii.training.objectives.objective import Loss
from radii.training.schedule import Optimizer, Recipe

ARCHITECTURE = Architecture(
    name="lenet5", arguments={"widen": 0.125, "dropout": 0.3}, input_shape=(1, 8, 8), classes=tuple("012")
)


def blobs(n: int = 300) -> Dataset:
    """Three kinds of 8x8 images that differ in where they are bright."""
    random = numpy_stream(0, "blobs")
    y = np.arange(n) % 3
    x = random.integers(0, 120, (n, 1, 8, 8), dtype=np.uint8)
    for label in range(3):
        x[y == label, :, label * 2 : label * 2 + 3] += 100
    return Dataset(x, y.astype(np.int64), tuple("012"), "blobs")


def fit(
    recipe: Recipe, checkpoint: Path | None = None, seconds: float = 30.0, model: nn.Module | None = None
) -> tuple[nn.Module, History]:
    model = model or initialize(ARCHITECTURE, seed=7)
    with threads(1):
        history = train(
            model, blobs(), Natural(), recipe, seed=7, test=blobs(60), checkpoint=checkpoint, checkpoint_seconds=seconds
        )
    return model, history


def test_accuracy_is_that_of_eval_mode() -> None:
    """Dropout of most features, and statistics of the batch, change answers in train mode alone."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.9), nn.Linear(64, 3)).train()
    data = blobs(300)
    x, y = data.tensors()
    there = accuracy_on(model, data)
    assert model.training
    with torch.no_grad():
        assert there == float((model.eval()(x).argmax(1) == y).double().mean())


def test_gradients_are_clipped_to_their_length() -> None:
    """One step of plain SGD moves the weights by the rate times the length that is allowed."""
    moves = []
    for clip in (0.0, 1e-3):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        optimizer = Optimizer(lr=0.5, schedule="constant", momentum=0.0, clip_gradient=clip)
        fit(Recipe(steps=1, batch_size=32, optimizer=optimizer), model=model)
        moves.append(float((nn.utils.parameters_to_vector(model.parameters()).detach() - before).norm()))
    assert moves[0] > 1e-2
    assert moves[1] == pytest.approx(0.5e-3, rel=1e-2)


def test_it_learns() -> None:
    model, history = fit(Recipe(epochs=6, batch_size=32, augmentation=Augmentation(crop=1)))
    assert accuracy_on(model, blobs()) > 0.95
    assert len(history.epochs) == 6
    assert history.epochs[-1].loss < history.epochs[0].loss
    assert history.epochs[-1].test_accuracy is not None


def test_it_is_the_loop_one_would_write() -> None:
    """Same batches, torch's own OneCycleLR and SGD: the same weights."""
    recipe = Recipe(epochs=2, batch_size=50, optimizer=Optimizer(lr=0.2, cycle_momentum=True, weight_decay=1e-3))
    ours, _ = fit(recipe)
    theirs = initialize(ARCHITECTURE, seed=7).train()
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.2, momentum=0.9, nesterov=True, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=12)
    batches, step = Batches(blobs(), 50, seed=7), 0
    with threads(1):
        for epoch in range(2):
            for x, y in batches.epoch(epoch):
                torch.manual_seed(stream_seed(7, "forward", step))
                optimizer.zero_grad()
                nn.functional.cross_entropy(theirs(x), y).backward()
                optimizer.step()
                step += 1
                if step < 12:
                    scheduler.step()
    for name, weight in theirs.state_dict().items():
        assert torch.allclose(weight, ours.state_dict()[name], atol=1e-6), name


def test_the_global_random_stream_is_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.rand(3)
    torch.manual_seed(5)
    fit(Recipe(epochs=1, batch_size=100))
    assert torch.equal(before, torch.rand(3))


class SlowNatural(Natural):
    """Natural training that leaves time to be killed."""

    def loss(self, model, x, y, progress):  # type: ignore[no-untyped-def]
        time.sleep(0.02)
        return super().loss(model, x, y, progress)


def _victim(path: str, recipe: Recipe) -> None:
    torch.set_num_threads(1)
    model = initialize(ARCHITECTURE, seed=7)
    train(model, blobs(), SlowNatural(), recipe, seed=7, test=blobs(60), checkpoint=Path(path), checkpoint_seconds=0.1)


def test_kill_dash_nine_then_the_same_bits(tmp_path: Path) -> None:
    """Killed twice in the middle of an epoch, with dropout and augmentation on."""
    recipe = Recipe(epochs=5, batch_size=20, augmentation=Augmentation(crop=1, flip=True))
    calm, calm_history = fit(recipe)
    path = tmp_path / "checkpoint.safetensors"
    context = mp.get_context("spawn")
    for goal in (8, 40):
        victim = context.Process(target=_victim, args=(str(path), recipe))
        victim.start()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (path.exists() and read(path)[1]["done"] >= goal):
            time.sleep(0.01)
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
    done = read(path)[1]["done"]
    assert 40 <= done < 75, "the kill must come in the middle"
    resumed, history = fit(recipe, path)
    assert history.epochs == calm_history.epochs
    for name, weight in calm.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name


@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_ten_random_kills_then_the_same_bits(tmp_path: Path) -> None:
    """Adversarial training under Adam with dropout, killed at ten random moments, writing checkpoints or not."""
    recipe = Recipe(epochs=12, batch_size=20, optimizer=Optimizer(kind="adam", lr=1e-3, schedule="constant"))
    calm = initialize(ARCHITECTURE, seed=7)
    with threads(1):
        train(calm, blobs(), SlowAdversarial(0.0), recipe, seed=7, test=blobs(60))
    path, context, random = tmp_path / "checkpoint.safetensors", mp.get_context("spawn"), numpy_stream(1, "kills")
    moments = []
    for _ in range(10):
        victim = context.Process(target=_adversarial_victim, args=(str(path), recipe))
        victim.start()
        before = read(path)[1]["done"] if path.exists() else 0
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (path.exists() and read(path)[1]["done"] > before):
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.25))
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        moments.append(read(path)[1]["done"])
    assert moments == sorted(moments)
    assert moments[-1] < 180, "the last kill must come before the end"
    resumed = initialize(ARCHITECTURE, seed=7)
    with threads(1):
        train(resumed, blobs(), SlowAdversarial(0.0), recipe, seed=7, test=blobs(60), checkpoint=path)
    for name, weight in calm.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name


class SlowAdversarial(AdversarialTraining):
    """Adversarial training that leaves time to be killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__("linf:0.05", steps=2, step=0.6)
        self.seconds = seconds

    def loss(self, model, x, y, progress):  # type: ignore[no-untyped-def]
        time.sleep(self.seconds)
        return super().loss(model, x, y, progress)


def _adversarial_victim(path: str, recipe: Recipe) -> None:
    torch.set_num_threads(1)
    model, slow = initialize(ARCHITECTURE, seed=7), SlowAdversarial(0.02)
    train(model, blobs(), slow, recipe, seed=7, test=blobs(60), checkpoint=Path(path), checkpoint_seconds=0.05)


def test_divergence_is_told_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(InputError, match=r"diverged: the loss is (nan|inf).*optimizer.lr, now 1e"):
        fit(Recipe(epochs=30, batch_size=20, optimizer=Optimizer(lr=1e30)), path, seconds=0.0)
    assert read(path)[1]["done"] >= 1


class Exploding(Natural):
    """A finite loss whose gradient is not: the step breaks the weights before any loss shows it."""

    def loss(self, model, x, y, progress):  # type: ignore[no-untyped-def]
        loss = super().loss(model, x, y, progress)
        if progress.number < 3:
            return loss
        weight = next(model.parameters())
        return Loss(loss.value + (weight.flatten()[0] * 0).sqrt(), loss.logits)


def test_broken_weights_never_replace_a_good_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    model = initialize(ARCHITECTURE, seed=7)
    with pytest.raises(InputError, match=r"diverged: the weights are not finite after step 4"):
        train(model, blobs(), Exploding(), Recipe(epochs=1, batch_size=20), checkpoint=path, checkpoint_seconds=0.0)
    tensors, meta = read(path)
    assert meta["done"] == 3
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_lengths_in_steps_resume_too(tmp_path: Path, kind: str) -> None:
    """Seven steps of batches of 100 over 300 points: two whole passes and a third of one."""
    settings = Optimizer(kind=kind, lr=0.01, schedule="constant")  # type: ignore[arg-type]
    recipe = Recipe(steps=7, batch_size=100, optimizer=settings)
    calm, history = fit(recipe)
    assert len(history.epochs) == 3
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt), threads(1):
        train(initialize(ARCHITECTURE, 7), blobs(), Stopping(), recipe, seed=7, checkpoint=path, checkpoint_seconds=0)
    assert read(path)[1]["done"] == 5
    resumed, _ = fit(recipe, path)
    for name, weight in calm.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name


class Stopping(Natural):
    """Ctrl-C in the middle."""

    def loss(self, model, x, y, progress):  # type: ignore[no-untyped-def]
        if progress.number == 5:
            raise KeyboardInterrupt
        return super().loss(model, x, y, progress)


def test_curves_are_recorded_on_request(tmp_path: Path) -> None:
    with logged_to(open_log(f"tensorboard:{tmp_path / 'events'}")):
        fit(Recipe(epochs=1, batch_size=100))
    (file,) = (tmp_path / "events").iterdir()
    content = file.read_bytes()
    for name in (b"loss", b"accuracy", b"train_accuracy", b"test_accuracy"):
        assert name in content


@pytest.mark.parametrize("kind", ["garbage", "truncated", "flipped bit", "another file"])
def test_a_damaged_checkpoint_is_set_aside_and_the_training_starts_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    path = tmp_path / "checkpoint.safetensors"
    recipe = Recipe(epochs=1, batch_size=20)
    whole, _ = fit(recipe, path)
    content = bytearray(path.read_bytes())
    if kind == "flipped bit":
        content[-5] ^= 1
    if kind == "another file":
        save_file({"a": torch.ones(2)}, path)
        content = bytearray(path.read_bytes())
    path.write_bytes({"garbage": b"\x80\x04garbage", "truncated": content[: len(content) // 2]}.get(kind, content))
    again, _ = fit(recipe, path)
    assert "It is renamed; the training starts from the beginning." in caplog.text
    assert (tmp_path / "damaged-checkpoint.safetensors").exists()
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])


def test_statistics_agree_with_numpy() -> None:
    data = blobs()
    pixels = data.x.astype(np.float64) / 255
    mean, std = statistics(data, "standardize")
    assert mean == pytest.approx([pixels.mean()])
    assert std == pytest.approx([pixels.std()])
    assert statistics(data, "center") == (mean, ())
    assert statistics(data, "none") == ((), ())


def test_the_history_measures_test_accuracy_as_often_as_asked() -> None:
    """Every epoch by default, every second or never on request; the weights are the same."""
    states, measured = [], []
    for every in (1, 2, 0):
        model, history = fit(Recipe(epochs=4, batch_size=100, test_every=every))
        states.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
        measured.append([epoch.test_accuracy is not None for epoch in history.epochs])
    assert measured == [[True] * 4, [False, True, False, True], [False] * 4]
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[0], states[2])
