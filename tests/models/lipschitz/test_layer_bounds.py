"""Bounds of whole networks: sound for every layer, tied to their weights, and refused where unknown."""

from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch import nn

from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.layers.aol import AOLConv2d
from radii.models.layers.plain_layers import folded_batch_norm
from radii.models.layers.weightless import FirstChannels, MaxMin, ZeroBorder, ZeroChannels
from radii.models.lipschitz.layer_bounds import bound_layer
from radii.models.lipschitz.network_bound import _weights_digest, certified_network, lipschitz_bound
from radii.models.zoo.convnets import SimpleConvNet
from radii.models.zoo.lipschitz_networks import LipschitzConvNet, LipschitzMLP


def shaken(model: nn.Module, amount: float = 0.1, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += amount * torch.randn(parameter.shape, generator=generator)
    return model


def jacobian_norm(layer: nn.Module, x: torch.Tensor) -> float:
    """The exact norm of the derivative at one point."""
    jacobian = torch.autograd.functional.jacobian(lambda flat: layer(flat.view(1, *x.shape)).flatten(), x.flatten())
    return float(torch.linalg.matrix_norm(jacobian, 2))


def upside_down() -> nn.Module:
    """A batch norm whose steepest channel has a negative weight."""
    layer = nn.BatchNorm2d(2).eval()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([-3.0, 0.5]))
    return folded_batch_norm(layer.requires_grad_(False))


LAYERS = [
    (upside_down(), (2, 3, 3)),
    (nn.Conv2d(2, 3, 3, padding=1), (2, 5, 4)),
    (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 5, 4)),
    (nn.Conv2d(2, 3, 3, stride=2, padding=1, padding_mode="circular"), (2, 5, 4)),
    (nn.Conv2d(2, 3, 4, stride=2, padding=1, padding_mode="circular"), (2, 6, 4)),
    (nn.Conv2d(2, 3, 3, stride=(1, 2), padding=2, dilation=2, padding_mode="circular"), (2, 5, 4)),
    (nn.Conv2d(2, 3, 3, padding=(2, 1), padding_mode="circular"), (2, 5, 4)),
    (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 5, 4)),
    (nn.Conv2d(2, 3, 3, padding=1, padding_mode="replicate"), (2, 5, 4)),
    (nn.Conv2d(2, 4, 4, padding="same", groups=2), (2, 5, 4)),
    (nn.Conv2d(2, 4, 2, padding="valid", dilation=2), (2, 5, 4)),
    (nn.Linear(6, 4), (6,)),
    (nn.MaxPool2d(2), (2, 4, 4)),
    (nn.MaxPool2d(3, 1), (2, 5, 5)),
    (nn.MaxPool2d(3, 2, 1), (1, 9, 9)),
    (nn.MaxPool2d((5, 2), (3, 2)), (1, 11, 8)),
    (nn.AvgPool2d(2), (2, 4, 4)),
    (nn.AvgPool2d(3, 2, 1), (2, 5, 5)),
    (nn.AdaptiveAvgPool2d(1), (2, 4, 3)),
    (nn.AdaptiveMaxPool2d(1), (2, 4, 3)),
    (nn.ReLU(), (2, 3, 3)),
    (nn.LeakyReLU(0.1), (2, 3, 3)),
    (nn.LeakyReLU(-2.0), (2, 3, 3)),
    (MaxMin(), (4, 3, 3)),
    (nn.PixelUnshuffle(2), (2, 4, 4)),
    (nn.Flatten(), (2, 4, 4)),
    (ZeroChannels(4), (2, 3, 3)),
    (FirstChannels(1), (2, 3, 3)),
    (ZeroBorder((5, 6)), (2, 3, 3)),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda part: repr(part) if isinstance(part, nn.Module) else "")
def test_no_layer_is_steeper_than_its_bound(layer: nn.Module, shape: tuple[int, ...]) -> None:
    layer = layer.double()
    generator = torch.Generator().manual_seed(0)
    for prove in (True, False):
        bound = bound_layer("layer", layer, shape, prove)
        steepest = max(
            jacobian_norm(layer, torch.randn(shape, generator=generator, dtype=torch.float64)) for _ in range(3)
        )
        assert steepest <= bound.value * (1 + 1e-12)
        assert bound.value <= 3.01 * steepest  # and it is no empty bound


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_convolutions_of_any_setting_are_bounded(data: st.DataObject) -> None:
    """Against the exact norm of the unrolled operator: never below, and 1e-5 above where nothing is repeated."""
    few = st.integers(1, 3)
    groups, into, out = (data.draw(few) for _ in range(3))
    shape = (into * groups, data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6)))
    mode = data.draw(st.sampled_from(["zeros", "circular", "reflect", "replicate"]))
    taps, stride, padding, dilation = (
        (data.draw(st.integers(low, high)), data.draw(st.integers(low, high)))
        for low, high in ((1, 4), (1, 3), (0, 2), (1, 2))
    )
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    layer = nn.Conv2d(into * groups, out * groups, taps, stride, padding, dilation, groups, False, mode).double()
    basis = torch.eye(prod(shape), dtype=torch.float64).view(-1, *shape)
    try:
        with torch.no_grad():
            matrix = layer(basis).flatten(1)
    except RuntimeError:  # no output, or padding that is wider than the image
        reject()
    truth = float(torch.linalg.matrix_norm(matrix, 2))
    for prove in (True, False):
        bound = bound_layer("layer", layer, shape, prove)
        assert bound.value >= truth * (1 - 1e-12)
        if mode == "zeros" and bound.method == "proved":
            assert bound.value <= truth * (1 + 1e-5) + 1e-300


