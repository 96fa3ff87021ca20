"""Manifold: closed forms, orthogonality at every step, resume to the same bits, two processes as one."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import socket
import time
from math import cos, sin
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import nn

import radii
from radii.data.dataset import Dataset
from radii.errors import InputError
from radii.models.io.bundle import Architecture, initialize
from radii.models.io.weights import read_tensors as read
from radii.models.layers.orthogonal import OrthogonalParameter, orthogonality_defect
from radii.models.zoo.isometric import Isometric
from radii.randomness import numpy_stream, threads
from radii.training.distributed import process_group
from radii.training.loop import accuracy_on, train
from radii.training.objectives.cross_entropies import OffsetCrossEntropy
from radii.training.optimizers import Manifold
from radii.training.schedule import Optimizer, Recipe

CARD = Architecture(
    name="isometric",
    arguments={"width": 32, "depth": 3, "tokens": 4, "shift": 8},
    input_shape=(1, 8, 8),
    classes=tuple("012"),
)
RECIPE = Recipe(epochs=4, batch_size=20, optimizer=Optimizer(kind="manifold", schedule="linear", lr=0.03, warmup=0.1))


def blobs(n: int = 300) -> Dataset:
    """Three kinds of 8x8 images that differ in where they are bright."""
    random = numpy_stream(0, "blobs")
    y = np.arange(n) % 3
    x = random.integers(0, 120, (n, 1, 8, 8), dtype=np.uint8)
    for label in range(3):
        x[y == label, :, label * 2 : label * 2 + 3] += 100
    return Dataset(x, y.astype(np.int64), tuple("012"), "blobs")


class Slow(OffsetCrossEntropy):
    """Leaves time to be killed."""

    def loss(self, model, x, y, progress):  # type: ignore[no-untyped-def]
        time.sleep(0.02)
        return super().loss(model, x, y, progress)


def fit(checkpoint: Path | None = None, objective: OffsetCrossEntropy | None = None) -> nn.Module:
    model = initialize(CARD, seed=7)
    with threads(1):
        train(model, blobs(), objective or OffsetCrossEntropy(), RECIPE, seed=7, checkpoint=checkpoint)
    return model


def test_a_rotation_of_the_plane_turns_by_the_rate() -> None:
    """In two dimensions the tangent space is a line, so a step is a turn by about the rate."""
    weight = OrthogonalParameter(torch.eye(2, dtype=torch.float64))
    optimizer = Manifold([weight], lr=0.01)
    weight.grad = torch.tensor([[5.0, 3.0], [-3.0, 7.0]], dtype=torch.float64)  # its skew part turns
    optimizer.step()
    angle = float(torch.atan2(*weight.detach()[:, 0].flip(0)))
    assert 0.006 < angle < 0.013
    turned = torch.tensor([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]], dtype=torch.float64)
    torch.testing.assert_close(weight.detach(), turned, atol=1e-7, rtol=0)


def test_it_finds_the_nearest_orthogonal_matrix() -> None:
    """The orthogonal Procrustes problem has a closed solution, the polar factor."""
    torch.manual_seed(0)
    goal = torch.randn(12, 7)
    left, _, right = torch.linalg.svd(goal, full_matrices=False)
    weight = OrthogonalParameter(nn.init.orthogonal_(torch.empty(12, 7)))
    optimizer = Manifold([weight])
    for step in range(400):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 400)
        optimizer.zero_grad()
        (weight - goal).square().sum().backward()
        optimizer.step()
        assert orthogonality_defect(weight) < 1e-5
    torch.testing.assert_close(weight.detach(), left @ right, atol=2e-2, rtol=0)


def test_the_rest_is_torchs_adam() -> None:
    torch.manual_seed(0)
    ours = nn.Parameter(torch.randn(5))
    theirs = nn.Parameter(ours.detach().clone())
    matrix = OrthogonalParameter(torch.eye(2))
    first = Manifold([matrix, ours], others_lr=0.01)
    second = torch.optim.Adam([theirs], lr=0.01, betas=(0.9, 0.99))
    for _ in range(20):
        for parameter, optimizer in ((ours, first), (theirs, second)):
            optimizer.zero_grad()
            parameter.pow(4).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours, theirs)
    assert torch.equal(matrix, torch.eye(2))  # no gradient, no step


def test_matrices_stay_orthogonal_and_the_network_learns() -> None:
    model = fit()
    defects = [orthogonality_defect(part) for part in model.parameters() if isinstance(part, OrthogonalParameter)]
    assert len(defects) == 3
    assert max(defects) <= 1e-5
    assert accuracy_on(model, blobs()) > 0.95
    assert radii.lipschitz_bound(model, (1, 8, 8)).features < 1 + 1e-5


def test_plain_torch_uses_it() -> None:
    torch.manual_seed(0)
    model = Isometric((6,), 3, width=16, depth=2)
    optimizer = radii.training.Manifold(model.parameters(), lr=0.02)
    x, y = torch.randn(64, 6), torch.arange(64) % 3
    first = float(nn.functional.cross_entropy(model(x), y).detach())
    for _ in range(60):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        last = optimizer.step(closure)
    assert float(last.detach()) < 0.9 * first
    again = Manifold(model.parameters(), lr=0.02)
    again.load_state_dict(optimizer.state_dict())
    assert again.param_groups[0]["momentum"] == 0.9


def _victim(path: str) -> None:
    torch.set_num_threads(1)
    train(initialize(CARD, seed=7), blobs(), Slow(), RECIPE, seed=7, checkpoint=Path(path), checkpoint_seconds=0.1)


def test_killed_and_resumed_to_the_same_bits(tmp_path: Path) -> None:
    calm = fit()
    path = tmp_path / "checkpoint.safetensors"
    victim = mp.get_context("spawn").Process(target=_victim, args=(str(path),))
    victim.start()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and read(path)[1]["done"] >= 20):
        time.sleep(0.01)
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    assert 20 <= read(path)[1]["done"] < 60, "the kill must come in the middle"
    resumed = fit(path)
    for name, weight in calm.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name


def _process(rank: int, port: int, folder: str) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    with process_group():
        model = fit()
    save_file(model.state_dict(), Path(folder) / f"{rank}.safetensors")


def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")
    processes = [context.Process(target=_process, args=(rank, port, str(tmp_path))) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert process.exitcode == 0
    one, two = (load_file(tmp_path / f"{rank}.safetensors") for rank in range(2))
    alone = fit().state_dict()
    for name, weight in one.items():
        assert torch.equal(weight, two[name]), name
        # the polar factor turns the last bits of small gradients into visible ones
        assert float((weight - alone[name]).abs().max()) < 5e-2, name


def test_the_linear_schedule() -> None:
    schedule = Optimizer(kind="manifold", schedule="linear", lr=0.04, warmup=0.25)
    rates = [schedule.at(step, 8)[0] for step in range(8)]
    assert rates == pytest.approx([0.02, 0.04, 0.04, 0.04 * 5 / 6, 0.04 * 4 / 6, 0.02, 0.04 * 2 / 6, 0.04 / 6])
    model = Isometric((6,), 3, width=16, depth=1)
    optimizer = schedule.make(model.parameters())
    schedule.set(optimizer, 0, 8)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.02, 0.001])


def test_refusals() -> None:
    with pytest.raises(InputError, match="needs a model with orthogonal parameters"):
        Manifold(nn.Linear(2, 2).parameters())
    with pytest.raises(InputError, match="positive rates"):
        Manifold([OrthogonalParameter(torch.eye(2))], lr=0.0)
    with pytest.raises(ValidationError, match="off their manifold"):
        Optimizer(kind="manifold", weight_decay=0.1)
    with pytest.raises(ValidationError, match=r"belongs to optimizer\.kind=manifold"):
        Optimizer(kind="adam", others_lr=0.1)
