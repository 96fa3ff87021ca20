"""An assessment under a change of images: models meet the change, the data is measured at its usual radius."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_assessment import made_assessment, made_scores
from radii.change import Change
from radii.errors import InputError
from radii.report.assessment import _headline, _size
from radii.report.findings import data_finding, verdict
from radii.report.next_steps import command
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
