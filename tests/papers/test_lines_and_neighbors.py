"""The classifiers on a line, and accuracy by distance: closed forms and brute force."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from radii.data.dataset import Data, Dataset
from radii.runs.component_specs import DataSpec
from radii.runs.steps import Certify
from radii.runs.store import Store
from radii_papers.measurements import NearbyAccuracyResult, OneDimensionResult
from radii_papers.nearby_accuracy import NearbyAccuracy, nearest_distances
from radii_papers.one_dimension import LabelledLine, OneDimension
from radii_papers.studies._prach_networks import isometric_training


def test_the_smooth_one_is_robust_below_r_and_the_staircase_below_its_step(tmp_path: Path) -> None:
    store = Store(tmp_path)
    found = store.ensure(OneDimension()).read(OneDimensionResult)
    assert found.smooth.accuracy == found.staircase.accuracy == 1.0
    assert found.smooth.astuteness == 1.0
    assert found.smooth.steepness_times_r == pytest.approx(1.0)
    assert found.staircase.astuteness < 1.0
    within = store.ensure(OneDimension(radius=0.05)).read(OneDimensionResult)  # half of the staircase's step
    assert within.staircase.astuteness == 1.0


def test_labels_are_two_and_points_2r_apart() -> None:
    line = LabelledLine.drawn(20, 0.25, seed=3)
    assert set(line.y) == {-1.0, 1.0}
    assert np.allclose(np.diff(line.x), 0.5)
    grid = np.linspace(-0.25, line.x[-1] + 0.25, 40_001)
    assert line.astuteness(line.smooth(grid), 0.2499, grid) == 1.0
    assert line.astuteness(line.smooth(grid), 0.2501, grid) < 1.0  # r is the limit


def test_distances_are_those_of_brute_force() -> None:
    draw = np.random.default_rng(0)
    train, test = (Dataset(draw.random((n, 6), dtype=np.float32), np.arange(n) % 2, ("a", "b")) for n in (40, 25))
    data, rows = Data(train, test, "made"), np.arange(5, 25)
    differences = test.x[rows][:, None] - train.x[None]
    assert np.allclose(nearest_distances(data, rows, "l2"), np.linalg.norm(differences, axis=2).min(1), atol=1e-4)
    a, b = (part - train.x.mean(0) for part in (test.x[rows], train.x))
    cosines = (a @ b.T) / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    assert np.allclose(nearest_distances(data, rows, "angle"), np.arccos(cosines).min(1), atol=1e-3)


def test_groups_are_all_points_from_near_to_far(tmp_path: Path) -> None:
    store, data = Store(tmp_path), DataSpec.of("digits+subset:200")
    training = isometric_training(data, 30, {"method": {"offset": 1.0, "temperature": 0.5}})
    certified = Certify(model=training, data=data, radii=(0.1,), points=150)
    found = store.ensure(NearbyAccuracy(certified=certified, radius=0.1, groups=3)).read(NearbyAccuracyResult)
    whole = store.ensure(certified).read(Certify.Result).test
    assert whole is not None
    groups = found.groups
    assert [group.points for group in groups] == [50, 50, 50]
    assert all(a.farthest <= b.nearest for a, b in pairwise(groups))
    assert np.mean([group.certified for group in groups]) == pytest.approx(whole.shares[0].value)
    assert np.mean([group.clean for group in groups]) == pytest.approx(whole.clean.value)
