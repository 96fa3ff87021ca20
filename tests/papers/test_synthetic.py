"""Synthetic distributions: exact supports and first moments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from radii.errors import InputError
from radii_papers import synthetic


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(0)


def test_corners() -> None:
    places = synthetic.corners(4)
    assert places.shape == (16, 4)
    assert len(np.unique(places, axis=0)) == 16
    assert places[0b0101].tolist() == [1, -1, 1, -1]


def test_random_function_is_balanced_on_average(draw: np.random.Generator) -> None:
    values = synthetic.random_function(14, draw)
    assert set(values.tolist()) == {-1, 1}
    assert abs(values.mean()) < 0.04


def test_spheres(draw: np.random.Generator) -> None:
    assert np.linalg.norm(synthetic.sphere(50, 7, 3.0, draw), axis=1) == pytest.approx(3.0)
    x, y = synthetic.concentric_spheres(100, 5, 1.3, draw)
    assert np.linalg.norm(x, axis=1) == pytest.approx(np.where(y == 1, 1.3, 1.0))


def test_orthogonal_points(draw: np.random.Generator) -> None:
    x = synthetic.orthogonal(5, 8, draw)
    np.testing.assert_allclose(x @ x.T, 8 * np.eye(5), atol=1e-12)
    with pytest.raises(InputError, match="At most 3 points are orthogonal"):
        synthetic.orthogonal(4, 3, draw)


def test_balanced_signs(draw: np.random.Generator) -> None:
    assert synthetic.balanced_signs(10, draw).sum() == 0
    assert synthetic.balanced_signs(11, draw).sum() == 1


@pytest.mark.parametrize(("norm", "metric"), [("l1", "cityblock"), ("l2", "euclidean"), ("linf", "chebyshev")])
def test_separation_is_exactly_two_r(norm: str, metric: str, draw: np.random.Generator) -> None:
    x, y = synthetic.separated_classes(4, 10, 6, 0.7, norm, draw)  # type: ignore[arg-type]
    away = cdist(x, x, metric)
    assert away[y[:, None] != y].min() == pytest.approx(1.4)


def test_slabs_keep_their_gap(draw: np.random.Generator) -> None:
    x, y = synthetic.slabs(1000, 3, 0.6, draw)
    assert x.min() >= 0
    assert x.max() <= 1
    assert x[y == 0, 0].max() <= 0.2 + 1e-12
    assert x[y == 1, 0].min() >= 0.8 - 1e-12


def test_the_bernoulli_model(draw: np.random.Generator) -> None:
    theta = np.array([1.0, -1.0, 1.0])
    x, y = synthetic.bernoulli_model(50_000, theta, 0.2, draw)
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert (x * y[:, None] == theta).mean(0) == pytest.approx(0.7, abs=0.01)
