"""Running studies: shared steps once, an estimate first, failures listed with their retry, kills harmless."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import radii
from made_records import trained
from radii.budget import Budget
from radii.data import sources
from radii.errors import InputError
from radii.runs.audit_record import AuditResult
from radii.runs.component_specs import DataSpec
from radii.runs.executors import FailedStepsError
from radii.runs.planning import train_step
from radii.runs.step import Step, plan
from radii.runs.step_results import TrainResult
from radii.runs.steps import AuditStep, Evaluate, Train
from radii.runs.store import Store
from radii.studies import results
from radii.studies.plan import StepTimes, _check_networks, format_duration, plan_studies
from radii.studies.results import Evidence, find, latest, save
from radii.studies.runner import Request, StudyObserver, _record_study, find_study, run, run_studies, study_records
from radii.studies.study import STUDIES, Cell, Findings, Measured, Study, registered_study
from radii.tables import Field, table
from radii.threat import Ball

SMALL = {"model": {"widen": 0.125}, "epochs": 1, "batch_size": 256}


def training(seed: int = 0, **settings: object) -> Train:
    return train_step(DataSpec.of("digits"), "lenet5", "natural", {**SMALL, **settings}, seed=seed)


def analyze(measured: tuple[Measured, ...]) -> Findings:
    rows = tuple({"seed": cell.place["seed"], "test": cell.read(TrainResult).test_accuracy} for cell in measured)
    return Findings(table(rows, ["seed", Field("test", percent=True)]))


def small(name: str, *steps: Train) -> Study:
    def cells(budget: Budget) -> tuple[Cell, ...]:
        return tuple(Cell({"seed": number}, step) for number, step in enumerate(steps))

    return Study(name, f"Study {name}", "nobody 2026", cells, analyze)


BAD = {"optimizer": {"lr": 1e30}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_steps_that_studies_share_are_computed_once(store: Store) -> None:
    one, two = small("one", training(0), training(1)), small("two", training(1), training(2))
    whole = plan_studies([one, two], "smoke", store, StepTimes())
    assert [whole.studies[step.run_id] for step in whole.steps] == [("one",), ("one", "two"), ("two",)]
    heard: list[str] = []

    class Listener(StudyObserver):
        def step_ended(self, step: Step, seconds: float | None, left: str) -> None:
            heard.append(step.run_id)
            assert seconds is not None
            assert left.startswith(("about", "nothing")), "the first step has shown how long the others take"

    evidence = run_studies([one, two], Request(("one", "two"), "smoke", "inline"), store, Listener())
    assert heard == [step.run_id for step in whole.steps]
    assert [found.failures for found in evidence] == [(), ()]
    assert [found.complete for found in evidence] == [True, True]
    again = plan_studies([one, two], "smoke", store, StepTimes.known(store))
    assert not again.todo
    assert all(again.seconds(step) is not None for step in again.steps)
    content = json.loads(Path(evidence[0].origin).read_text())
    assert content["command"] == "radii study run one two --budget smoke --executor inline"


def test_what_is_unlike_everything_has_no_expected_time(store: Store) -> None:
    rates = StepTimes()
    rates.learn(training(0), 10.0)
    assert rates.expect(training(0)) == 10.0
    assert rates.expect(training(7)) == pytest.approx(10.0)
    assert rates.expect(training(7, epochs=3)) == pytest.approx(30.0)
    assert rates.expect(training(7, model={"widen": 1.0})) is None
    assert rates.expect(AuditStep(data=DataSpec.of("digits"))) is None
    by_steps = training(0, steps=50)
    rates.learn(by_steps, 5.0)
    elsewhere = train_step(DataSpec.of("digits+subset:300"), "lenet5", "natural", {**SMALL, "steps": 100}, seed=1)
    assert rates.expect(elsewhere) == pytest.approx(10.0), "steps are as long on a subset"


def test_points_of_one_network_take_proportionally_long() -> None:
    """Whatever its variant of the data and the length of its training; another attack says nothing."""
    times = StepTimes()

    def attacked(name: str, points: int, suite: str = "pgd", **settings: object) -> Evaluate:
        data = DataSpec.of(name)
        trained = train_step(data, "lenet5", "natural", {**SMALL, **settings})
        return Evaluate(model=trained, data=data, ball=Ball.parse("linf:0.1"), suite=suite, points=points)

    times.learn(attacked("digits", 50), 5.0)
    assert times.expect(attacked("digits+smooth:3", 200, epochs=7)) == pytest.approx(20.0)
    assert times.expect(attacked("digits", 50, "fast")) is None
    assert times.expect(attacked("digits", 50, model={"widen": 0.5})) is None


def test_a_shipped_time_is_that_of_the_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = [{"cells": [{"run": training(1).run_id, "seconds": 90}]}]
    monkeypatch.setattr("radii.studies.plan.shipped_results", lambda: shipped)
    times = StepTimes.known(store)
    assert times.expect(training(1)) == pytest.approx(90)
    assert times.expect(training(2)) is None, "another machine's rate is no measurement of this one"


def test_the_expected_time_respects_inputs_and_workers(store: Store) -> None:
    rates = StepTimes()
    for seed in range(4):
        rates.learn(training(seed), 10.0)
    planned = plan_studies([small("four", *(training(seed) for seed in range(4)))], "smoke", store, rates)
    assert planned.seconds_left(1) == (40.0, 0)
    assert planned.seconds_left(2) == (20.0, 0)
    assert planned.seconds_left(100) == (10.0, 0)
    assert planned.seconds_left(1, [training(0).run_id]) == (30.0, 0)
    assert replace(planned, times=StepTimes()).seconds_left(1) == (0.0, 4)


def test_times_are_told_as_people_say_them(store: Store) -> None:
    assert [format_duration(s) for s in (0.44, 12, 200, 9000)] == ["0.4 s", "12 s", "3 min", "2.5 h"]
    others = [training(seed, model={"widen": 1.0}) for seed in range(3)]
    times = StepTimes()
    times.learn(training(), 60.0)
    plans = {count: small("some", training(1), *others[:count]) for count in (0, 3)}
    assert plan_studies([plans[0]], "smoke", store, times).time_left(1) == "about 60 s"
    assert plan_studies([plans[3]], "smoke", store, times).time_left(1) == "at least 60 s, 3 steps not measured yet"
    assert plan_studies([plans[3]], "smoke", store, StepTimes()).time_left(1) == "not measured yet"
    assert training(2).describe() == "train lenet5 by natural on digits, seed 2"


def test_a_failure_is_listed_with_its_retry_and_the_rest_is_kept(store: Store) -> None:
    study = small("mixed", training(0, **BAD), training(1))
    request = Request(("mixed",), "smoke", "processes", workers=2)
    (evidence,) = run_studies([study], request, store)
    (failure,) = evidence.failures
    assert failure.run == training(0, **BAD).run_id
    assert "diverged" in failure.error
    assert failure.retry == f"radii study run mixed --budget smoke --workers 2 --step {failure.run}"
    assert len(evidence.measured) == 1
    assert not evidence.complete
    assert results.read(Path(evidence.origin)).measured[0].run == training(1).run_id
    with pytest.raises(FailedStepsError, match="diverged"):
        run(study, "smoke", store=store, executor="inline")


def test_a_single_step_can_be_asked_for(store: Store) -> None:
    study = small("pair", training(0), training(1))
    wanted = training(1).run_id
    run_studies([study], Request(("pair",), "smoke", "inline", only=(wanted[:12],)), store)
    assert [run.id for run in store.runs()] == [wanted]
    with pytest.raises(InputError, match="No step of this plan is called 'train-zzz'"):
        plan_studies([study], "smoke", store, StepTimes(), ["train-zzz"])


def test_a_study_is_run_from_python(store: Store) -> None:
    found = radii.studies.run("separation", "smoke", store=store, executor="inline")
    assert found.complete
    assert (found.measured[0].read(AuditResult).train.minimum or 0) > 0
    assert [record.name for record in study_records(store)] == ["separation"]
    own = latest(find_study("separation", store), None, store)
    assert own is not None
    with pytest.raises(InputError, match="No budget is called 'gpu'"):
        radii.studies.run("separation", "gpu", store=store)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Did you mean 'separation'"):
        radii.studies.run("seperation", "smoke", store=store)
    with pytest.raises(InputError, match="No executor is called 'slurm'"):
        radii.studies.run("separation", "smoke", store=store, executor="slurm")


def test_the_latest_evidence_is_collected_from_the_runs(store: Store) -> None:
    """A killed runner has saved nothing; its finished steps are found all the same."""
    study = small("partial", training(0), training(1))
    assert latest(study, None, store) is None
    store.ensure(training(1))
    found = latest(study, "smoke", store)
    assert found is not None
    assert [cell.run for cell in found.measured] == [training(1).run_id]
    assert not found.complete


def test_a_few_shared_runs_of_a_greater_budget_do_not_hide_a_complete_one(store: Store) -> None:
    plans = {"smoke": (training(0),), "cpu": (training(0), training(1))}
    study = Study(
        "shared",
        "Shared",
        "here",
        lambda budget: tuple(Cell({"seed": number}, step) for number, step in enumerate(plans[budget])),
        small("none").analyze,
        ("smoke", "cpu"),
    )
    store.ensure(training(0))
    found = latest(study, None, store)
    assert found is not None
    assert (found.budget, found.complete) == ("smoke", True)
    store.ensure(training(1))
    found = latest(study, None, store)
    assert found is not None
    assert (found.budget, found.complete) == ("cpu", True)


def test_what_was_saved_of_an_interrupted_greater_budget_does_not_hide_a_complete_one(store: Store) -> None:
    def saved(budget: Budget, planned: int) -> None:
        cell = Measured({"seed": 0}, trained(0.5), "train-0", 1.0, 1.0)
        save(Evidence("halted", budget, planned, (cell,), {}), small("halted"), "radii study run", store)

    saved("smoke", 1)
    saved("night", 2)
    found = find("halted", store)
    assert found is not None
    assert found.budget == "night"  # smoke only checks that a study runs
    saved("cpu", 1)
    found = find("halted", store)
    assert found is not None
    assert found.budget == "cpu"
    saved("night", 1)
    found = find("halted", store)
    assert found is not None
    assert found.budget == "night"


def test_started_studies_are_remembered_most_recent_first(store: Store) -> None:
    _record_study(find_study("separation", store), "separation", "smoke", store)
    time.sleep(0.01)
    _record_study(find_study("subspaces", store), "subspaces", "cpu", store)
    _record_study(small("python"), "python", "cpu", store)  # has no reference: it cannot be found again
    assert [(record.name, record.budget) for record in study_records(store)] == [
        ("subspaces", "cpu"),
        ("separation", "smoke"),
    ]


def weights(store: Store, step: Train) -> str:
    return hashlib.sha256((store.folder(step) / "model.safetensors").read_bytes()).hexdigest()


GRID = """
name = "killed"
data = ["digits"]
seeds = [0, 1]
[[model]]
name = "lenet5"
widen = 0.125
[settings]
epochs = 12
batch_size = 128
"""


@pytest.mark.timeout(800)
def test_a_killed_study_is_resumed_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    """kill -9 of the runner while both trainings are under way: its workers end with it, the next run continues."""
    (tmp_path / "killed.toml").write_text(GRID)
    command = [sys.executable, "-m", "radii.cli.main", "study"]
    environment = os.environ | {"RADII_CHECKPOINT_SECONDS": "0.1", "OMP_NUM_THREADS": "1"}
    victim = subprocess.Popen([*command, "run", "killed.toml", "--budget", "cpu"], cwd=tmp_path, env=environment)
    work = Path(environment["RADII_RUNS"]) / "work"
    deadline = time.monotonic() + 250
    while time.monotonic() < deadline and not list(work.glob("*/checkpoint.safetensors")):
        time.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert list(work.glob("*/checkpoint.safetensors")), "no checkpoint was written"
    subprocess.run([*command, "resume", "killed"], cwd=tmp_path, env=environment, check=True, timeout=500)
    calm, stormy = Store(tmp_path / "calm"), Store(Path(environment["RADII_RUNS"]))
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    steps = [cell.step for cell in find_study(str(tmp_path / "killed.toml"), stormy).cells("cpu")]
    for step in steps:
        assert isinstance(step, Train)
        calm.ensure(step)
        assert weights(calm, step) == weights(stormy, step)
    torch.set_num_threads(before)
    assert not list(work.iterdir())


def test_a_width_is_held_against_the_shape_that_variants_give() -> None:
    settings = {"steps": 1, "model": {"width": 40}}
    _check_networks([train_step(DataSpec.of("digits+binarize+crop:6"), "lipschitz-mlp", "natural", settings)])
    with pytest.raises(InputError, match="at least the 64 inputs, got 40"):
        _check_networks([train_step(DataSpec.of("digits+binarize"), "lipschitz-mlp", "natural", settings)])


def test_a_users_code_is_not_run_while_a_study_is_planned() -> None:
    own = train_step(DataSpec.of("digits"), "lenet5", "natural", {"steps": 1})
    _check_networks([own.model_copy(update={"model": own.model.model_copy(update={"name": "no.such.module:net"})})])


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_every_network_of_every_study_can_be_built(name: str) -> None:
    """At all budgets; data that is not on this machine leaves its networks out."""
    study = registered_study(name)
    with sources.only_local():
        for budget in study.budgets:
            with suppress(InputError):  # the data is not here
                steps = plan([cell.step for cell in study.cells(budget)])
                assert _refusal(steps) is None


def _refusal(steps: list[Step]) -> str | None:
    try:
        _check_networks(steps)
    except InputError as error:
        return str(error)
    return None
