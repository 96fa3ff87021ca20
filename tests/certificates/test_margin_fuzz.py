"""Random networks of every kind of layer that can be bounded: they fold exactly, and no certificate is broken.

Every network draws its families, kernels, strides, paddings, pools, activations
and heads; the truth is its derivative, and an attack inside each proved radius.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random

import pytest
import torch
from torch import Tensor, nn

from radii.certificates.lipschitz import certify
from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.layers.aol import AOLConv2d, AOLLinear
from radii.models.layers.last_layers import MarginHead
from radii.models.layers.orthogonal import OrthogonalConv2d, OrthogonalLinear, SOCConv2d
from radii.models.layers.residual import CPLConv2d, CPLLinear, LinearResidualConv2d, SLLConv2d, SLLLinear
from radii.models.layers.weightless import FirstChannels, MaxMin, ZeroBorder, ZeroChannels
from radii.models.lipschitz._folding import fold
from radii.models.lipschitz.network_bound import certified_network, lipschitz_bound
from radii.models.lipschitz.rounding_error import float32_error

CLASSES = 3


def image_layer(draw: Random, shape: tuple[int, ...]) -> nn.Module:
    """A layer for images of ``shape``."""
    channels, height, width = shape
    more, taps, odd, stride = draw.randint(1, 6), draw.randint(1, 4), draw.choice((1, 3)), draw.randint(1, 2)
    padding, bias, mode = draw.randint(0, 1), draw.choice((True, False)), draw.choice(("zeros", "circular"))
    groups = draw.choice((1, channels))
    makers: list[Callable[[], nn.Module]] = [
        lambda: nn.Conv2d(
            channels, groups * more, taps, stride, padding, 1, groups, bias, draw.choice((mode, "replicate"))
        ),
        lambda: nn.Conv2d(channels, more, taps, padding="same", dilation=draw.choice((1, 2)), bias=bias),
        lambda: AOLConv2d(channels, groups * more, taps, stride, padding, 1, groups, bias, mode),
        lambda: OrthogonalConv2d(channels, more, taps, stride, padding, bias=bias, padding_mode=mode),
        lambda: CPLConv2d(channels, odd, hidden_channels=more, bias=bias),
        lambda: SLLConv2d(channels, odd, hidden_channels=more, bias=bias),
        lambda: SOCConv2d(channels, odd, bias=bias),
        lambda: LinearResidualConv2d(channels, odd, gain=0.5, input_size=(height, width)),
        lambda: nn.BatchNorm2d(channels, affine=bias),
        lambda: nn.MaxPool2d(draw.choice((2, 3)), draw.choice((1, 2, 3)), padding),
        lambda: nn.AvgPool2d(draw.choice((2, 3)), draw.choice((1, 2, 3)), padding),
        lambda: nn.PixelUnshuffle(2),
        lambda: ZeroChannels(channels + more),
        lambda: FirstChannels(draw.randint(1, channels)),
        lambda: ZeroBorder((height + draw.randint(0, 3), width + draw.randint(0, 3))),
        lambda: draw.choice((nn.ReLU(), nn.LeakyReLU(0.1), MaxMin(), nn.Dropout2d(), nn.Identity())),
    ]
    return draw.choice(makers)()


def flat_layer(draw: Random, features: int) -> nn.Module:
    """A layer for vectors."""
    more, bias = draw.randint(2, 8), draw.choice((True, False))
    makers: list[Callable[[], nn.Module]] = [
        lambda: nn.Linear(features, more, bias),
        lambda: AOLLinear(features, more, bias, draw.choice(("input", "output"))),
        lambda: OrthogonalLinear(features, more, bias),
        lambda: CPLLinear(features, more, bias),
        lambda: SLLLinear(features, more, bias),
        lambda: nn.BatchNorm1d(features),
        lambda: ZeroChannels(features + more),
        lambda: FirstChannels(draw.randint(1, features)),
        lambda: draw.choice((nn.ReLU(), MaxMin(), nn.Dropout())),
    ]
    return draw.choice(makers)()


def random_network(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """Up to four layers on images, up to two on vectors, a head; shaken, with batch statistics."""
    draw = Random(seed)
    torch.manual_seed(seed)
    shape = (draw.randint(1, 3), draw.randint(2, 6), draw.randint(2, 6))
    probe, parts = torch.rand(8, *shape), []

    def grow(make: Callable[[], nn.Module]) -> None:
        nonlocal probe
        while True:
            try:
                layer = make()
                following = layer(probe)
            except (InputError, RuntimeError, ValueError):  # settings that do not fit this image
                continue
            if following.numel() and following[0].numel() <= 200:
                parts.append(draw.choice((layer, nn.Sequential(layer))))
                probe = following
                return

    for _ in range(draw.randint(1, 4)):
        grow(lambda: image_layer(draw, tuple(probe.shape[1:])))
    parts.append(nn.Flatten())
    probe = probe.flatten(1)
    for _ in range(draw.randint(0, 2)):
        grow(lambda: flat_layer(draw, probe.shape[1]))
    features = probe.shape[1]
    heads = nn.Linear, MarginHead, AOLLinear, OrthogonalLinear
    parts.append(draw.choice(heads)(features, CLASSES))
    model = Classifier(nn.Sequential(*parts), mean=0.4, std=draw.choice((1.0, 0.3)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += draw.choice((0.05, 0.5)) * torch.randn(parameter.shape)
        model.train()(torch.rand(32, *shape))
    return model.double().eval(), shape


def attacked(network: nn.Module, x: Tensor, own: Tensor, reach: Tensor) -> Tensor:
    """Ascent on the smallest margin with normalized steps inside each point's own reach."""
    delta = torch.randn_like(x).flatten(1)
    delta = (delta * (reach / delta.norm(dim=1))[:, None]).view_as(x)
    for _ in range(10):
        delta.requires_grad_()
        logits = network(x + delta)
        gap = logits.scatter(1, own[:, None], -torch.inf).amax(1) - logits.gather(1, own[:, None])[:, 0]
        (gradient,) = torch.autograd.grad(gap.sum(), delta)
        flat = gradient.flatten(1)
        flat = delta.detach().flatten(1) + 0.5 * reach[:, None] * flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-30)
        flat *= (reach[:, None] / flat.norm(dim=1, keepdim=True).clamp_min(1e-30)).clamp_max(1.0)
        delta = flat.view_as(x)
    return x + delta


