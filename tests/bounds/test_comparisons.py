"""Bounds of networks that compare, cut and join values, and of 1-Lipschitz networks, against samples and a grid."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from radii.bounds.provably_robust import Bounded
from radii.certificates.methods import bound_methods
from radii.models.layers.isometry import IsometricLayer
from radii.models.layers.last_layers import UnitRows
from radii.models.layers.weightless import HalfAbs, MaxMin
from radii.threat import Ball, Norm
from radii.verification.true_radius import true_radii


class Sorted(nn.Module):
    """GroupSort of pairs as users write it: cut, compare, join."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, 1)
        return torch.cat((torch.maximum(first, second), torch.minimum(first, second)), 1)


class Largest(nn.Module):
    """The largest and the smallest of each four."""

    def forward(self, x: Tensor) -> Tensor:
        groups = x.unflatten(1, (-1, 4))
        return torch.stack((groups.amax(2), groups.amin(-1)), 1).flatten(1)


def dense(bend: nn.Module, width: int = 8, after: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(5, width), bend, nn.Linear(after, 8), bend, nn.Linear(after, 3)).eval()


def images() -> nn.Module:
    layers = IsometricLayer(4, 8, size=(2, 2)), IsometricLayer(8, 8, shift=1), nn.Flatten(), UnitRows(32, 3, 8)
    return nn.Sequential(nn.PixelUnshuffle(2), *layers).eval()


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MaxMin": (lambda: dense(MaxMin()), (5,)),
    "HalfAbs": (lambda: dense(HalfAbs()), (5,)),
    "chunk and cat": (lambda: dense(Sorted()), (5,)),
    "amax and stack": (lambda: dense(Largest(), after=4), (5,)),
    "isometric": (images, (1, 4, 4)),
}


def sampled(x: Tensor, norm: Norm, radius: float, count: int = 4000) -> Tensor:
    """Inputs in the ball of one point and in the box, many of them at its end."""
    step = torch.randn(count, *x.shape)
    flat = step.flatten(1)
    scale = radius / (flat.norm(dim=1) if norm == "l2" else flat.abs().amax(1))
    return (x + step * (scale * torch.rand(count) ** 0.1).view(-1, *[1] * x.dim())).clamp(0, 1)


@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_sample_lies_below_a_bound(name: str, norm: Norm) -> None:
    torch.manual_seed(1)
    make, shape = NETWORKS[name]
    model, x = make(), torch.rand(3, *shape)
    bounded = Bounded(model, shape)
    prediction = bounded.predict(x)
    for method in bound_methods():
        for radius in (0.01, 0.2):
            lowers = bounded.margins(x, prediction, Ball(norm, radius), method)
            for i, label in enumerate(prediction.tolist()):
                logits = model(sampled(x[i], norm, radius)).detach()
                gaps = logits[:, [label]] - logits[:, [c for c in range(3) if c != label]]
                assert (lowers[i] <= gaps.amin(0)).all()
                if radius == 0.01 and method == "crown":
                    assert (gaps.amin(0) - lowers[i] < 0.1).all()


@pytest.mark.parametrize("name", list(NETWORKS))
def test_brackets_of_comparing_networks_hold_no_error_below(name: str) -> None:
    torch.manual_seed(2)
    make, shape = NETWORKS[name]
    model, x = make(), torch.rand(2, *shape)
    found = true_radii(model, x, 0.7, seconds=40)
    assert (found.proved > 0).all()
    for i in range(2):
        inside = sampled(x[i], "linf", float(found.proved[i]))
        assert (model(inside).argmax(1) == found.prediction[i]).all()
        if found.broken[i] < torch.inf:
            assert int(model(found.nearest[i : i + 1]).argmax()) != int(found.prediction[i])


def test_maxmin_of_two_inputs_has_the_radius_of_a_grid() -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(2, 6), MaxMin(), nn.Linear(6, 6), MaxMin(), nn.Linear(6, 3)).eval()
    with torch.no_grad():
        model[-1].bias -= model(torch.rand(400, 2)).mean(0)
    x = torch.rand(3, 2)
    found = true_radii(model, x, 1.0, seconds=20)
    grid = torch.cartesian_prod(torch.linspace(0, 1, 801), torch.linspace(0, 1, 801))
    classes = model(grid).argmax(1)
    for i in range(3):
        others = grid[classes != found.prediction[i]]
        nearest = float((others - x[i]).abs().amax(1).min())
        assert float(found.proved[i]) <= nearest
        assert float(found.broken[i]) <= nearest * 1.01 + 1e-6
        assert bool(found.known()[i])


def test_a_split_of_the_batch_is_refused() -> None:
    class Batch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat(x.split(1, 0)[::-1], 0)

    from radii.errors import InputError

    with pytest.raises(InputError, match="cannot be bounded"):
        Bounded(nn.Sequential(Batch(), nn.Linear(3, 2)).eval(), (3,))
