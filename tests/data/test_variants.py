"""Variants against naive loops, their closed forms and the published figures."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import radii
from radii.data import sources, variants
from radii.data.dataset import as_float
from radii.data.variant_chain import KINDS
from radii.errors import InputError

LEVELS = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
images = arrays(np.uint8, (2, 1, 6, 7))
floats = arrays(np.float32, (2, 3, 4, 5), elements=st.floats(0, 1, width=32))
exponents = st.floats(0.05, 50)


def naive_saturate(v: float, p: float) -> float:
    if p == math.inf:
        return 1.0 if v >= 0.5 else 0.0
    return math.copysign(abs(2 * v - 1) ** (2 / p), 2 * v - 1) / 2 + 0.5


def naive_smooth(image: np.ndarray, s: int, both: bool) -> np.ndarray:
    """One image [h, w] in [0, 1], pixel by pixel; the border mirrors about the edge pixel."""
    height, width = image.shape

    def mirrored(i: int, size: int) -> int:
        return -i if i < 0 else 2 * (size - 1) - i if i >= size else i

    out = np.empty_like(image)
    window = range(-(s // 2), s - s // 2)
    for i in range(height):
        for j in range(width):
            across = window if both else (0,)
            values = [image[mirrored(i + a, height), mirrored(j + b, width)] for a in window for b in across]
            out[i, j] = max(image[i, j], sum(values) / len(values))
    return out


@given(images, exponents)
def test_saturate_is_its_formula(x: np.ndarray, p: float) -> None:
    out = variants.saturate(x, p)
    expected = np.array([naive_saturate(v / 255, p) for v in x.ravel().tolist()]).reshape(x.shape)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-7)
    assert out.dtype == np.float32


@given(floats, exponents)
def test_pointwise_variants_keep_shape_range_and_order(x: np.ndarray, value: float) -> None:
    for out in (variants.saturate(x, value), variants.gamma(x, value), variants.scale(x, min(value, 1.0))):
        assert out.shape == x.shape
        assert out.dtype == np.float32
        assert out.min() >= 0
        assert out.max() <= 1
        order = np.argsort(x.ravel())
        assert (np.diff(out.ravel()[order]) >= 0).all()


def test_identities_are_exact_on_all_grey_levels() -> None:
    plain = as_float(LEVELS)
    assert (variants.saturate(LEVELS, 2) == plain).all()
    assert (variants.gamma(LEVELS, 1) == plain).all()
    assert (variants.scale(LEVELS, 1) == plain).all()
    assert (variants.smooth(LEVELS, 1) == plain).all()
    assert (variants.saturate(plain, 2) == plain).all()
    assert (variants.scale(LEVELS, 0) == 0.5).all()


def test_binarize_and_infinite_saturation() -> None:
    out = variants.binarize(LEVELS)
    assert out.dtype == np.uint8
    assert (out.ravel() == np.where(np.arange(256) >= 127.5, 255, 0)).all()
    assert (variants.saturate(LEVELS, math.inf) == out).all()
    half = np.full((1, 1, 1, 2), [0.5, np.nextafter(np.float32(0.5), np.float32(0))], np.float32)
    assert variants.binarize(half).ravel().tolist() == [255, 0]
    # The limit: saturation at a huge p is binarization, up to the grey levels' distance from one half.
    assert np.abs(variants.saturate(LEVELS, 1e9) - as_float(out)).max() < 1e-6


def test_uint8_results_are_correctly_rounded() -> None:
    """A detour over uint8 would lose this: gamma 3 has 256 different values, not 120."""
    out = variants.gamma(LEVELS, 3)
    assert (out.ravel() == np.array([np.float32((v / 255) ** 3) for v in range(256)])).all()
    assert len(np.unique(out)) == 256


@settings(deadline=None, max_examples=25)
@given(images, st.integers(1, 6))
def test_smoothing_is_its_loop(x: np.ndarray, s: int) -> None:
    for function, both in ((variants.smooth, False), (variants.smooth2d, True)):
        expected = np.stack([naive_smooth(image[0] / 255, s, both) for image in x])
        np.testing.assert_allclose(function(x, s)[:, 0], expected, rtol=0, atol=6e-8)
        np.testing.assert_allclose(function(as_float(x), s)[:, 0], expected, rtol=0, atol=2e-7)


def test_smoothing_agrees_with_scipy(pictures: object) -> None:
    from scipy.ndimage import uniform_filter1d

    x = pictures(5, 3, 12, 9)  # type: ignore[operator]
    for s in (2, 3, 8):
        blurred = uniform_filter1d(x / 255, s, axis=2, mode="mirror")
        np.testing.assert_allclose(variants.smooth(x, s), np.maximum(x / 255, blurred), atol=1e-7)


def test_edges_are_canny_of_the_luma(pictures: object) -> None:
    from skimage.feature import canny

    x = np.kron(pictures(3, 3, 4, 4), np.ones((4, 4), np.uint8))  # type: ignore[operator]
    out = variants.edges(x)
    assert out.shape == x.shape
    assert set(np.unique(out)) == {0, 255}
    assert (out[:, 0] == out[:, 1]).all()
    assert (out[:, 0] == out[:, 2]).all()
    luma = (x[1] / 255 * np.array([0.299, 0.587, 0.114])[:, None, None]).sum(0)
    assert (out[1, 0] == 255 * canny(luma, sigma=1.0)).all()
    assert (variants.edges(x[:, :1])[0, 0] == 255 * canny(x[0, 0] / 255, sigma=1.0)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: variants.saturate(LEVELS, 0), "p > 0, got 0"),
        (lambda: variants.saturate(LEVELS, math.nan), "p > 0, got nan"),
        (lambda: variants.gamma(LEVELS, -1), "above 0, got -1"),
        (lambda: variants.gamma(LEVELS, math.inf), "finite exponent"),
        (lambda: variants.scale(LEVELS, 1.5), r"in \[0, 1\].*got 1.5"),
        (lambda: variants.smooth(LEVELS, 0), "from 1 to the image's side"),
        (lambda: variants.smooth2d(LEVELS, 17), "got 17"),
        (lambda: variants.gamma(np.zeros((3, 4), np.float32), 2), "needs .n, c, h, w. images"),
        (lambda: variants.edges(np.zeros((3, 4), np.float32)), "edges needs"),
    ],
)
def test_arguments_out_of_range_are_refused(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def log2_volume(x: np.ndarray, eps: float) -> float:
    v = as_float(x).astype(np.float64)
    return float(np.log2(np.minimum(v + eps, 1) - np.maximum(v - eps, 0)).sum((1, 2, 3)).mean())


@pytest.mark.heavy
def test_published_volumes_of_mnist_come_out(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ding et al. 2019, Table 6, epsilon 0.3 on the test set (the table truncates)."""
    monkeypatch.setenv("RADII_DATA", str(real_data))
    x = sources.load("mnist").test.x
    published = {"original": -1297, "binarize": -1361, 3: -1265, 5: -1234}
    for variant, value in published.items():
        changed = x if variant == "original" else variants.binarize(x) if variant == "binarize" else None
        assert int(log2_volume(variants.smooth(x, variant) if changed is None else changed, 0.3)) == value