def check(seed: int) -> None:
    model, shape = random_network(seed)
    x = torch.rand(12, *shape, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(fold(model, shape)(x), model(x), rtol=1e-9, atol=1e-9)
    network = certified_network(model, shape)
    bounds = [lipschitz_bound(model, shape, prove=prove) for prove in (True, False)]
    for point in x[:3]:
        jacobian = torch.autograd.functional.jacobian(lambda flat: network(flat.view(1, *shape)).flatten(), point)
        steep = float(torch.linalg.matrix_norm(jacobian.flatten(1), 2))
        assert all(steep <= bound.value * (1 + 1e-12) for bound in bounds), f"seed {seed}: {model}"
    for bound in bounds:
        for form in ("pairwise", "sqrt2"):
            found = certify(model, x, bound, form=form)  # type: ignore[arg-type]
            moved = attacked(network, x, found.prediction, found.radius * (1 - 1e-9))
            with torch.no_grad():
                held = network(moved).argmax(1) == found.prediction
            assert bool((held | (found.radius == 0)).all()), f"seed {seed}: {model}"
    single = copy.deepcopy(model).float()
    exact = certified_network(single, shape)
    allowed = float32_error(exact, lipschitz_bound(single, shape, prove=False))
    x[::2] = x[::2].round()
    with torch.no_grad():
        seen = (fold(single, shape)(x.float()).double() - exact(x.float().double())).norm(dim=1).max()
    assert float(seen) <= allowed, f"seed {seed}: {model}"


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_networks(first: int) -> None:
    for seed in range(first, first + 10):
        check(seed)


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_random_networks(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)
