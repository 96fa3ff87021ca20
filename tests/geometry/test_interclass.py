"""Inter-class distance, spectrum, volume, noise and pictures of pairs, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from radii.data.dataset import Dataset
from radii.errors import InputError
from radii.geometry.audit_tables import closest_pairs, write_pairs
from radii.geometry.interclass import interclass_distance
from radii.geometry.separation import contradictions, equal_inputs, separation
from radii.geometry.spectrum import Spectrum, principal_spectrum
from radii.geometry.volume import log_volume, volume_range

RNG = np.random.default_rng(0)


def test_interclass_by_the_definition() -> None:
    x, y = RNG.random((60, 7)).astype(np.float32), np.arange(60) % 3
    expected = []
    for label in range(3):
        own, other = x[y == label].astype(float), x[y != label].astype(float)
        distance = np.sort(np.linalg.norm(own[:, None] - other[None], axis=2), axis=1)
        margin = np.sort(distance[:, : int(0.1 * 40)].mean(1))
        expected.append(margin[: int(0.1 * 20)].mean())
    found = interclass_distance(x, y)
    np.testing.assert_allclose(found.distances, expected, rtol=1e-5)
    assert found.mean == pytest.approx(np.mean(expected), rel=1e-5)
    assert found.labels == (0, 1, 2)


def test_interclass_refuses_one_class_and_odd_shares() -> None:
    x = np.zeros((4, 2), np.uint8)
    with pytest.raises(InputError, match="at least two classes"):
        interclass_distance(x, np.zeros(4, np.int64))
    with pytest.raises(InputError, match=r"Shares must lie in \(0, 1\]"):
        interclass_distance(x, np.arange(4), nearest=0.0)


def test_volume_by_hand() -> None:
    x = np.array([[0, 255], [128, 128]], np.uint8)
    np.testing.assert_allclose(log_volume(x, 0.25), [-4.0, -2.0])
    np.testing.assert_allclose(log_volume((x / 255).astype(np.float32), 0.25), [-4.0, -2.0])
    assert log_volume(x, 0.25, box=None).tolist() == [-2.0, -2.0]
    assert volume_range(784, 0.3) == pytest.approx((-1361.78, -577.78), abs=0.01)
    assert volume_range(3072, 8 / 255) == pytest.approx((-15342.65, -12270.65), abs=0.01)
    with pytest.raises(InputError, match="epsilon must be positive"):
        log_volume(x, 0.0)
    with pytest.raises(InputError, match=r"must lie in the box \[0, 1\]"):
        log_volume(np.full((1, 2), 1.5, np.float32), 0.1)


def test_spectrum_of_known_variances() -> None:
    scales = np.array([4.0, 2.0, 1.0, 0.0])
    x = (RNG.normal(size=(4000, 4)) * np.sqrt(scales)).astype(np.float32)
    found = principal_spectrum(Dataset(x, np.arange(4000) % 2, ("a", "b")))
    np.testing.assert_allclose(found.variance, scales, rtol=0.1, atol=1e-6)
    assert found.share(1, 4) == pytest.approx(1)
    assert found.components_for(0.5) == 1
    assert found.components_for(1.0) == 3
    assert [row["components"] for row in found.rows()] == [1, 2, 4]
    with pytest.raises(InputError, match=r"Components must lie in 1..4, got 0..2"):
        found.share(0, 2)
    assert Spectrum(np.zeros(3)).share(1, 1) == 0.0


def test_equal_inputs_and_contradictions() -> None:
    x = np.array([[0.0, 1], [2, 2], [-0.0, 1], [2, 2], [3, 3]], np.float32)
    groups = equal_inputs(x, np.array([0, 1, 0, 0, 1]))
    assert [group.indices for group in groups] == [(0, 2), (1, 3)]
    assert [group.indices for group in contradictions(groups)] == [(1, 3)]


def test_pictures_of_the_closest_pairs(tmp_path) -> None:
    x = RNG.integers(0, 256, (12, 3, 8, 8)).astype(np.uint8)
    data = Dataset(x, np.arange(12) % 2, ("cat", "dog"))
    found = separation(data.x, data.y)
    pairs = closest_pairs(found, data, data, 4)
    assert len(pairs) == 4
    assert set(pairs[0].classes) == {"cat", "dog"}
    gap = np.abs(pairs[0].point.astype(int) - pairs[0].neighbor.astype(int)).max() / 255
    assert gap == pairs[0].distance == found.minimum
    with Image.open(write_pairs(pairs, tmp_path / "pairs.png")) as picture:
        assert picture.width > 4 * 64
    with pytest.raises(InputError, match="no pairs"):
        write_pairs((), tmp_path / "none.png")
    flat = Dataset(x.reshape(12, -1), data.y, data.classes)
    with pytest.raises(InputError, match="need images"):
        closest_pairs(found, flat, flat)
