"""Random convolutional networks: nothing sampled or attacked in a ball lies below its bounds, no proof is broken.

Every network draws its kernel sizes, strides, paddings, dilations, groups, batch
norm statistics, activations (also steps and quantizers), poolings and skips.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.bounds.bound_engine import Engine
from radii.bounds.provably_robust import Bounded, domain_of, interval_margins, margin_rows
from radii.certificates.bound_certificate import certify
from radii.certificates.methods import bound_methods
from radii.models.classifier import predict
from radii.threat import Ball

RADII = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.8]
CLASSES = 3


class Quantized(nn.Module):
    """Rounds to so many levels a unit; with 3 levels the product itself is rounded."""

    def __init__(self, levels: float, rounding: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.levels, self.rounding = levels, rounding

    def forward(self, x: Tensor) -> Tensor:
        return self.rounding(x * self.levels) / self.levels


class Step(nn.Module):
    """1[x >= t]."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        return (x >= self.threshold).float()


class Skip(nn.Module):
    """x + part(x)."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return x + self.part(x)


class Draw:
    """Choices from one seeded stream."""

    def __init__(self, seed: int) -> None:
        self.generator = Generator().manual_seed(seed)

    def one(self, *choices):
        return choices[int(torch.randint(len(choices), (), generator=self.generator))]

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=self.generator)


def convolution(draw: Draw, inside: int, outside: int) -> nn.Module:
    kernel = draw.one(1, 2, 3)
    return nn.Conv2d(
        inside, outside, kernel, stride=draw.one(1, 1, 2), padding=draw.one(0, 1, kernel - 1),
        dilation=draw.one(1, 1, 2), groups=draw.one(1, inside), bias=draw.one(True, False),
    )  # fmt: skip


def batch_norm(draw: Draw, channels: int) -> nn.Module:
    norm = nn.BatchNorm2d(channels, affine=draw.one(True, False))
    norm.running_mean, norm.running_var = draw.uniform(-1, 1, channels), draw.uniform(0.1, 2, channels)
    if norm.affine:
        norm.weight.data, norm.bias.data = draw.uniform(-1.5, 1.5, channels), draw.uniform(-1, 1, channels)
    return norm


def activation(draw: Draw) -> nn.Module:
    return draw.one(
        nn.ReLU(), nn.ReLU(), nn.LeakyReLU(0.1), nn.Hardtanh(-0.4, 0.7), nn.ReLU6(), nn.Identity(),
        Quantized(4.0, torch.round), Quantized(3.0, torch.floor), Quantized(3.0, torch.ceil), Step(0.1),
    )  # fmt: skip


def pooling(draw: Draw) -> nn.Module:
    return draw.one(
        nn.Identity(), nn.Identity(), nn.MaxPool2d(2, stride=1), nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.MaxPool2d(2, stride=1, dilation=2, padding=1), nn.AvgPool2d(2, stride=1, padding=1),
        nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False, ceil_mode=True), nn.AdaptiveAvgPool2d(2),
        nn.ZeroPad2d((1, 0, 2, 1)),
    )  # fmt: skip


def network(seed: int) -> tuple[nn.Module, tuple[int, int, int]]:
    """A random classifier and its input shape; layers are dropped where the image has become too small."""
    draw = Draw(seed)
    torch.manual_seed(seed)
    shape = (draw.one(1, 2), draw.one(5, 6, 7), draw.one(5, 6, 8))
    parts, x = nn.Sequential(), torch.zeros(1, *shape)
    for _ in range(draw.one(1, 2, 2, 3)):
        wide = x.shape[1] * draw.one(1, 2)
        candidates = [convolution(draw, x.shape[1], wide), batch_norm(draw, wide), activation(draw), pooling(draw)]
        if draw.one(True, False):
            candidates.append(Skip(nn.Sequential(nn.Conv2d(wide, wide, 3, padding=1), activation(draw))))
        for part in candidates:
            try:
                made = part.eval()(x)
            except RuntimeError:  # a kernel larger than what is left of the image, or a pool's padding
                if isinstance(part, nn.Conv2d):
                    break
                continue
            if bool(made.isfinite().all()):  # a window of a pool may hold no pixel
                x = made
                parts.append(part)
    parts.append(nn.Flatten())
    hidden = x.flatten(1).shape[1]
    if draw.one(True, False):
        parts.extend([nn.Linear(hidden, 6), nn.ReLU()])
        hidden = 6
    parts.append(nn.Linear(hidden, CLASSES))
    return parts.eval().requires_grad_(False), shape


def least_seen(model: nn.Module, x: Tensor, label: Tensor, ball: Ball, generator: Generator) -> Tensor:
    """The least margins met by random points, far corners and rims, and descent from them: [n, classes]."""

    def margins(point: Tensor) -> Tensor:
        logits = model(point)
        return (logits.gather(1, label[:, None]) - logits).scatter(1, label[:, None], torch.inf)

    least = margins(x).detach()
    for turn in range(24):
        point = ball.random_start(x, generator)
        point = ball.project(x + 9 * (point - x), x) if turn % 2 else point
        for _ in range(4 if turn < 6 else 1):
            point = point.detach().requires_grad_()
            found = margins(point)
            least = torch.minimum(least, found.detach())
            column = turn % CLASSES
            (slope,) = torch.autograd.grad(found[:, column][label != column].sum() + 0 * point.sum(), point)
            point = ball.project(point.detach() - 0.5 * ball.radius * slope.sign(), x)
    return least


def check(seed: int) -> int:
    """Bounds of all methods against what was seen, then attacks on what was proved; how many balls were proved."""
    model, shape = network(seed)
    generator = Generator().manual_seed(seed)
    x = torch.rand(3, *shape, generator=generator)
    x = (x > 0.5).float() if seed % 4 == 0 else x
    norm, label = ("linf", "l2")[seed % 2], predict(model, x)
    ball = Ball(norm, RADII[2 + seed % 4])
    seen = least_seen(model, x, label, ball, generator)
    columns = torch.arange(CLASSES).expand(len(x), -1)[torch.arange(CLASSES) != label[:, None]].view(len(x), -1)
    bounded = Bounded(model, shape)
    for method in bound_methods():
        found = bounded.margins(x, label, ball, method, steps=3)
        assert (found <= seen.gather(1, columns)).all(), (seed, method, norm)
    if norm == "linf":
        rows = margin_rows(label, bounded.classes)
        exact = interval_margins(Engine(bounded.exact), domain_of(x, ball), rows, deep=False)
        assert (bounded.margins(x, label, ball, "ibp") <= exact).all(), seed
    proof = certify(model, x, RADII, norm, "crown")
    for row in torch.nonzero(proof.radius > 0)[:, 0].tolist():
        inside = Ball(norm, float(proof.radius[row]))
        one, answer = x[row : row + 1], proof.prediction[row : row + 1]
        attack = PGD(10, 0.25) if model(one.clone().requires_grad_()).requires_grad else Square(100)
        assert not attack(model, one, answer, inside, generator).broken.any(), (seed, row)
        assert (least_seen(model, one, answer, inside, generator) > 0).all(), (seed, row)
    return int((proof.radius > 0).sum())


@pytest.mark.parametrize("first", [0, 12])
def test_random_networks(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 12)) > 5


@pytest.mark.parametrize("seed", [208])
def test_networks_that_found_a_fault(seed: int) -> None:
    """208: windows of a pool that overlap; a rival was overlooked if another window took it."""
    check(seed)


@pytest.mark.heavy
@pytest.mark.parametrize("first", range(100, 600, 100))
def test_many_random_networks(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 100)) > 50
