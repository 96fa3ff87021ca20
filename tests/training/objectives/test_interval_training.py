"""Interval training: boxes against sampling and against the bounds of certificates, schedules, and that it learns."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from radii.data.sources import load
from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.zoo.interval_network import ClipPixels, IntervalNetwork, _start_for_intervals
from radii.threat import Ball
from radii.training._interval_forward import Boxes, pass_box
from radii.training.loop import train
from radii.training.objectives.bound_propagation import IntervalBounds
from radii.training.objectives.interval_training import FastIBP, MtlIBP, Sabr, _box_around, _regularizers
from radii.training.objectives.objective import TrainingProgress
from radii.training.schedule import Recipe

BALL = Ball("linf", 0.1)


def network(**arguments: float) -> nn.Module:
    torch.manual_seed(0)
    net = IntervalNetwork((1, 8, 8), 4, width=4, hidden=16, **arguments)  # type: ignore[arg-type]
    for module in net.modules():  # statistics and scales that are not the trivial ones
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, -1, 1)
            nn.init.uniform_(module.running_mean, -0.2, 0.2)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    return Classifier(net, 0.4, 0.5)


@pytest.mark.parametrize("clip", [0.0, 0.2])
def test_worst_logits_are_those_of_the_certificates(clip: float) -> None:
    """In eval mode, against the independent propagation over the traced network."""
    model, x, y = network(clip=clip).eval(), torch.rand(6, 1, 8, 8), torch.tensor([0, 1, 2, 3, 0, 1])
    passage = pass_box(model, _box_around(x, BALL))
    known = IntervalBounds(0.1).worst_logits(model, x, y, 4, BALL, TrainingProgress(0, 1))
    torch.testing.assert_close(passage.worst_logits(y), known, rtol=1e-4, atol=1e-5)
    assert passage.worst_logits(y)[torch.arange(6), y].abs().max() < 1e-6


def test_no_sample_leaves_the_box() -> None:
    model, x, y = network().eval(), torch.rand(5, 1, 8, 8), torch.tensor([0, 1, 2, 3, 0])
    worst = pass_box(model, _box_around(x, BALL)).worst_logits(y)
    for draw in range(50):
        moved = BALL.random_start(x, torch.Generator().manual_seed(draw))
        logits = model(moved)
        assert bool((logits - logits.gather(1, y[:, None]) <= worst + 1e-5).all())


def test_batch_norms_act_as_in_training() -> None:
    """With clean values beside the box: logits, running statistics and gradients are those of the model itself."""
    first, second, x = network().train(), network().train(), torch.rand(16, 1, 8, 8)
    logits = first(x)
    passage = pass_box(second, _box_around(x, BALL, x))
    torch.testing.assert_close(passage.logits, logits, rtol=1e-4, atol=1e-5)
    for one, other in zip(first.buffers(), second.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    logits.square().sum().backward()
    passage.logits.square().sum().backward()
    for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-4)


def test_the_start_keeps_the_widths_of_intervals() -> None:
    """Mean widths after four layers: as before them for the start of Shi et al., a hundred times for torch's."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(400, 400), nn.ReLU()) for _ in range(4)), nn.Linear(400, 2))
    x = torch.randn(20, 400)
    usual = pass_box(net, Boxes(x, torch.full_like(x, 0.01))).features.reach.mean() / 0.01
    _start_for_intervals(net)
    kept = pass_box(net, Boxes(x, torch.full_like(x, 0.01))).features.reach.mean() / 0.01
    assert 0.5 < kept < 2
    assert usual > 100


def test_clipping_makes_black_and_white_certain() -> None:
    clip = ClipPixels(0.3)
    x = torch.tensor([[0.0, 1.0, 0.5]])
    box = Boxes.between((x - 0.3).clamp(0, 1), (x + 0.3).clamp(0, 1)).rising(clip)
    torch.testing.assert_close(box.reach, torch.tensor([[0.0, 0.0, 0.5]]), atol=1e-6, rtol=0)
    torch.testing.assert_close(box.center, torch.tensor([[0.0, 1.0, 0.5]]), atol=1e-6, rtol=0)


