"""Accuracies, the bracket and its loud contradictions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from radii.confidence_interval import clopper_pearson
from radii.errors import ContradictionError, InputError
from radii.evaluation.accuracy import (
    Accuracy,
    Bracket,
    _check_radii,
    accuracy,
    accuracy_curve,
    bracket,
    certified_curve,
    comparing,
    curve_rows,
    radius_quantile,
)


def test_an_accuracy_reads_well() -> None:
    share = accuracy(np.array([True, True, False, True]))
    assert (share.correct, share.total, share.value) == (3, 4, 0.75)
    assert str(share) == "75.0% [19.4%, 99.4%]"
    assert share.summary()["interval"] == list(share.interval)
    with pytest.raises(InputError, match="0 <= correct <= total"):
        Accuracy(3, 2)
    with pytest.raises(InputError):
        accuracy(np.array([], bool))


def test_the_bracket_is_ordered_or_loud() -> None:
    made = bracket(np.array([True, False, False]), np.array([False, False, True]))
    assert made.proved.value == pytest.approx(1 / 3)
    assert made.unbroken.value == pytest.approx(2 / 3)
    assert made.interval[0] == made.proved.interval[0]
    assert made.interval[1] == made.unbroken.interval[1]
    assert made.summary()["proved"] == made.proved.summary()
    with pytest.raises(ContradictionError, match="number 1"):
        bracket(np.array([False, True]), np.array([False, True]))
    with pytest.raises(ContradictionError):
        Bracket(Accuracy(3, 4), Accuracy(2, 4))


def test_the_curve_counts_by_hand() -> None:
    proved = np.array([0.0, 0.1, 0.2, 0.0])
    broken = np.array([0.0, 0.3, np.inf, 0.15])
    curve = accuracy_curve(proved, broken, [0.0, 0.1, 0.15, 0.25])
    assert [point.bracket.proved.correct for point in curve] == [3, 2, 1, 0]
    assert [point.bracket.unbroken.correct for point in curve] == [3, 3, 2, 2]
    table = curve_rows(curve)
    assert [row["bound"] for row in table[:2]] == ["proved", "unbroken"]
    assert (table[2]["radius"], table[2]["accuracy"]) == (0.1, 0.5)
    assert (table[2]["low"], table[2]["high"]) == clopper_pearson(2, 4)
    assert (table[5]["low"], table[5]["high"]) == clopper_pearson(2, 4), "of the same bound, not of the bracket"


def test_equal_groups_are_told_apart_in_five_of_a_hundred_tables() -> None:
    """Normal estimates of equal shares: in some column two of ten intervals miss each other in about 5% of tables."""
    draws = np.random.default_rng(0).normal(size=(40_000, 3, 10))
    reach = norm.ppf((1 + comparing(10, 3)) / 2)
    apart = float(np.mean((np.ptp(draws, axis=2) > 2 * reach).any(axis=1)))
    assert 0.04 < apart < 0.053
    assert comparing(1, 3) == 0.95


def test_a_proved_radius_above_a_broken_one_is_loud() -> None:
    _check_radii(np.array([0.3]), np.array([0.3]))
    with pytest.raises(ContradictionError, match=r"proved 0\.31, broken 0\.3"):
        _check_radii(np.array([0.0, 0.31]), np.array([0.0, 0.3]))
    with pytest.raises(ContradictionError):
        accuracy_curve(np.array([0.31]), np.array([0.3]), [0.1])


def test_the_certified_curve_is_the_proved_end() -> None:
    correct, proved = np.array([True, True, False, True]), np.array([0.2, 0.0, 9.0, 0.1])
    curve = certified_curve(correct, proved, [0.0, 0.1, 0.15])
    rows = curve_rows(curve, ("proved",), certificate="margin")
    assert [row["accuracy"] for row in rows] == [0.75, 0.5, 0.25]
    assert {(row["bound"], row["certificate"]) for row in rows} == {("proved", "margin")}


def test_the_median_radius_counts_wrong_points_as_zero_and_is_a_point_s_own() -> None:
    radius, correct = np.array([0.5, 9.0, 0.1, np.inf]), np.array([True, False, True, True])
    assert radius_quantile(radius, correct) == 0.1  # of 0, 0.1, 0.5, inf: no mean with infinity
    assert radius_quantile(radius, ~correct) == 0.0
    assert radius_quantile(radius, correct, 0.75) == 0.5
    assert radius_quantile(radius, correct, 1.0) == np.inf
