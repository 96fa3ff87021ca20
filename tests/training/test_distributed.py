"""Two processes on gloo train what one process trains with the same global batch."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from radii.data.augmentation import Augmentation
from radii.data.dataset import Dataset
from radii.errors import InputError
from radii.models.io.bundle import Architecture, initialize
from radii.randomness import numpy_stream, threads
from radii.training.distributed import ProcessGroup, current_group, process_group
from radii.training.loop import train
from radii.training.objectives import METHODS
from radii.training.objectives.objective import TrainingProgress
from radii.training.schedule import Recipe

METHODS_TRIED = {
    "natural": {},
    "adversarial": {"threat": "linf:0.05", "steps": 3},
    "trades": {"threat": "linf:0.05", "steps": 3},
    "gradient-regularization": {"weight": 0.1},
    "gaussian-noise": {},
}
CARD = Architecture(name="lenet5", arguments={"widen": 0.125}, input_shape=(1, 8, 8), classes=tuple("012"))
RECIPE = Recipe(epochs=2, batch_size=20, augmentation=Augmentation(crop=1, flip=True))


def blobs(n: int = 120) -> Dataset:
    random = numpy_stream(0, "blobs")
    y = np.arange(n) % 3
    x = random.integers(0, 120, (n, 1, 8, 8), dtype=np.uint8)
    for label in range(3):
        x[y == label, :, label * 2 : label * 2 + 3] += 100
    return Dataset(x, y.astype(np.int64), tuple("012"), "blobs")


def fit_all(folder: Path) -> None:
    """Train by every method; the leading process writes weights and histories."""
    with threads(1), process_group() as group:
        for name, given in METHODS_TRIED.items():
            model = initialize(CARD, seed=3)
            objective = METHODS.factory(name)(**METHODS.arguments(name, given))
            history = train(model, blobs(), objective, RECIPE, seed=3, test=blobs(30))
            if group.is_main_process:
                save_file(model.state_dict(), folder / f"{name}.safetensors")
                (folder / f"{name}.json").write_text(json.dumps([asdict(epoch) for epoch in history.epochs]))


def _process(rank: int, port: int, folder: str) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    fit_all(Path(folder))
    # a thread of gloo that outlives the group ends the interpreter by SIGABRT now and then
    names = [(thread / "comm").read_text() for thread in Path("/proc/self/task").glob("*")]
    assert not [name for name in names if "gloo" in name], names


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    alone.mkdir()
    pair.mkdir()
    fit_all(alone)
    context, port = mp.get_context("spawn"), free_port()
    processes = [context.Process(target=_process, args=(rank, port, str(pair))) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert process.exitcode == 0
    for name in METHODS_TRIED:
        one, two = load_file(alone / f"{name}.safetensors"), load_file(pair / f"{name}.safetensors")
        for key, weight in one.items():
            # a sign step near a zero gradient may turn on the last bit of a sum, so weights agree to float tolerance
            assert torch.allclose(weight, two[key], atol=2e-5), f"{name}: {key} {(weight - two[key]).abs().max()}"
        for ours, theirs in zip(*(json.loads((f / f"{name}.json").read_text()) for f in (alone, pair)), strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], abs=1e-4)
            assert ours["train_accuracy"] == pytest.approx(theirs["train_accuracy"], abs=0.02)


def test_draws_do_not_depend_on_the_number_of_processes() -> None:
    whole = torch.zeros(6, 2)
    together = TrainingProgress(4, 10, seed=1).normal("noise", whole)
    shares = [TrainingProgress(4, 10, 1, rank, 3).normal("noise", whole[:2]) for rank in range(3)]
    assert torch.equal(together, torch.cat(shares))


def test_a_lone_process_is_a_team_of_one() -> None:
    group = current_group()
    assert group == ProcessGroup()
    assert group.is_main_process
    assert group.total(1.5, 2) == [1.5, 2]
    assert group.agreed(True)
    assert not group.agreed(False)
    rows = torch.arange(6)
    assert torch.equal(group.share(rows), rows)
    assert torch.equal(ProcessGroup(1, 2).share(rows), torch.tensor([3, 4, 5]))
    with pytest.raises(InputError, match="multiple of 4"):
        ProcessGroup(0, 4).share(rows)


@pytest.mark.heavy
def test_torchrun_makes_one_run(tmp_path: Path) -> None:
    command = ["train", "digits", "--recipe", "ding-mnist", "--budget", "smoke", "--json", str(tmp_path / "two.json")]
    environment = {**os.environ, "RADII_RUNS": str(tmp_path / "runs"), "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    done = subprocess.run([*launch, "-m", "radii.cli.main", *command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    two = json.loads((tmp_path / "two.json").read_text())
    command[-1] = str(tmp_path / "again.json")
    done = subprocess.run(
        [sys.executable, "-m", "radii.cli.main", *command], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "not computed again" in done.stdout
    assert json.loads((tmp_path / "again.json").read_text()) == two
