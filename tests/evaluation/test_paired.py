"""Paired differences: the interval and the exact test are one pair, and the interval covers, by enumeration."""

from __future__ import annotations

from math import comb, factorial

import numpy as np
import pytest

from radii.errors import InputError
from radii.evaluation.paired import PairedDifference, _lower_limit, paired_difference


def pair(won: int, lost: int, n: int, confidence: float = 0.95) -> PairedDifference:
    kind = np.repeat([0, 1, 2], [lost, won, n - won - lost])
    return paired_difference(kind == 0, kind == 1, confidence)


def tables(n: int) -> list[tuple[int, int]]:
    return [(won, lost) for won in range(n + 1) for lost in range(n + 1 - won)]


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_excludes_zero_exactly_when_the_test_rejects(confidence: float) -> None:
    decided = set()
    for n, cells in ((1, tables(1)), (14, tables(14)), (300, [(3, 14), (14, 3), (9, 2), (40, 22), (0, 6), (0, 5)])):
        for won, lost in cells:
            seen = pair(won, lost, n, confidence)
            tail = sum(comb(won + lost, k) for k in range(min(won, lost) + 1)) / 2 ** (won + lost)
            assert seen.p_value == pytest.approx(min(1.0, 2 * tail))
            assert (seen.low > 0 or seen.high < 0) is (seen.p_value < 1 - confidence)
            assert seen.low <= seen.value + 1e-12
            assert seen.value <= seen.high + 1e-12
            assert seen.low < seen.high  # no table, however even, leaves nothing open
            decided.add(seen.p_value < 1 - confidence)
    assert decided == {True, False}


def test_the_interval_covers_every_difference() -> None:
    """Exact coverage at 12 points, over a grid of both chances: at least 95%, on each side at least 97.5%."""
    n = 12
    cells = tables(n)
    low = {(won, lost): _lower_limit(won, lost, n, 0.025) for won, lost in cells}
    ways = np.array([factorial(n) / (factorial(w) * factorial(k) * factorial(n - w - k)) for w, k in cells])
    wins, losses = np.array(cells).T
    lows, highs = np.array([low[cell] for cell in cells]), np.array([-low[k, w] for w, k in cells])
    for win in np.linspace(0, 1, 11):
        for loss in np.linspace(0, 1 - win, 8):
            chance = ways * win**wins * loss**losses * (1 - win - loss) ** (n - wins - losses)
            assert chance.sum() == pytest.approx(1)
            assert chance[lows > win - loss + 1e-9].sum() <= 0.025
            assert chance[highs < win - loss - 1e-9].sum() <= 0.025


def test_the_limit_is_the_quantile_of_melded_limits() -> None:
    rng = np.random.default_rng(0)
    for won, lost, n in ((30, 12, 100), (3, 17, 500), (12, 9, 40)):
        m, split = won + lost, 2 * rng.beta(won, lost + 1, 400_000) - 1
        draws = [rng.beta(m, n - m + 1, 400_000) * split, rng.beta(m + 1, n - m, 400_000) * split]
        assert _lower_limit(won, lost, n, 0.025) == pytest.approx(
            min(np.quantile(own, 0.025) for own in draws), abs=2e-3
        )


def test_turning_the_models_round_turns_the_sign() -> None:
    first, second = np.array([1, 1, 1, 0, 0, 1], bool), np.array([1, 0, 0, 0, 1, 1], bool)
    one, other = paired_difference(first, second), paired_difference(second, first)
    assert (one.lost, one.won) == (2, 1)
    assert one.value == pytest.approx(-1 / 6)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert paired_difference(first, first).p_value == 1.0
    with pytest.raises(InputError, match="same points"):
        paired_difference(first, second[:3])
