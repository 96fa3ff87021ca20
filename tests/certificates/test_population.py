"""The population bound: its worked example, its limits and its coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from radii.confidence_interval import certified_accuracy_of_distribution
from radii.errors import InputError


def test_worked_example() -> None:
    assert certified_accuracy_of_distribution(469, 500, 0.001) == pytest.approx(0.917, abs=5e-4)


def test_coverage_with_false_certificates() -> None:
    rng = np.random.default_rng(0)
    true, alpha, n = 0.9, 0.05, 200
    counted = rng.binomial(n, true + (1 - true) * alpha, 3000)
    wrong = np.mean([certified_accuracy_of_distribution(int(k), n, alpha) > true for k in counted])
    assert wrong <= 0.05 + 0.012


@pytest.mark.parametrize(("certified", "n", "alpha"), [(5, 4, 0.0), (-1, 4, 0.0), (0, 0, 0.0), (1, 2, 1.0)])
def test_bad_counts_are_refused(certified, n, alpha) -> None:
    with pytest.raises(InputError):
        certified_accuracy_of_distribution(certified, n, alpha)
