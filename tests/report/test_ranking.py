"""Which model is more robust: said where the points decide it, and seldom where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from made_assessment import made_assessment, made_scores
from radii.evaluation.scores import Scores
from radii.report.findings import verdict
from radii.report.ranking import beaten, ordered, ranking


def shares(proved: int, open_: int, broken: int) -> Scores:
    return made_scores(["proved"] * proved + ["open"] * open_ + ["broken"] * broken)


STRONG, WEAK, UNKNOWN, ATTACKED = shares(90, 5, 5), shares(10, 20, 70), shares(10, 80, 10), shares(0, 80, 20)


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ({"a": STRONG}, ""),
        ({"a": STRONG, "b": WEAK}, "Within L2 distance 0.5, a is more robust than b (95% confidence): it is proved"),
        ({"b": WEAK, "a": STRONG, "c": WEAK}, "a is the most robust of these 3 models (95% confidence)"),
        (
            {"a": STRONG, "b": WEAK, "c": UNKNOWN},
            "a is more robust than b (95% confidence). Whether it is more robust than c is open: it is proved correct "
            "on 90 points, and attacks left 90 points of c unbroken.",
        ),
        (
            {"a": UNKNOWN, "c": UNKNOWN},
            "no model is surely the most robust: a is proved correct on 10 points, and attacks",
        ),
        ({"a": ATTACKED, "c": ATTACKED}, "no model is surely the most robust: nothing is proved."),
        ({"mine": WEAK, "1-Lipschitz": STRONG}, "the 1-Lipschitz network is more robust than mine (95% confidence)"),
    ],
)
def test_the_first_line_names_the_most_robust_model(models: dict[str, Scores], says: str) -> None:
    made = made_assessment(models)
    assert says in ranking(made)
    assert bool(says) == bool(ranking(made))
    assert verdict(made).startswith(ranking(made))
    assert len(verdict(made).splitlines()) == bool(says) + len(made.own)


def test_own_models_come_before_references_and_the_most_proved_first() -> None:
    made = made_assessment({"standard": WEAK, "1-Lipschitz": STRONG, "b": WEAK, "c": UNKNOWN, "a": STRONG})
    assert [model.name for model in ordered(made.models)] == ["a", "c", "b", "1-Lipschitz", "standard"]


def test_equal_models_are_seldom_told_apart() -> None:
    """Three models of one true robust accuracy, known exactly: at most 5% of the tests name a better one."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(120):
        kinds = np.where(rng.random((3, 80)) < 0.6, "proved", "broken")
        made = made_assessment({str(k): made_scores(own.tolist()) for k, own in enumerate(kinds)})
        wrong += any(beaten(made.models).values())
    assert wrong <= 6
