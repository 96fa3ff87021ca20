"""An assessment under a change of images or with corruptions: what is planned, and what the report says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_assessment import made_assessment, made_scores
from radii.change import Change
from radii.errors import InputError
from radii.report.assessment import _corruptions, _headline, _size
from radii.report.findings import corruption_finding, data_finding, verdict
from radii.report.next_steps import command
from radii.runs.step_results import CorruptionsResult, KindAccuracy
from radii.runs.store import Store
from radii.studies.assess import AssessmentRequest

CHANGE = Change.parse("brightness:0.5")


def test_the_plan(tmp_path: Path) -> None:
    request = AssessmentRequest("digits", "brightness:0.5", require=("proved(brightness:0.5)>=0.7",))
    plan = request.plan(Store(tmp_path))
    assert plan.ball == CHANGE
    assert {(step.ball, step.suite) for step in plan.evaluations.values()} == {(CHANGE, "grid")}
    assert (plan.audit.norm, plan.audit.epsilon) == ("l2", 0.5) == (plan.around.norm, plan.around.radius)
    assert plan.curve is None
    assert set(plan.trainings) == set(plan.evaluations)
    with pytest.raises(InputError, match="another threat than the assessment, brightness"):
        replace(request, require=("robust(brightness:0.1)>=0.7",)).plan(Store(tmp_path))


def test_the_report_keeps_strengths_and_distances_apart() -> None:
    scores = replace(made_scores(["proved"] * 90 + ["broken"] * 30), ball=CHANGE)
    found = replace(made_assessment({"net": scores}), ball=CHANGE)
    found.__dict__["limits"] = made_assessment({"net": scores}).limits
    assert "is proved correct within brightness:0.5 on 90 of 120" in verdict(found)
    assert data_finding(found) == "The data allows L2 0.5 for every test point"
    assert "--threat brightness:0.5" in command(found)
    (model,) = found.models
    assert [card.label for card in _headline(found, model).cards] == ["proved", "true", "broken"]
    assert _size(found).startswith("A radius is a strength of brightness")


def test_a_table_by_kind_of_corruption(tmp_path: Path) -> None:
    plan = AssessmentRequest("digits", "l2:0.5", points=30, corruptions=True).plan(Store(tmp_path))
    assert {(step.points, step.seed) for step in plan.corruptions.values()} == {(30, 0)}
    assert set(plan.corruptions) == set(plan.evaluations)
    assert all(step in plan.steps for step in plan.corruptions.values())
    assert not AssessmentRequest("digits", "l2:0.5").plan(Store(tmp_path)).corruptions
    kinds = (KindAccuracy(kind="fog", correct=(9, 8, 7, 6, 5)), KindAccuracy(kind="frost", correct=(5, 4, 3, 2, 1)))
    own = CorruptionsResult(points=10, clean=10, kinds=kinds)
    found = replace(made_assessment({"net": made_scores(["proved"] * 10)}), corrupted={"net": own})
    assert corruption_finding(found) == "Corruptions: net is right on 50% of the images, and on 30% under frost"
    (shown,) = _corruptions(found)
    assert shown.title == "net: clean 100.0%, mean over all kinds and severities 50.0%"
    assert [(row["kind"], row["3"], row["mean"]) for row in shown.rows] == [("fog", 0.7, 0.7), ("frost", 0.3, 0.3)]


def test_features_have_no_corruptions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", x=rng.random((40, 3)).astype(np.float32), y=np.arange(40) % 2)
    request = AssessmentRequest(str(tmp_path / "t.npz"), "linf:0.1", corruptions=True)
    with pytest.raises(InputError, match="leave --corruptions out"):
        request.plan(Store(tmp_path))
