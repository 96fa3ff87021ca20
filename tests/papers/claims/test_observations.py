"""What an assessment shows of the papers' claims: judged both ways on made-up scores, and on the digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from radii.evaluation.scores import PointTable, Scores
from radii.report.assessment import _number, most_proved, page
from radii.report.html import Cards
from radii.studies.assess import AssessedModel, Assessment, DataLimits
from radii.threat import Ball
from radii_papers.claims.observations import observations, section


@dataclass(frozen=True)
class Made:
    """The part of an Assessment that observations read."""

    limits: DataLimits
    models: tuple[AssessedModel, ...]
    ball: Ball

    @property
    def standard(self) -> AssessedModel:
        return self.models[0]

    @property
    def certified(self) -> AssessedModel:
        return self.models[1]


def scores(proved: list[float], changed: list[float], prediction: list[int], times: int = 40) -> Scores:
    """Every point ``times`` times."""
    proved, changed, prediction = proved * times, changed * times, prediction * times
    ball, n = Ball("l2", 0.5), len(proved)
    points = PointTable(
        label=np.zeros(n, np.int64),
        prediction=np.array(prediction),
        adversarial_prediction=np.ones(n, np.int64),
        proved_radius=np.array(proved),
        proved=np.array(proved) >= ball.radius,
        changed=np.array(changed) <= ball.radius,
        changed_radius=np.array(changed),
        broken_by=("pgd",) * n,
        queries=np.ones(n, np.int64),
    )
    return Scores(ball, "fast", 0, points, {}, torch.zeros(n, 2))


def assessment(distance: float, standard: Scores, bounded: Scores, contradictory: int, astuteness: float) -> Made:
    distances = {"train": np.array([distance, 9.0]), "test": np.array([9.0])}
    limits = DataLimits((), 0.8, contradictory, astuteness, distances)
    models = tuple(
        AssessedModel(name, None, None, found, np.arange(3))  # type: ignore[arg-type]
        for name, found in (("standard", standard), ("1-Lipschitz", bounded))
    )
    return Made(limits, models, Ball("l2", 0.5))


def held(found: Any) -> list[bool | None]:
    return [seen.holds for seen in observations(found)]


def test_as_the_papers_say() -> None:
    standard = scores([0, 0, 0], [0.1, 0.2, 0.9], [0, 0, 0])
    bounded = scores([0.6, 0.1, 0.0], [0.7, 0.2, 0.3], [0, 0, 1])
    found = assessment(1.2, standard, bounded, 0, 0.3)
    assert held(found) == [True] * 7
    shown = {seen.statement.split()[0]: seen.shown for seen in observations(found)}
    assert shown["Points"] == "least distance 1.2, that is 2.4 ε"
    assert shown["A"] == "40 of 40 proved points (100.0%)"


def test_each_can_be_otherwise() -> None:
    standard = scores([0, 0, 0], [0.9, 0.9, 0.9], [1, 1, 1])  # always wrong, never moved
    bounded = scores([0.6, 0.6, 0.6], [0.55, 0.9, 0.9], [0, 0, 0])  # one proof beaten
    found = assessment(0.9, standard, bounded, 2, 0.9)
    # The standard network is broken where the other is proved (it is wrong there), and keeps its predictions.
    assert held(found) == [False, False, False, False, True, False, True]
    unbroken = scores([0, 0, 0], [0.9, 0.9, 0.9], [0, 0, 0])
    assert held(assessment(0.9, unbroken, bounded, 2, 0.9))[4] is False
    told = section(found)  # type: ignore[arg-type]
    assert told is not None
    assert {row["holds"] for row in told.rows()} == {"yes", "no"}


def test_few_points_decide_no_comparison() -> None:
    """What is counted on all points is said; what compares two networks is not, from 4 points."""
    same = scores([0.6, 0.1], [0.7, 0.6], [0, 0], times=2)
    found = assessment(1.2, same, same, 0, 0.3)
    assert held(found) == [True, True, True, True, None, None, True]
    told = section(found)  # type: ignore[arg-type]
    assert told is not None
    assert [row["holds"] for row in told.rows()][4:6] == ["too few points to decide"] * 2
    many = scores([0.6, 0.6], [0.7, 0.7], [0, 0], times=500)
    assert held(assessment(1.2, many, many, 0, 0.3))[4:6] == [False, None], "a share of at most 0.4% is called none"


def test_the_digits(tmp_path: Any) -> None:
    from radii.runs.store import Store
    from radii.studies.assess import assess

    found: Assessment = assess("digits", epochs=2, points=40, suite="fast", store=Store(tmp_path), workers=0)
    seen = {observation.statement: observation for observation in observations(found)}
    _one_median_for_page_terminal_and_json(found)
    assert seen["No attack errs within a proved radius."].holds
    assert seen["No training input occurs with two labels."].shown == "0 such inputs"
    told = section(found)
    assert told is not None
    assert all(set(row) == {"statement", "source", "holds", "shown"} for row in told.rows())
    with pytest.raises(AttributeError):
        seen["No training input occurs with two labels."].holds = False  # type: ignore[misc]


def _one_median_for_page_terminal_and_json(found: Assessment) -> None:
    """Every median radius is over all points, where a wrong one counts 0; written alike everywhere."""
    rows = {row["classifier"]: row for row in found.table().rows}
    for model in found.models:
        points = model.scores.points
        for bound, radius in (("proved", points.proved_radius), ("broken", points.broken_radius)):
            own = sorted(np.where(points.correct, radius, 0.0))[(len(radius) - 1) // 2]
            assert rows[model.name][f"{bound}_radius"] == own
            said = found.summary()["models"][model.name]["evaluation"][f"{bound}_radius"]["median"]
            assert said == (own if np.isfinite(own) else None)
    best = most_proved(found)
    blocks = [block for section in page(found).sections for block in section.blocks]
    cards = {card.label: card.value for block in blocks if isinstance(block, Cards) for card in block.cards}
    assert cards["proved"] == _number(best.scores.median_radius("proved"), "down")
    assert cards["broken"] == _number(best.scores.median_radius("broken"), "up")


def test_a_proved_radius_is_never_rounded_up_and_a_broken_one_never_down() -> None:
    assert _number(0.698, "down") == "0.69"
    assert _number(0.7601, "up") == "0.77"
    assert [_number(value, "down") for value in (0.0, 0.00779, 12.9, float("inf"))] == ["0", "0.0077", "12", "∞"]
