"""Separation: quantities that can be computed by hand on a few points."""

from __future__ import annotations

import json

import numpy as np
import pytest

from radii.errors import InputError
from radii.geometry.separation import Pair, Separation, separation

LINE = np.array([[0.0], [0.125], [0.5], [0.875]], np.float32)
SIDES = np.array([0, 1, 0, 1])


def test_a_line_by_hand() -> None:
    found = separation(LINE, SIDES)
    assert found.distance.tolist() == [0.125, 0.125, 0.375, 0.375]
    assert found.neighbor.tolist() == [1, 0, 1, 2]
    assert found.minimum == 0.125
    assert found.radius == found.minimum / 2
    assert found.share_possible(0.0625) == 1.0
    assert found.share_possible(0.07) == 0.5
    assert found.without(2).minimum == 0.375


def test_two_epsilon_apart_is_possible_exactly() -> None:
    x = np.array([[0], [16]], np.uint8)
    assert separation(x, np.array([0, 1])).share_possible(8 / 255) == 1.0
    assert separation(x, np.array([0, 1])).share_possible(8.01 / 255) == 0.0


def test_pairs_come_once_and_nearest_first() -> None:
    found = separation(LINE, SIDES)
    assert [(pair.index, pair.neighbor) for pair in found.pairs()] == [(0, 1), (2, 1), (3, 2)]
    assert isinstance(found.pairs(1)[0], Pair)
    apart = separation(LINE, SIDES, (LINE[:2], SIDES[:2]))
    assert len(apart.pairs()) == 4


def test_hubs_count_whom_they_serve() -> None:
    x = np.array([[0.0], [0.3], [0.31], [0.32], [0.9]], np.float32)
    found = separation(x, np.array([0, 1, 1, 1, 0]))
    assert (found.hubs(1)[0].index, found.hubs(1)[0].count) == (0, 3)
    assert found.hub_share(1) == 3 / 5
    assert sum(hub.count for hub in found.hubs(10)) == 5


def test_tidy_rows_and_summary() -> None:
    found = separation(LINE, SIDES)
    assert sum(row["count"] for row in found.histogram(5)) == 4
    curve = found.curve(5)
    assert curve[0]["share"] == 1.0
    assert curve[-1]["share"] == 0.0
    summary = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert summary["minimum"] == found.minimum
    assert summary["quantiles"]["0.5"] == 0.125


def test_one_class_has_no_separation() -> None:
    alone = separation(LINE, np.zeros(4, np.int64))
    assert alone.summary()["minimum"] is None
    assert alone.histogram() == []
    assert alone.pairs() == ()


def test_not_everything_can_be_barred() -> None:
    with pytest.raises(InputError, match="From 0 to 3 points"):
        separation(LINE, SIDES).without(4)


def test_it_is_a_record() -> None:
    found = Separation(np.ones(2), np.zeros(2, np.int64), "l2", True)
    assert found.possible_radius.tolist() == [0.5, 0.5]
