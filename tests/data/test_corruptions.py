"""Corruptions: what they do to images on average, in any size, always alike."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from radii.data import variant_chain
from radii.data.corruptions import KINDS, corrupt, parse_corruption
from radii.data.dataset import Data, Dataset
from radii.errors import InputError


def photos(count: int = 12, channels: int = 3, side: tuple[int, int] = (32, 32)) -> NDArray[np.uint8]:
    """Smooth random images of all grey levels with some edges."""
    noise = np.random.default_rng(0).standard_normal((count, channels, *side))
    smooth = ndimage.gaussian_filter(noise, (0, 0, *(end / 10 for end in side)))
    smooth = 0.5 + 0.17 * smooth / smooth.std((2, 3), keepdims=True)
    smooth[:, :, side[0] // 3 : side[0] // 2, side[1] // 4 : side[1] // 2] += 0.2
    return np.round(255 * smooth.clip(0, 1)).astype(np.uint8)


def distance(x: NDArray[np.uint8], kind: str, severity: int) -> float:
    """The root mean square of what a corruption changes, in [0, 1]."""
    return float(np.sqrt(np.mean((corrupt(x, (kind, severity)) / 255.0 - x / 255.0) ** 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_grows_with_its_severity(kind: str) -> None:
    away = [distance(photos(), kind, severity) for severity in range(1, 6)]
    assert 0.005 < away[0] < away[-1] < 0.6, away
    assert all(second > 0.9 * first for first, second in pairwise(away)), away


@pytest.mark.parametrize("kind", KINDS)
def test_any_size_and_type(kind: str) -> None:
    for channels, side in ((1, (8, 8)), (3, (19, 33)), (1, (4, 5))):
        x = photos(2, channels, side)
        made = corrupt(x, (kind, 3))
        assert made.shape == x.shape
        assert made.dtype == np.uint8
        floats = corrupt((x / 255).astype(np.float32), (kind, 3))
        assert floats.dtype == np.float32
        assert np.array_equal(np.round(255 * floats), made)
    large = photos(1, 3, (160, 120))
    assert 0.3 < distance(large, kind, 3) / distance(photos(1), kind, 3) < 3  # lengths grow with the image


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_corrupted_alike_wherever_it_stands(kind: str) -> None:
    x = photos(4)
    whole = corrupt(x, (kind, 2))
    assert np.array_equal(whole, corrupt(x, (kind, 2)))
    assert np.array_equal(whole[2:3], corrupt(x[2:3], (kind, 2)))


def test_statistics_of_noise() -> None:
    grey = np.full((4, 3, 64, 64), 128, np.uint8)
    noise = corrupt(grey, ("gaussian-noise", 1)) / 255.0 - 128 / 255
    assert noise.mean() == pytest.approx(0, abs=1e-3)
    assert noise.std() == pytest.approx(0.05, rel=0.02)
    assert abs(np.corrcoef(noise[0, 0, :, 1:].ravel(), noise[0, 0, :, :-1].ravel())[0, 1]) < 0.05
    shot = corrupt(grey, ("shot-noise", 3)) / 255.0  # the variance of a Poisson number is its mean
    assert shot.mean() == pytest.approx(128 / 255, abs=5e-3)
    assert shot.var() == pytest.approx(128 / 255 / 30, rel=0.05)
    impulse = corrupt(grey, ("impulse-noise", 4))
    hit = impulse != 128
    assert set(np.unique(impulse)) == {0, 128, 255}
    assert hit.mean() == pytest.approx(0.14, abs=0.01)
    assert (impulse[hit] == 255).mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("kind", ["defocus-blur", "motion-blur", "zoom-blur", "glass-blur", "pixelate"])
def test_blurs_keep_the_mean_and_take_the_detail(kind: str) -> None:
    x = photos()
    made = corrupt(x, (kind, 4))
    assert made.mean() == pytest.approx(x.mean(), abs=6)
    detail = np.abs(np.diff(x.astype(float), axis=3)).mean()
    if kind == "glass-blur":
        return
    assert np.median(np.abs(np.diff(made.astype(float), axis=3))) <= np.median(np.abs(np.diff(x.astype(float), axis=3)))
    assert np.abs(np.diff(made.astype(float), axis=3)).mean() < detail


def test_light_in_closed_form() -> None:
    x = photos()
    assert np.array_equal(corrupt(x, ("brightness", 1)), np.round(255 * np.clip(x / 255 + 0.08, 0, 1)).astype(np.uint8))
    mean = (x / 255).mean((2, 3), keepdims=True)
    expected = np.round(255 * (mean + 0.3 * (x / 255 - mean))).astype(np.uint8)
    assert np.abs(corrupt(x, ("contrast", 3)).astype(int) - expected).max() <= 1
    assert corrupt(x, ("snow", 4)).mean() > x.mean()
    assert corrupt(x, ("fog", 4)).min() > x.min()
    assert corrupt(x, ("fog", 5)).std() < 0.8 * x.std()
    blocks = corrupt(photos(2, 1, (40, 40)), ("pixelate", 4))
    assert np.array_equal(blocks[:, :, ::4], blocks[:, :, 1::4])  # 0.1 of 40 pixels


def test_as_a_variant_of_the_test_split() -> None:
    x, y = photos(20), np.arange(20) % 2
    splits = (Dataset(x, y, ("a", "b"), name) for name in ("train", "test"))
    data = Data(*splits, "own")
    variant = variant_chain.parse("corrupt:gaussian_noise:2")
    assert str(variant) == "corrupt:gaussian-noise:2"
    made = variant.apply(data)
    assert made.train.digest == data.train.digest
    assert np.array_equal(made.train.x, x)
    assert made.test.digest != data.test.digest
    assert np.array_equal(made.test.x, corrupt(x, ("gaussian-noise", 2)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fg:3", "No corruption is called 'fg'. Did you mean 'fog'?"),
        ("fog", "The severity of fog must be 1, 2, 3, 4 or 5, as fog:3"),
        ("fog:6", "got '6' instead"),
    ],
)
def test_a_wrong_corruption_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        parse_corruption(text)
    assert sentence in str(error.value)


def test_tables_are_refused() -> None:
    with pytest.raises(InputError, match="corrupt needs grey or color images"):
        corrupt(np.zeros((3, 10), np.float32), ("fog", 1))
