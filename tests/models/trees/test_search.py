"""The nearest other class of a tree ensemble is what brute force finds; planted errors are found."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import fsum

import numpy as np
import pytest

from oracles.all_cells import nearest_other_class, random_ensemble
from radii.models.feature_reach import Reach
from radii.models.trees.ensemble import UNIT32, UNIT64, OneTree, TreeEnsemble, at_most, joined, less_than
from radii.models.trees.search import Nearest, TreeSearch
from radii.threat import Norm

NORMS: tuple[Norm, ...] = ("linf", "l1", "l2")


def asked(
    ensemble: TreeEnsemble, rng: np.random.Generator, norm: Norm, work: int | None = None
) -> tuple[Nearest, float]:
    """The answer of the search around a random row, and the truth."""
    x = rng.random(ensemble.features).astype(np.float32)
    if rng.random() < 0.3:  # on a threshold
        x[0] = np.float32(rng.integers(1, 10) / 10)
    center, scale = x[None].astype(float), np.where(rng.random(ensemble.features) < 0.3, 2.0, 1.0)
    low, high = np.zeros_like(center), np.ones_like(center)
    if rng.random() < 0.3:
        low[0, -1] = high[0, -1] = center[0, -1]  # a fixed feature
    reach = Reach(center, low, high, scale, norm)
    label = int(ensemble.scores(x[None]).argmax(1)[0])
    search = TreeSearch(ensemble, lambda rows: ensemble.scores(rows).argmax(1))
    found = search.nearest(reach, 0, label) if work is None else search.nearest(reach, 0, label, work)
    return found, nearest_other_class(ensemble, reach, label)


@pytest.mark.parametrize("norm", NORMS)
def test_it_is_what_brute_force_finds(norm: Norm) -> None:
    rng = np.random.default_rng(7)
    for _ in range(250):
        found, truth = asked(random_ensemble(rng), rng, norm)
        assert found.proved <= truth + 1e-12
        if np.isinf(truth):
            assert np.isinf(found.broken)
        else:
            assert found.broken == pytest.approx(truth, abs=1e-6)
            assert truth - found.proved < 1e-6


@pytest.mark.parametrize("norm", NORMS)
def test_an_error_that_the_library_does_not_confirm_ends_the_proof(norm: Norm) -> None:
    """Its rounding may hide an error that exact sums have: then neither the error nor its absence is said."""
    stump = OneTree(
        np.array([0, -1, -1]), np.array([0.5, 0.0, 0.0]), np.array([1, 0, 0]), np.array([2, 0, 0]),
        np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    )  # fmt: skip
    ensemble, center = joined([stump], np.zeros(2), 1, UNIT64, 0.0), np.array([[0.25]])
    reach = Reach(center, np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), norm)
    for predict, broken in ((lambda rows: ensemble.scores(rows).argmax(1), 0.25), (lambda rows: 0 * len(rows), np.inf)):
        search = TreeSearch(ensemble, lambda rows, own=predict: np.broadcast_to(own(rows), len(rows)).astype(np.int64))
        found = search.nearest(reach, 0, 0)
        assert found.broken == pytest.approx(broken, abs=1e-6)
        assert 0.2 < found.proved <= 0.25 + 1e-6


def test_little_work_leaves_a_bracket_and_no_error() -> None:
    rng, wide = np.random.default_rng(3), 0
    for number in range(120):
        found, truth = asked(random_ensemble(rng), rng, NORMS[number % 3], work=1500)
        assert found.proved <= truth + 1e-12
        assert found.broken >= truth - 1e-12
        wide += found.broken - found.proved > 1e-3
    assert wide > 5


@pytest.mark.parametrize("planted", ["thresholds", "leaves", "base"])
def test_planted_errors_are_found_by_brute_force(planted: str) -> None:
    """The oracle would see trees that were read wrongly: one float32 number of a threshold is enough."""
    rng, wrong = np.random.default_rng(5), 0
    for _ in range(60):
        true = random_ensemble(rng)
        read = {
            "thresholds": replace(true, compared=np.nextafter(true.threshold, np.float32(2)).astype(float)),
            "leaves": replace(true, value=true.value[:, ::-1].copy()),
            "base": replace(true, base=true.base[::-1] + 0.1 * np.arange(true.classes)),
        }[planted]
        x = np.float32(rng.integers(1, 10, true.features) / 10)
        reach = Reach(x[None].astype(float), np.zeros((1, len(x))), np.ones((1, len(x))), np.ones(len(x)), "linf")
        label = int(true.scores(x[None]).argmax(1)[0])
        found = TreeSearch(read, lambda rows, true=true: true.scores(rows).argmax(1)).nearest(reach, 0, label)
        truth = nearest_other_class(true, reach, label)
        wrong += found.proved > truth + 1e-12 or (np.isfinite(truth) and abs(found.broken - truth) > 1e-9)
    assert wrong > 3


def test_float64_rows_inside_the_radius_keep_their_class() -> None:
    """Rows are rounded before they are compared: a cell begins half a float32 step before its threshold."""
    rng = np.random.default_rng(11)
    for _ in range(100):
        ensemble = random_ensemble(rng)
        x = rng.random(ensemble.features).astype(np.float32)
        reach = Reach(x[None].astype(float), np.zeros((1, len(x))), np.ones((1, len(x))), np.ones(len(x)), "linf")
        label = int(ensemble.scores(x[None]).argmax(1)[0])
        search = TreeSearch(ensemble, lambda rows, own=ensemble: own.scores(rows).argmax(1))
        radius = min(search.nearest(reach, 0, label).proved, 1.0) * (1 - 1e-12)
        corners = np.array(list(product((-1, 0, 1), repeat=len(x))))
        rows = (x.astype(float) + radius * corners).clip(0, 1).astype(np.float32)
        assert (ensemble.scores(rows).argmax(1) == label).all()


@pytest.mark.parametrize(("unit", "kind"), [(UNIT32, np.float32), (UNIT64, np.float64)])
def test_the_error_covers_the_librarys_sums(unit: float, kind: type[np.floating]) -> None:
    """Differences of two scores that a library sums, in any order, from numbers of any size, which may cancel."""
    rng = np.random.default_rng(2)
    for count in (1, 3, 50, 400):
        values = (rng.normal(size=(count, 2)) * 10.0 ** rng.integers(-3, 6, (count, 1))).astype(kind)
        values[count // 2 :] *= -1
        leaf = np.zeros(1, np.int64)
        trees = [OneTree(leaf - 1, leaf.astype(float), leaf, leaf, value[None].astype(float)) for value in values]
        ensemble = joined(trees, np.zeros(2), 1, unit, 0.0)
        exact = [fsum(column) for column in values.T.tolist()]
        sums = [rng.permutation(values).cumsum(0, dtype=kind)[-1].astype(float) for _ in range(20)]
        off = max(abs((one[0] - one[1]) - (exact[0] - exact[1])) for one in sums)
        assert off <= ensemble.error
        if unit == UNIT32:  # the search's own error is below float32's
            assert ensemble.error <= 3 * (count + 5) * unit * np.abs(values).sum(0).max()


def test_thresholds_become_the_largest_float32_number_on_the_left() -> None:
    rng = np.random.default_rng(0)
    thresholds = np.concatenate([rng.normal(size=200), rng.normal(size=50).astype(np.float32).astype(float), [0.0]])
    for cut, threshold in zip(at_most(thresholds), thresholds, strict=True):
        assert float(cut) <= threshold < float(np.nextafter(cut, np.float32(np.inf)))
    single = thresholds.astype(np.float32)
    for cut, limit in zip(less_than(single), single, strict=True):
        assert cut < limit <= np.nextafter(cut, np.float32(np.inf))