def test_the_radius_grows_smoothly_to_all_of_it() -> None:
    objective = FastIBP("linf:0.3", warmup=0.1, ramp=0.6)
    grown = [objective.grown(TrainingProgress(step, 1000)) for step in range(1000)]
    assert grown[:101] == [0.0] * 101
    assert grown[600:] == [1.0] * 400
    assert all(a <= b for a, b in pairwise(grown))
    steps = torch.tensor(grown).diff()
    assert float(steps[:590].diff().abs().max()) < 3e-4  # no kink before the radius is complete


def test_mixtures_at_their_ends() -> None:
    """MTL-IBP with share 1 and SABR with share 1 are interval training; SABR's box lies within the ball's."""
    model, x, y = network().eval(), torch.rand(8, 1, 8, 8), torch.arange(8) % 4
    progress = TrainingProgress(9, 10)
    plain = FastIBP("linf:0.1").loss(model, x, y, progress).value
    torch.testing.assert_close(MtlIBP("linf:0.1", share=1.0, steps=0).loss(model, x, y, progress).value, plain)
    torch.testing.assert_close(Sabr("linf:0.1", share=1.0).loss(model, x, y, progress).value, plain)
    assert Sabr("linf:0.1", share=0.2).loss(model, x, y, progress).value < plain
    attacked = MtlIBP("linf:0.1", share=0.5, steps=4).loss(model, x, y, progress)
    clean = F.cross_entropy(model(x), y)
    assert 0.5 * plain + 0.5 * clean < attacked.value + 1e-6


def test_regularizers_of_a_known_box() -> None:
    """One ReLU layer: widths 1 and 4 fall short of 1/2 by a half; active 3 against inactive 1 by a third."""
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[0.0, 4.0], [4.0, 0.0]]))  # type: ignore[arg-type]
    box = Boxes(torch.tensor([[-2.0, 6.0]]), torch.ones(1, 2))
    # centers 24 and -8, reaches 4: tightness (1/2 - 1/4) * 2 = 1/2, balance (1/2 - 1/3) * 2 = 1/3, variances are 0
    assert _regularizers(pass_box(net, box)).item() == pytest.approx(1 / 2 + 1 / 3)


def test_digits_are_learned() -> None:
    data = load("digits")
    torch.manual_seed(0)
    model = IntervalNetwork((1, 8, 8), 10, width=16, hidden=64, convolutions=1, clip=0.1)
    recipe = Recipe.model_validate(
        {"epochs": 12, "batch_size": 64, "test_every": 0, "optimizer": {"kind": "adam", "lr": 5e-3}}
    )
    train(model, data.train, FastIBP("linf:0.1"), recipe)
    x, y = data.test.tensors()
    worst = pass_box(model.eval(), _box_around(x, BALL)).worst_logits(y)
    worst[torch.arange(len(y)), y] = -math.inf
    assert float((worst.amax(1) < 0).float().mean()) > 0.6


@pytest.mark.parametrize(
    "arguments",
    [{"threat": "l2:0.3"}, {"warmup": 0.5, "ramp": 0.4}, {"clean": 2.0}, {"regularization": -1.0}],
)
def test_wrong_arguments_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(InputError):
        FastIBP(**arguments)  # type: ignore[arg-type]


def test_wrong_shares_and_layers_are_refused() -> None:
    box = _box_around(torch.rand(1, 1, 8, 8), BALL)
    with pytest.raises(InputError, match="share"):
        MtlIBP(share=0.0)
    with pytest.raises(InputError, match="share"):
        Sabr(share=1.5)
    with pytest.raises(InputError, match="MaxPool2d"):
        pass_box(
            nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 2)), _box_around(torch.rand(1, 1, 8, 8), BALL)
        )
    with pytest.raises(InputError, match="linear layer at the end"):
        pass_box(nn.Sequential(nn.Flatten()), box)
    with pytest.raises(InputError, match="clip"):
        ClipPixels(0.5)
    with pytest.raises(InputError, match="pixels a side"):
        IntervalNetwork((1, 4, 4), 10, convolutions=3)
    with pytest.raises(InputError, match="shape"):
        IntervalNetwork((4, 4), 10)
