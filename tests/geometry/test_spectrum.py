"""The spectrum of photo-sized data by other ways than the covariance: the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from radii.data.dataset import Dataset
from radii.geometry import spectrum
from radii.geometry.spectrum import principal_spectrum


def images(n: int, side: int, rank: int = 12) -> Dataset:
    rng = np.random.default_rng(0)
    falling = 0.7 ** np.arange(rank)
    x = (rng.normal(size=(n, rank)) * falling) @ rng.normal(size=(rank, 3 * side * side)) + rng.normal(
        scale=0.01, size=(n, 3 * side * side)
    )
    x = np.clip(128 + 20 * x, 0, 255).astype(np.uint8).reshape(n, 3, side, side)
    return Dataset(x, np.arange(n) % 2, ("a", "b"))


def exact(data: Dataset) -> np.ndarray:
    flat = data.x.reshape(len(data), -1) / 255
    return np.linalg.svd(flat - flat.mean(0), compute_uv=False) ** 2 / len(data)


@pytest.mark.parametrize("n", [5, 60])
def test_the_gram_matrix_has_the_eigenvalues_of_the_covariance(n: int) -> None:
    data = images(n, 40)
    found = principal_spectrum(data).variance
    assert found == pytest.approx(exact(data), abs=1e-6 * exact(data)[0])


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = images(50, 40)
    whole = principal_spectrum(data).variance
    monkeypatch.setattr(
        spectrum,
        "_blocks",
        lambda flat: ((slice(i, i + 7), flat[i : i + 7] / np.float32(255)) for i in range(0, len(flat), 7)),
    )
    assert principal_spectrum(data).variance == pytest.approx(whole, abs=1e-6 * whole[0])


def test_the_randomized_spectrum_is_near_and_its_counts_are_upper_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "MOST_PRODUCTS", 0)
    monkeypatch.setattr(spectrum, "LEADING", 20)
    data = images(300, 40)
    found, true = principal_spectrum(data), spectrum.Spectrum(exact(data))
    assert found.variance[:8] == pytest.approx(true.variance[:8], rel=0.01)
    assert found.variance.sum() == pytest.approx(true.variance.sum(), rel=1e-4)
    for share in (0.5, 0.9, 0.99, 0.999):
        assert found.components_for(share) >= true.components_for(share) - 1
