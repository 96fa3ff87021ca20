"""Exact limits of a proportion against scipy, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from radii.confidence_interval import clopper_pearson, lower_limits, upper_limits


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (10, 10), (3, 7), (600, 1000), (1, 500)])
def test_intervals_agree_with_scipy(successes: int, trials: int) -> None:
    theirs = binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert clopper_pearson(successes, trials) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_intervals_cover_the_truth() -> None:
    """Exactly computed coverage is at least 95% for every proportion tried."""
    trials = 40
    ends = [clopper_pearson(k, trials) for k in range(trials + 1)]
    for truth in np.linspace(0.01, 0.99, 33):
        covered = sum(binom.pmf(k, trials, truth) for k, (low, high) in enumerate(ends) if low <= truth <= high)
        assert covered >= 0.95


@pytest.mark.parametrize("successes", [0, 1, 469, 500])
def test_one_sided_limits_agree_with_scipy(successes: int) -> None:
    below = binomtest(successes, 500, alternative="greater").proportion_ci(0.95, method="exact").low
    above = binomtest(successes, 500, alternative="less").proportion_ci(0.95, method="exact").high
    assert lower_limits(successes, 500, 0.05) == pytest.approx(below, abs=1e-9)
    assert upper_limits(successes, 500, 0.05) == pytest.approx(above, abs=1e-9)


def test_many_counts_at_once() -> None:
    counts = np.arange(41)
    assert lower_limits(counts, 40, 0.01) == pytest.approx([float(lower_limits(k, 40, 0.01)) for k in counts])
    assert (np.diff(lower_limits(counts, 40, 0.01)) > 0).all()
