"""The expected time of steps that were never measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from radii.runs.inputs import DataSpec
from radii.runs.planning import train_step
from radii.runs.steps import AuditStep, Certify, Evaluate, Train
from radii.runs.store import Store
from radii.studies import plan, rehearsal
from radii.studies.plan import StepTimes, plan_studies
from radii.studies.study import Cell, Findings, Study
from radii.tables import table
from radii.threat import Ball

DIGITS = DataSpec.of("digits")


def training(**settings: object) -> Train:
    return train_step(DIGITS, "isometric", "offset-cross-entropy", {"model": {"width": 64, "tokens": 1}, **settings})


def test_two_short_versions_give_a_fixed_cost_and_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_seconds", lambda step, count, store: 5.0 + 0.25 * count)
    assert rehearsal.rehearse(training(steps=1000)) == pytest.approx(255.0)
    points = len(DIGITS.load().test)
    certify = Certify(model=training(steps=1000), data=DIGITS, radii=(0.5,), points=10_000)
    assert rehearsal.rehearse(certify) == pytest.approx(5.0 + 0.25 * points), "no more points than there are"
    batches = -(-len(DIGITS.load().train) // 64)
    assert rehearsal.rehearse(training(epochs=3, batch_size=64)) == pytest.approx(5.0 + 0.25 * 3 * batches)


def test_every_step_of_a_new_study_has_an_expected_time_and_nothing_is_left(tmp_path: Path) -> None:
    trained = training(steps=300)
    steps = [
        Certify(model=trained, data=DIGITS, radii=(0.5,)),
        Evaluate(model=trained, data=DIGITS, ball=Ball.parse("l2:0.5"), suite="pgd", points=50),
    ]
    cells = tuple(Cell({"step": step.kind}, step) for step in steps)
    study = Study("new", "", "", lambda budget: cells, lambda measured: Findings(table([], [])))
    store, times = Store(tmp_path / "store"), StepTimes()
    planned = plan_studies([study], "smoke", store, times, rehearsed=True)
    assert planned.time_left(times, 1).unknown == 0
    assert all(item.seconds is not None and item.seconds > 0 for item in planned.steps)
    assert not store.runs()


def test_timing_ends_and_further_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PATIENCE", 0.0)
    monkeypatch.setattr(plan, "rehearse", lambda step, device: pytest.fail("it was timed"))
    times, step = StepTimes(), training(steps=300)
    times.rehearse([step], "cpu")
    assert (expected := times.expect(step)) is not None
    assert times.expect(training(steps=600)) == pytest.approx(2 * expected)


def test_code_of_users_is_not_run_to_plan_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_seconds", lambda step, count, store: pytest.fail("it was run"))
    own = train_step(DIGITS, "radii.models.zoo.isometric:Isometric", "natural", {"steps": 10})
    assert rehearsal.rehearse(own) is None
    assert rehearsal.rehearse(AuditStep(data=DIGITS)) is None
