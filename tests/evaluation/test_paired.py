"""Paired differences: coverage of the interval by simulation, and the exact test against its definition."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from radii.errors import InputError
from radii.evaluation.paired import paired_difference


def test_interval_covers_and_the_test_is_exact() -> None:
    rng = np.random.default_rng(0)
    chances = np.array([0.5, 0.15, 0.05, 0.3])  # both, only first, only second, neither
    covered = 0
    for _ in range(600):
        kind = rng.choice(4, 120, p=chances)
        found = paired_difference(np.isin(kind, (0, 1)), np.isin(kind, (0, 2)))
        covered += found.low <= chances[2] - chances[1] <= found.high
        least = min(found.lost, found.won)
        tail = sum(comb(found.lost + found.won, k) for k in range(least + 1)) / 2 ** (found.lost + found.won)
        assert found.p_value == pytest.approx(min(1.0, 2 * tail))
    assert 0.93 <= covered / 600 <= 0.985


def test_turning_the_models_round_turns_the_sign() -> None:
    first, second = np.array([1, 1, 1, 0, 0, 1], bool), np.array([1, 0, 0, 0, 1, 1], bool)
    one, other = paired_difference(first, second), paired_difference(second, first)
    assert (one.lost, one.won) == (2, 1)
    assert one.value == pytest.approx(-1 / 6)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert paired_difference(first, first).p_value == 1.0
    with pytest.raises(InputError, match="same points"):
        paired_difference(first, second[:3])
