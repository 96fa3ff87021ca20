"""The population bound: its worked example, its limits and its coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from radii.confidence_interval import certified_accuracy_of_distribution
from radii.errors import InputError


def test_worked_example() -> None:
    assert certified_accuracy_of_distribution(469, 500, 0.001) == pytest.approx(0.917, abs=5e-4)


@pytest.mark.parametrize(("true", "alpha"), [(0.9, 0.05), (0.5, 0.0), (0.1, 0.3)])
def test_coverage_with_false_certificates(true: float, alpha: float) -> None:
    """The exact chance that the bound exceeds the truth: at most 5%, and not wasteful."""
    n = 200
    counted = np.arange(n + 1)
    chance = binom.pmf(counted, n, true + (1 - true) * alpha)
    wrong = sum(chance[k] for k in counted if certified_accuracy_of_distribution(int(k), n, alpha) > true)
    assert 0.02 <= wrong <= 0.05


@pytest.mark.parametrize(("certified", "n", "alpha"), [(5, 4, 0.0), (-1, 4, 0.0), (0, 0, 0.0), (1, 2, 1.0)])
def test_bad_counts_are_refused(certified, n, alpha) -> None:
    with pytest.raises(InputError):
        certified_accuracy_of_distribution(certified, n, alpha)