def test_stated_rounding_covers_float32_for_every_layer() -> None:
    """The error model, scaled from float64 to float32, covers the measured float32 error."""
    generator = torch.Generator().manual_seed(1)
    for layer, shape in LAYERS:
        layer = layer.double()
        bound = bound_layer("layer", layer, shape, True)
        x = torch.randn(16, *shape, generator=generator).double()
        exact = layer(x)
        rough = layer.float()(x.float()).double()
        layer.double()
        scale = 2.0**29  # float32's unit over float64's
        # Weights are rounded to float32 as well, which costs as much again.
        allowed = 2 * bound.terms * 2.0**-53 * scale * (bound.absolute * x.flatten(1).norm(dim=1) + bound.offset)
        assert bool(((rough - exact).flatten(1).norm(dim=1) <= 2 * allowed + 1e-30).all()), layer


def network(shape: tuple[int, int, int] = (1, 8, 8), seed: int = 0) -> nn.Module:
    return Classifier(shaken(LipschitzConvNet(shape, 5, width=4), seed=seed), mean=0.5)


def test_an_aol_network_is_proved_one_lipschitz() -> None:
    bound = lipschitz_bound(network(), (1, 8, 8))
    assert bound.is_proved
    assert 0 < bound.value <= 1 + 1e-5
    assert bound.features * float(bound.pairs.max()) <= 2**0.5 * bound.value * (1 + 1e-5)
    assert [layer.name for layer in bound.layers][:2] == ["normalization", "net/stem"]
    looser = lipschitz_bound(network(), (1, 8, 8), prove=False)
    assert bound.value <= looser.value
    assert not looser.is_proved


def test_the_whole_network_is_no_steeper_than_its_bound() -> None:
    model = network().double().eval()
    bound = lipschitz_bound(model, (1, 8, 8))
    generator = torch.Generator().manual_seed(2)
    for _ in range(3):
        assert jacobian_norm(model, torch.rand(1, 8, 8, generator=generator, dtype=torch.float64)) <= bound.value


def test_standardization_counts_with_the_smallest_std() -> None:
    plain = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    inner = lipschitz_bound(plain, (3, 2, 2)).value
    outer = lipschitz_bound(Classifier(plain, mean=[0.1, 0.2, 0.3], std=[0.5, 0.25, 1.0]), (3, 2, 2)).value
    assert outer == pytest.approx(4 * inner)


def test_ordinary_networks_are_bounded_too() -> None:
    model = SimpleConvNet((1, 8, 8), 3, width=2)
    model(torch.rand(8, 1, 8, 8))  # batch statistics
    model = model.double().eval()
    bound = lipschitz_bound(model, (1, 8, 8))
    assert jacobian_norm(model, torch.rand(1, 8, 8, dtype=torch.float64)) <= bound.value
    mlp = shaken(LipschitzMLP((1, 4, 4), 3, depth=3))
    assert lipschitz_bound(mlp, (1, 4, 4)).value <= 1 + 1e-5


def test_the_digest_follows_weights_and_size() -> None:
    model = network()
    bound = lipschitz_bound(model, (1, 8, 8))
    bound.check(certified_network(model, (1, 8, 8)))
    with torch.no_grad():
        model.net.stem.weight[0, 0, 0, 0] += 1e-6
    with pytest.raises(InputError, match="computed for other weights"):
        bound.check(certified_network(model, (1, 8, 8)))
    small = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    assert _weights_digest(small, (1, 2, 2)) != _weights_digest(small, (4, 1, 1))


def test_refusals_name_the_layer() -> None:
    with pytest.raises(InputError, match=r"'1' \(Softmax\) cannot be bounded"):
        lipschitz_bound(nn.Sequential(nn.Flatten(), nn.Softmax(1)), (1, 2, 2))
    with pytest.raises(InputError, match=r"'0' \(Linear\).*must follow a Flatten"):
        lipschitz_bound(nn.Sequential(nn.Linear(4, 2)), (1, 2, 4))
    with pytest.raises(InputError, match="Layer '0' does not accept inputs of shape"):
        lipschitz_bound(nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten()), (1, 2, 4))
    with pytest.raises(InputError, match="must return logits"):
        lipschitz_bound(nn.Sequential(nn.Conv2d(1, 3, 1)), (1, 2, 4))
    norm = nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten())
    with pytest.raises(InputError, match="depends on its batch"):
        lipschitz_bound(norm, (1, 2, 2))


def test_modes_and_gradients_are_left_as_found() -> None:
    model = nn.Sequential(AOLConv2d(2, 2, 3, padding=1), nn.Flatten(), nn.Linear(8, 2)).train()
    lipschitz_bound(model, (2, 2, 2))
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
