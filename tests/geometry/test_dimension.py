"""Intrinsic dimension: cubes of known dimension, and scikit-dimension as an oracle."""

from __future__ import annotations

import numpy as np
import pytest

from radii.errors import InputError
from radii.geometry._dimension import Dimension, dimension_from, intrinsic_dimension
from radii.geometry.neighbor_curve import NeighborCurve, _usual_sizes, neighbor_curve


def cube(n: int, d: int, inside: int = 20) -> np.ndarray:
    """Uniform in a d-dimensional cube, turned into more coordinates."""
    rng = np.random.default_rng(d)
    turn = np.linalg.qr(rng.normal(size=(inside, inside)))[0][:d]
    return (rng.random((n, d)) @ turn).astype(np.float32)


@pytest.mark.parametrize("method", ["mle", "mle-mean", "two-nn"])
def test_a_plane_has_two_dimensions(method) -> None:
    found = intrinsic_dimension(cube(2000, 2), method, k=10)
    assert isinstance(found, Dimension)
    assert found.estimate.low < found.estimate.value < found.estimate.high
    assert found.estimate.value == pytest.approx(2, abs=0.35)
    assert found.summary()["references"] == 2000


def test_a_sample_of_points_agrees_with_all() -> None:
    x = cube(3000, 3)
    whole, some = intrinsic_dimension(x, points=None), intrinsic_dimension(x, points=1000)
    assert some.points == 1000
    assert some.estimate.low < whole.estimate.value < some.estimate.high


def test_scikit_dimension_agrees() -> None:
    skdim = pytest.importorskip("skdim")
    x = cube(800, 5)
    distance = np.sort(np.linalg.norm(x[:, None].astype(float) - x[None], axis=2), axis=1)[:, 1:]
    theirs = skdim.id.TwoNN(discard_fraction=0.1).fit(x).dimension_
    assert dimension_from(distance[:, :2], "two-nn", 800).estimate.value == pytest.approx(theirs, rel=2e-3)
    knn = (distance[:, :10], np.zeros((800, 10), int))
    theirs = skdim.id.MLE(unbiased=False).fit(x, precomputed_knn_arrays=knn, n_neighbors=10, comb="mle").dimension_
    assert dimension_from(distance[:, :10], "mle", 800).estimate.value == pytest.approx(theirs, rel=1e-6)


def test_duplicates_are_left_out() -> None:
    x = np.concatenate([cube(300, 3)] * 2)
    with pytest.raises(InputError, match="At least 10 points without duplicates"):
        intrinsic_dimension(x, "two-nn")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "mlee"}, "No estimator of dimension is called 'mlee'. Did you mean 'mle'"),
        ({"k": 1}, "k must be at least 2"),
        ({"k": 50}, "below the number of points, got k=50 and 30"),
    ],
)
def test_bad_input(arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        intrinsic_dimension(cube(30, 2), **arguments)


def test_the_curve_is_the_nearest_of_nested_subsets() -> None:
    x, queries = cube(600, 3), cube(640, 3)[600:]
    found = neighbor_curve(x, queries, (50, 200, 600), seed=5)
    assert (np.diff(found.distance, axis=0) <= 0).all()
    whole = np.linalg.norm(queries[:, None].astype(float) - x[None], axis=2).min(1)
    np.testing.assert_allclose(found.distance[-1], whole, rtol=1e-6)
    assert [row["n"] for row in found.rows()] == [50, 200, 600]


def test_an_exact_power_law_is_read_exactly() -> None:
    sizes = (100, 1000, 10_000)
    distance = np.array([[(0.5 * n) ** (-1 / 7)] * 5 for n in sizes])
    found = NeighborCurve(sizes, distance, "l2")
    assert found.dimension.value == pytest.approx(7)
    assert found.dimension.low == pytest.approx(found.dimension.high)
    assert found.log10_samples(0.1).value == pytest.approx(np.log10(10**7 / 0.5))
    line = NeighborCurve(sizes, np.array([[3 * (1 - np.log(n) / 40)] * 5 for n in sizes]), "l2")
    assert line.dimension_linear.value == pytest.approx(40)


def test_bad_curves() -> None:
    x = cube(30, 2)
    for sizes in ((5,), (5, 5), (5, 31), (0, 5)):
        with pytest.raises(InputError, match=r"ascending within 1\.\.30"):
            neighbor_curve(x, x, sizes)
    with pytest.raises(InputError, match="distance must be positive"):
        neighbor_curve(x, x[:5] + 1, (5, 30)).log10_samples(0)
    assert _usual_sizes(50_000) == (1000, 2000, 5000, 10_000, 20_000, 50_000)