@pytest.mark.heavy
def test_published_volumes_of_saturated_cifar_come_out(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ding et al. 2019, Table 6, epsilon 8/255 on the test set."""
    monkeypatch.setenv("RADII_DATA", str(real_data))
    x = sources.load("cifar10").test.x
    published = {2: -12354, 4: -12394, 8: -12477, 16: -12657, 64: -13620, 256: -14747, math.inf: -15342}
    for p, value in published.items():
        assert int(log2_volume(variants.saturate(x, p), 8 / 255)) == value


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.pixels])
def test_every_variant_of_pixels_has_its_function(name: str) -> None:
    """The table names modules by strings, which a module that is renamed would leave behind."""
    assert callable(getattr(import_module(str(KINDS[name].pixels)), name))


@pytest.mark.parametrize("name", ["resize:4", "crop:4", "gray"])
def test_sizes_of_images_in_memory(name: str) -> None:
    side = {"resize:4": 4, "crop:4": 4, "gray": 8}[name]
    assert radii.load(f"digits+binarize+{name}").shape == (1, side, side)


@pytest.mark.parametrize(
    "name", ["digits+smooth:" + "9" * 5000, "x" * 5000, "digits+saturate:" + "a" * 400, "x" * 300 + ".csv"]
)
def test_a_name_too_long_for_a_file(name: str) -> None:
    with pytest.raises(InputError):
        radii.load(name)
