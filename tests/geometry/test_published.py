"""The published figures of the papers, on the real datasets."""

from __future__ import annotations

import numpy as np
import pytest

from radii.data import variants
from radii.data.sources import load
from radii.geometry._astuteness import astuteness
from radii.geometry._dimension import intrinsic_dimension
from radii.geometry.interclass import interclass_distance
from radii.geometry.neighbor_curve import neighbor_curve
from radii.geometry.separation import separation
from radii.geometry.spectrum import principal_spectrum
from radii.geometry.volume import log_volume


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache of decoded data for this module: decoding CIFAR-10 takes longer than searching it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _shared(cache, real_data, monkeypatch) -> None:
    monkeypatch.setenv("RADII_CACHE", str(cache))
    monkeypatch.setenv("RADII_DATA", str(real_data))


@pytest.mark.heavy
def test_mnist_test_train_separation() -> None:
    """Yang et al. 2020: 0.812."""
    data = load("mnist")
    found = separation(data.test.x, data.test.y, (data.train.x, data.train.y))
    assert found.minimum == 207 / 255


def test_mnist_volumes() -> None:
    """Ding et al. 2019, Table 6, whose entries are truncated."""
    x = np.asarray(load("mnist").test.x)
    published = {-1361: variants.binarize(x), -1297: x, -1265: variants.smooth(x, 3), -1234: variants.smooth(x, 5)}
    for figure, images in published.items():
        assert int(log_volume(images, 0.3).mean()) == figure


@pytest.mark.heavy
def test_mnist_train_train_separation() -> None:
    """Yang et al. 2020: 0.737."""
    data = load("mnist")
    assert separation(data.train.x, data.train.y).minimum == 188 / 255


@pytest.mark.heavy
def test_cifar10_separation_and_hubs() -> None:
    """Yang et al. 2020: 0.212 and 0.220; one image serves thousands."""
    data = load("cifar10")
    within = separation(data.train.x, data.train.y)
    assert within.minimum == 54 / 255
    assert within.hubs(1)[0].index == 37439
    assert within.hubs(1)[0].count > 3500
    assert within.hub_share(100) > 0.6
    test = separation(data.test.x, data.test.y, (data.train.x, data.train.y))
    assert test.minimum == 56 / 255
    rule = astuteness(data.test.x, data.test.y, (data.train.x, data.train.y), test)
    assert rule.astuteness(8 / 255) < rule.accuracy < 0.5


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("p", "figure"),
    [(2, -12354), (4, -12394), (8, -12477), (16, -12657), (64, -13620), (256, -14747), (512, -15028), (np.inf, -15342)],
)
def test_cifar10_volumes(p, figure) -> None:
    """Ding et al. 2019, Table 6."""
    x = np.asarray(load("cifar10").test.x)
    assert int(log_volume(x if p == 2 else variants.saturate(x, p), 8 / 255).mean()) == figure


@pytest.mark.heavy
def test_mnist_interclass_distance() -> None:
    """Ding et al. 2019, Table 1 prints the first three; its scale factors imply the others.

    The text's 10% of a class lies 0.45% below; the closest 11.3% give every figure to its digits.
    """
    data = load("mnist")
    x, y = np.asarray(data.test.x), data.test.y
    made = {s: variants.smooth(x, s) for s in (2, 3, 4, 5)} | {"binarized": variants.binarize(x), "original": x}
    for name, figure in {3: 7.12, 4: 7.01, 5: 6.85, "binarized": 8.67, "original": 7.34}.items():
        assert interclass_distance(made[name], y).mean == pytest.approx(figure, rel=0.006)
        assert interclass_distance(made[name], y, closest=0.113).mean == pytest.approx(figure, abs=0.005)
    assert interclass_distance(x, y).mean < interclass_distance(made[2], y).mean


@pytest.mark.heavy
def test_cifar10_spectrum() -> None:
    """Prach & Lampert 2025, Table 1."""
    found = principal_spectrum(load("cifar10").train)
    shares = [found.share(*span) for span in ((1, 16), (1, 512), (513, 3072), (2049, 3072))]
    for share, published, rounding in zip(
        shares, [0.7167, 0.9841, 0.0159, 0.000151], [5e-5, 5e-5, 5e-5, 5e-7], strict=True
    ):
        assert share == pytest.approx(published, abs=rounding)


@pytest.mark.heavy
def test_cifar10_intrinsic_dimension() -> None:
    """Prach & Lampert 2025, supplement, Sec. 12: about 28, and 10^31 points for a neighbor at distance 1."""
    data = load("cifar10")
    curve = neighbor_curve(data.train.x, data.test.x[:2000])
    assert curve.sizes[0] == 1000
    assert curve.dimension.value == pytest.approx(28, abs=1.5)
    assert curve.log10_samples(1.0).value == pytest.approx(31, abs=2)
    found = intrinsic_dimension(data.train.x, "mle", k=10, points=2000)
    assert found.estimate.value == pytest.approx(28, abs=1.5)
