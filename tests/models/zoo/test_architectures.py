"""The papers' networks: shapes, sizes from the papers' own descriptions, and what each promises."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from radii.errors import InputError
from radii.models import MODELS
from radii.models.io.bundle import parameters
from radii.models.zoo.mlp import MLP
from radii.models.zoo.wide_resnet import PerImageStandardization, WideResNet

MNIST, CIFAR = (1, 28, 28), (3, 32, 32)


def made(name: str, shape: tuple[int, ...], classes: int = 10, **given: Any) -> nn.Module:
    return MODELS.factory(name)(shape, classes, **MODELS.arguments(name, given))


# Counted by hand from the layer lists in the papers: weights + biases, layer by layer.
COUNTS = [
    ("lenet5", MNIST, {}, (25 + 1) * 32 + (32 * 25 + 1) * 64 + (64 * 49 + 1) * 1024 + 1025 * 10),
    ("lenet5", MNIST, {"widen": 0.125}, 26 * 4 + (4 * 25 + 1) * 8 + (8 * 49 + 1) * 128 + 129 * 10),
    ("lenet5", CIFAR, {"widen": 4.0}, 76 * 128 + (128 * 25 + 1) * 256 + (256 * 64 + 1) * 4096 + 4097 * 10),
    ("cnn1", MNIST, {}, 10 * 32 + (32 * 9 + 1) * 64 + 9217 * 128 + 129 * 10),
    (
        "cnn2",
        MNIST,
        {},
        10 * 32 + (32 * 9 + 1) * 32 + (32 * 9 + 1) * 64 + (64 * 9 + 1) * 64 + 1025 * 200 + 201 * 200 + 201 * 10,
    ),
    ("wong-kolter", MNIST, {}, 17 * 16 + (16 * 16 + 1) * 32 + (32 * 49 + 1) * 100 + 101 * 10),
    ("mlp", CIFAR, {"width": 3072, "depth": 8}, 7 * 3073 * 3072 + 3073 * 10),
    ("mlp", (5,), {"width": 7, "depth": 2}, 6 * 7 + 8 * 10),
    ("mlp", (5,), {"depth": 1}, 60),
]


@pytest.mark.parametrize(("name", "shape", "given", "count"), COUNTS)
def test_layers_are_the_papers(name: str, shape: tuple[int, ...], given: dict[str, Any], count: int) -> None:
    with torch.device("meta"):
        model = made(name, shape, **given)
    assert parameters(model) == count
    assert model(torch.empty(2, *shape, device="meta")).shape == (2, 10)


def test_wide_resnets_have_the_published_sizes() -> None:
    """36.5 million for WRN-28-10 (Zagoruyko & Komodakis 2016, Table 4); 55.8 million for 40-10."""
    with torch.device("meta"):
        assert parameters(WideResNet(CIFAR, 10, depth=28, widen=10)) == pytest.approx(36.5e6, rel=2e-3)
        assert parameters(WideResNet(CIFAR, 10, depth=40, widen=10)) == pytest.approx(55.8e6, rel=2e-3)
        assert parameters(WideResNet(CIFAR, 10, depth=40, widen=4)) == pytest.approx(8.9e6, rel=6e-3)
    small = WideResNet((3, 8, 8), 5, depth=10, widen=0.25)
    assert small(torch.rand(2, 3, 8, 8)).shape == (2, 5)


def test_per_image_standardization_ignores_brightness_and_contrast() -> None:
    x = torch.rand(3, 3, 8, 8)
    standard = PerImageStandardization()
    assert torch.allclose(standard(x), standard(0.5 * x + 0.2), atol=1e-5)
    flat = standard(x).flatten(1)
    assert torch.allclose(flat.mean(1), torch.zeros(3), atol=1e-6)
    assert torch.allclose(flat.pow(2).mean(1), torch.ones(3), atol=1e-5)
    assert torch.equal(standard(torch.full((1, 3, 8, 8), 0.25)), torch.zeros(1, 3, 8, 8))


def test_dropout_is_where_the_papers_have_it() -> None:
    for name, given, expected in (
        ("cnn1", {}, [0.25, 0.5]),
        ("cnn2", {}, [0.5]),
        ("lenet5", {"dropout": 0.3}, [0.3]),
        ("mlp", {"depth": 3, "dropout": 0.1}, [0.1, 0.1]),
        ("wide-resnet", {"depth": 10, "widen": 1, "dropout": 0.2}, [0.2] * 3),
    ):
        model = made(name, MNIST, **given)
        found = [m.p for m in model.modules() if isinstance(m, nn.Dropout | nn.Dropout2d)]
        assert found == expected, name


def test_cnn2_starts_undecided() -> None:
    assert torch.equal(made("cnn2", MNIST)(torch.rand(4, 1, 28, 28)), torch.zeros(4, 10))


def test_a_perceptron_flattens_images() -> None:
    model = MLP((1, 4, 4), 3, width=8).eval()
    x = torch.rand(5, 1, 4, 4)
    assert torch.equal(model(x), model(x.flatten(1)))


@pytest.mark.parametrize(
    ("name", "shape", "given", "message"),
    [
        ("mlp", (4,), {"depth": 0}, "depth and width"),
        ("mlp", (4,), {"activation": "rely"}, "Did you mean 'relu'"),
        ("mlp", (4,), {"dropout": 1.0}, "dropout must lie"),
        ("lenet5", (4,), {}, "at least 4 x 4"),
        ("lenet5", MNIST, {"widen": 0.0}, "widen must be positive"),
        ("cnn1", (1, 5, 5), {}, "at least 6 x 6"),
        ("cnn2", (1, 12, 12), {}, "at least 16 x 16"),
        ("wong-kolter", (7,), {}, "at least 4 x 4"),
        ("wide-resnet", CIFAR, {"depth": 20}, r"6 n \+ 4"),
        ("wide-resnet", (9,), {}, "at least 4 x 4"),
    ],
)
def test_mistakes_are_told(name: str, shape: tuple[int, ...], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(name, shape, **given)
