"""Executors: inputs first, each step once, failures told, progress relayed; a storm of kills changes no bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from radii import progress
from radii.errors import InputError
from radii.runs.component_specs import DataSpec
from radii.runs.executors import run_steps
from radii.runs.planning import train_step
from radii.runs.step import from_json, plan
from radii.runs.steps import Evaluate, Train
from radii.runs.steps.evaluate_step import load_scores
from radii.runs.store import Store
from radii.threat import Ball

SMALL = {"model": {"widen": 0.125}, "epochs": 3, "batch_size": 128}


def training(seed: int = 0, **settings: object) -> Train:
    return train_step(DataSpec.of("digits"), "lenet5", "natural", {**SMALL, **settings}, seed=seed)


def evaluation(step: Train) -> Evaluate:
    return Evaluate(model=step, data=step.data, ball=Ball("l2", 0.3), suite="fast", points=20)


def weights(store: Store, step: Train) -> bytes:
    return (store.folder(step) / "model.safetensors").read_bytes()


class Recorder:
    """A display that remembers what it was shown."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.said: list[str] = []
        self.closed = 0
        self.amount = 0.0

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[Recorder]:
        self.opened.append(what)
        yield self
        self.closed += 1

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.amount += amount


def test_a_plan_has_each_step_once_and_inputs_first() -> None:
    first, second = training(0), training(1)
    steps = plan([evaluation(first), second, evaluation(second), first])
    ids = [step.run_id for step in steps]
    assert len(ids) == len(set(ids)) == 4
    assert ids.index(first.run_id) < ids.index(evaluation(first).run_id)


def test_a_step_travels_as_json() -> None:
    step = evaluation(training(3))
    assert from_json(step.to_json()) == step
    with pytest.raises(InputError, match=r"No step is called 'trian'. Did you mean 'train'"):
        from_json({"step": "trian"})
    with pytest.raises(InputError, match="its meaning has changed"):
        from_json(step.to_json() | {"revision": 99})
    with pytest.raises(InputError, match=r"evaluate step: .*radius"):
        from_json({"step": "evaluate", "revision": 1, "spec": step.to_json()["spec"] | {"ball": {"norm": "l9"}}})


def test_processes_and_this_process_agree_to_the_bit(tmp_path: Path) -> None:
    import torch

    steps = [training(0), training(1)]
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    seen = Recorder()
    with progress.display(seen):
        run_steps([evaluation(steps[0]), *steps], there, workers=2)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    run_steps(steps, here, workers=0)
    torch.set_num_threads(before)
    for step in steps:
        assert weights(here, step) == weights(there, step)
        assert Store(here.root).ensure(step).result == Store(there.root).ensure(step).result
    assert "training on digits train" in seen.opened or any("training" in what for what in seen.opened)
    assert seen.closed == len(seen.opened)
    assert seen.amount > 0


def test_a_failure_is_told_and_the_rest_is_done(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    good, bad = training(0), training(0, optimizer={"lr": 1e30})
    with pytest.raises(InputError, match="diverged"):
        run_steps([evaluation(bad), good], store, workers=2)
    assert store.is_done(good)
    assert not store.is_done(bad)
    assert not store.is_done(evaluation(bad))


WORKER = """
import random, sys, torch
torch.set_num_threads(1)
from pathlib import Path
from radii.runs.step import from_json
from radii.runs.store import Store
import json
steps = [from_json(item) for item in json.loads(Path(sys.argv[1]).read_text())]
random.shuffle(steps)
for step in steps:
    Store(Path(sys.argv[2])).ensure(step)
"""


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_a_storm_of_kills_changes_no_bit(tmp_path: Path) -> None:
    """Four racing processes, 25 kill -9: every run committed once, equal to a calm run, nothing partial ever seen."""
    import json

    import torch

    steps = [training(seed, epochs=40) for seed in range(8)]
    (tmp_path / "steps.json").write_text(json.dumps([step.to_json() for step in steps]))
    storm, calm = Store(tmp_path / "storm"), Store(tmp_path / "calm")
    command = [sys.executable, "-c", WORKER, str(tmp_path / "steps.json"), str(storm.root)]
    slow = os.environ | {"RADII_CHECKPOINT_SECONDS": "0.05", "OMP_NUM_THREADS": "1"}
    chance, kills, workers = random.Random(0), 0, [subprocess.Popen(command, env=slow) for _ in range(4)]
    deadline = time.monotonic() + 1500
    while time.monotonic() < deadline and not all(storm.is_done(step) for step in steps):
        time.sleep(0.05)
        for run in storm.runs():  # nothing visible is ever partial
            assert {"spec.json", "result.json", "env.json", "model.safetensors"} <= {
                p.name for p in run.folder.iterdir()
            }
        if kills < 25 and (storm.root / "work").exists() and chance.random() < 0.1:
            victim = chance.randrange(4)
            workers[victim].send_signal(signal.SIGKILL)
            workers[victim].wait()
            workers[victim] = subprocess.Popen(command, env=slow)
            kills += 1
    for worker in workers:
        worker.wait(timeout=120)
    assert kills == 25, f"only {kills} kills before everything was done"
    assert sorted(run.id for run in storm.runs()) == sorted(step.run_id for step in steps)
    assert not list((storm.root / "work").iterdir())
    torch.set_num_threads(1)
    run_steps(steps, calm, workers=0)
    for step in steps:
        assert weights(storm, step) == weights(calm, step)
        assert storm.ensure(step).result == calm.ensure(step).result


def test_an_evaluation_in_parts_is_the_evaluation_of_the_whole(tmp_path: Path) -> None:
    """Point by point, alarms included; the parts are steps that workers share."""
    store, data = Store(tmp_path), DataSpec.of("digits")
    training = train_step(data, "mlp", "natural", {"epochs": 2, "model": {"width": 32}})
    whole = Evaluate(model=training, data=data, ball=Ball("linf", 0.1), suite="fast", points=50)
    divided = whole.model_copy(update={"parts": 3})
    assert whole.run_id != divided.run_id
    assert [step.kind for step in plan([divided])] == ["train", "evaluate", "evaluate", "evaluate", "evaluate"]
    one, many = run_steps([whole, divided], store, workers=2)
    (scores, rows), (joined, joined_rows) = load_scores(one), load_scores(many)
    assert np.array_equal(rows, joined_rows)
    assert torch.equal(scores.x_adv, joined.x_adv)
    for name in ("prediction", "changed", "proved", "adversarial_prediction"):
        assert np.array_equal(getattr(scores.points, name), getattr(joined.points, name)), name
    assert scores.points.broken_by == joined.points.broken_by
    assert np.allclose(scores.points.changed_radius, joined.points.changed_radius)
    assert scores.alarms == joined.alarms
    assert one.read(Evaluate.Result).robust == many.read(Evaluate.Result).robust


def test_a_sampled_evaluation_is_not_divided() -> None:
    data = DataSpec.of("digits")
    training = train_step(data, "mlp", "natural", {"epochs": 1})
    with pytest.raises(ValueError, match="cannot be divided"):
        Evaluate(model=training, data=data, ball=Ball("linf", 0.1), suite="sampled", parts=2)
