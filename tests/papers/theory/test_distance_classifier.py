"""The distance classifier: the theorem of Yang et al. on random separated points, in every norm."""

from __future__ import annotations

import pytest
import torch

from radii.errors import InputError
from radii.threat import Ball, length
from radii_papers.theory._r_separation import DistanceClassifier

NORMS = ("l1", "l2", "linf")


def separated(norm, d=12, n=40, classes=3, seed=0):
    """Random points and the exact half separation between their classes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, d, generator=generator, dtype=torch.float64)
    y = torch.arange(n) % classes
    gap = length((x[:, None] - x[None]).flatten(0, 1), norm).view(n, n)
    return x, y, float(gap[y[:, None] != y[None]].min()) / 2


@pytest.mark.parametrize("norm", NORMS)
def test_astute_within_r_and_not_beyond(norm) -> None:
    x, y, r = separated(norm)
    model = DistanceClassifier(x, y, r, norm)
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        step = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        step = step * (0.999 * r / length(step, norm))[:, None]
        assert (model(x + step).argmax(1) == y).all()
    logits = model(x)
    margin = logits.gather(1, y[:, None])[:, 0] - logits.scatter(1, y[:, None], -torch.inf).amax(1)
    assert float(margin.min()) == pytest.approx(2, rel=1e-9)
    i = int(margin.argmin())
    others = torch.where(y != y[i], length(x - x[i], norm), torch.inf)
    toward = x[i] + (x[others.argmin()] - x[i]) * (1.05 * r / others.min())
    assert int(model(toward[None]).argmax(1)) != int(y[i])


@pytest.mark.parametrize("norm", NORMS)
def test_every_logit_is_one_over_r_lipschitz(norm) -> None:
    x, y, r = separated(norm)
    model = DistanceClassifier(x, y, r, norm)
    a, b = torch.rand(2, 300, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    slope = (model(a) - model(b)).abs().amax(1) / length(a - b, norm)
    assert float(slope.max()) * r <= 1 + 1e-9


def test_it_is_differentiable_and_takes_images() -> None:
    x = torch.rand(6, 1, 4, 4)
    model = DistanceClassifier(x, torch.tensor([0, 1, 0, 1, 0, 1]), 0.1, "l2", classes=3)
    image = torch.rand(2, 1, 4, 4, requires_grad=True)
    logits = model(image)
    assert logits.shape == (2, 3)
    assert torch.isinf(logits[:, 2]).all()
    logits[:, 0].sum().backward()
    assert image.grad is not None
    assert float(length(image.grad, "l2").max()) == pytest.approx(10, rel=1e-4)
    assert Ball("l2", 0.1).contains(x, x).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": 0.0}, "radius must be positive"),
        ({"y": torch.tensor([0])}, "One label for every point"),
        ({"classes": 1}, r"Labels must lie in 0..0, got 0..1"),
    ],
)
def test_bad_input(arguments, message) -> None:
    given = {"x": torch.rand(2, 3), "y": torch.tensor([0, 1]), "radius": 0.1} | arguments
    with pytest.raises(InputError, match=message):
        DistanceClassifier(given.pop("x"), given.pop("y"), given.pop("radius"), **given)
