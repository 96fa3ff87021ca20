"""What to do next: which figures make an issue, and that every command that is proposed can be typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from made_assessment import made_assessment, made_scores
from radii.attacks.caveats import Alarm
from radii.cli.main import load_command
from radii.report.next_steps import issues
from radii.runs.model_source import ModelFactory
from radii.studies.assess import Assessment

SOURCE = ModelFactory(factory="mine.py:net", code="1" * 64, weights="weights of mine.pth", sha256="2" * 64)


def again(found: Assessment, limits: dict[str, Any] | None = None, **changes: Any) -> Assessment:
    """The assessment with other fields; what its data allows is no field."""
    changed = replace(found, **changes)
    changed.__dict__["limits"] = replace(found.limits, **(limits or {}))
    return changed


def made(kinds: list[str], labels: list[int] | None = None, **more: Any) -> Assessment:
    """An assessment of one model of the user."""
    scores = made_scores(kinds, labels, **more)
    found = made_assessment({"mine": scores}, options=("--model", "mine.py:net", "--weights", "weights of mine.pth"))
    return again(found, models=tuple(replace(model, source=SOURCE) for model in found.models))


def cases() -> dict[str, Assessment]:
    """An assessment for every reason."""
    plain = made(["proved"] * 120, suite="standard")
    alarmed = again(
        plain,
        models=tuple(
            replace(own, scores=replace(own.scores, alarms=(Alarm("zero gradients", "At 90% of the points …"),)))
            for own in plain.models
        ),
    )
    return {
        "14 points are open": made(["open"] * 14 + ["proved"] * 106, suite="standard"),
        "Every point is decided at ε = 0.5": again(
            plain,
            models=tuple(
                replace(
                    own, scores=replace(own.scores, points=replace(own.scores.points, changed_radius=np.full(120, 3.0)))
                )
                for own in plain.models
            ),
        ),
        "20 points are too few to judge": made(["proved"] * 20, suite="standard"),
        "mine was not attacked by the standard suite": made(["proved"] * 100 + ["open"] * 20),
        "ε = 0.5 is too large to tell models apart": made(["broken"] * 120, suite="standard"),
        "mine: nothing is proved": made(["open"] * 120, suite="standard", certificate=None),
        "mine: class 0 is read as class 1": made(["broken"] * 8 + ["proved"] * 112, suite="standard"),
        "mine: clean accuracy cannot be told from guessing": made(["wrong"] * 120, suite="standard"),
        "mine: zero gradients": alarmed,
        "mine: hold this level in every build": plain,
        "Some inputs have two labels": again(plain, {"contradictory": 3}),
        "ε = 0.5 is too large for some of the data": again(plain, {"share_possible": 0.9}),
        "Measure your own model": made_assessment({"standard": plain.models[0].scores}),
        "The models met different attacks": made_assessment(
            {"one": plain.models[0].scores, "two": made_scores(["proved"] * 120)}
        ),
    }


@pytest.mark.parametrize("title", cases())
def test_each_reason_is_an_issue_with_evidence_and_only_then(title: str) -> None:
    found = cases()[title]
    assert [own for own in issues(found).issues if own.title == title and own.evidence]
    if title != "mine: hold this level in every build":
        calm = made(["proved"] * 120, suite="standard")
        assert title not in [own.title for own in issues(calm).issues]


@pytest.mark.parametrize("title", cases())
def test_every_command_can_be_typed(title: str) -> None:
    for own in issues(cases()[title]).issues:
        if own.command:
            program, name, *words = shlex.split(own.command)
            assert program == "radii"
            load_command(name).make_context(name, words)  # refuses unknown options and missing arguments


def test_severe_issues_come_first() -> None:
    for found in cases().values():
        order = [("high", "medium", "low").index(own.severity) for own in issues(found).issues]
        assert order == sorted(order)


def test_evidence_counts() -> None:
    by_title = {own.title: own for own in issues(cases()["14 points are open"]).issues}
    issue = by_title["14 points are open"]
    assert "14 of mine" in issue.evidence
    assert "120 radii that are not known: 20 minutes at most" in issue.evidence
    assert "--complete 10" in issue.command
    by_title = {own.title: own for own in issues(cases()["mine: class 0 is read as class 1"]).issues}
    assert "8 of 120 points of class class 0" in by_title["mine: class 0 is read as class 1"].evidence
    floors = {own.title: own for own in issues(cases()["mine: hold this level in every build"]).issues}
    words = shlex.split(floors["mine: hold this level in every build"].command)
    assert words[:3] == ["radii", "gate", "mine.py:net"]
    assert "robust(l2:0.5)>=0.96" in words  # 120 of 120: the interval begins at 97.0%, and 0.9696 is cut
