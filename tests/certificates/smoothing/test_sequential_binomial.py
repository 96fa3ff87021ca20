"""The sequential test against an independent per-sample recursion, simulation and the fixed-sample test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from radii.certificates.smoothing._sequential_binomial import (
    SequentialTest,
    fewest_samples,
    look_sizes,
    passing,
    sequential_test,
)
from radii.errors import InputError

TARGET = float(norm.cdf(2.0))  # radius 0.5 at sigma 0.25


def designed(p: float = TARGET, alpha: float = 1e-3, most: int = 10_000, rivals: int = 9) -> SequentialTest:
    return sequential_test(p, alpha, look_sizes([p], alpha, most), rivals)


def passing_one_by_one(test: SequentialTest, p: float) -> float:
    """The same chance, one sample at a time: failures move by at most one."""
    bounds = dict(zip(test.looks, test.allowed, strict=True))
    state = np.zeros(max(test.allowed) + 2)
    state[0], passed = 1.0, 0.0
    for sample in range(1, test.looks[-1] + 1):
        state[1:] = state[1:] * p + state[:-1] * (1 - p)
        state[0] *= p
        bound = bounds.get(sample, -1)
        passed += state[: bound + 1].sum()
        state[: bound + 1] = 0
    return float(passed)


@pytest.mark.parametrize("p", [float(norm.cdf(1)), TARGET, float(norm.cdf(3))])
@pytest.mark.parametrize("alpha", [0.05, 1e-3])
def test_the_error_is_exact_and_within_alpha(p, alpha) -> None:
    test = designed(p, alpha)
    assert test.spent == pytest.approx(passing_one_by_one(test, p), rel=1e-9)
    assert test.spent + 9 * test.spent_at_half <= alpha
    assert test.spent >= 0.6 * alpha  # little is given away to whole numbers of failures


def test_simulated_error_agrees() -> None:
    test, runs = designed(), 200_000
    rng = np.random.default_rng(0)
    steps = np.diff(test.looks, prepend=0)
    failures = np.cumsum(rng.binomial(steps, 1 - TARGET, (runs, len(steps))), 1)
    passed = (failures <= np.array(test.allowed)).any(1).mean()
    assert abs(passed - test.spent) < 4 * np.sqrt(test.spent / runs)


@given(
    ratio=st.floats(0.01, 3.5),
    alpha=st.sampled_from([0.05, 0.01, 1e-3, 1e-5]),
    most=st.integers(50, 3000),
    rivals=st.integers(0, 20),
)
@settings(max_examples=25, deadline=None)
def test_never_above_alpha_and_never_above_half_failures(ratio, alpha, most, rivals) -> None:
    p = float(norm.cdf(ratio))
    test = sequential_test(p, alpha, look_sizes([p], alpha, most), rivals)
    assert passing(test.looks, test.allowed, p) + rivals * passing(test.looks, test.allowed, 0.5) <= alpha
    assert all(2 * bound < look for look, bound in zip(test.looks, test.allowed, strict=True))  # one class at most
    assert all(stop > bound for stop, bound in zip(test.hopeless, test.allowed, strict=True) if bound >= 0)


def test_larger_probabilities_pass_more_often() -> None:
    test = designed()
    chances = [passing(test.looks, test.allowed, p) for p in (0.9, 0.95, TARGET, 0.985, 0.99, 0.999)]
    assert chances == sorted(chances)
    assert chances[-1] > 0.999


def test_nearly_the_power_of_the_fixed_sample_test() -> None:
    test = designed(rivals=0)
    bound = int(binom.ppf(1e-3, 10_000, 1 - TARGET)) - 1
    for p in (0.982, 0.984, 0.986):
        fixed = float(binom.cdf(bound, 10_000, 1 - p))
        assert passing(test.looks, test.allowed, p) > fixed - 0.15


def test_first_look_is_the_first_that_can_pass() -> None:
    test = designed()
    first = next(look for look, bound in zip(test.looks, test.allowed, strict=True) if bound >= 0)
    assert TARGET**first <= 0.5e-3 < TARGET ** (first - 1)
    assert fewest_samples(TARGET, 1e-3) == 301
    assert fewest_samples(float(norm.cdf(1)), 1e-3) == 40


def test_too_few_samples_never_pass() -> None:
    test = sequential_test(TARGET, 1e-3, (100, 200))
    assert test.allowed == (-1, -1)
    assert test.spent == 0


@pytest.mark.parametrize(
    ("p", "alpha", "looks", "said"),
    [
        (0.4, 0.01, (10,), "probability to exceed"),
        (1.0, 0.01, (10,), "probability to exceed"),
        (0.9, 0.0, (10,), "alpha"),
        (0.9, 0.01, (), "growing"),
        (0.9, 0.01, (10, 10), "growing"),
    ],
)
def test_bad_designs_are_refused(p, alpha, looks, said) -> None:
    with pytest.raises(InputError, match=said):
        sequential_test(p, alpha, looks)
