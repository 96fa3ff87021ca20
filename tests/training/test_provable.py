"""Provable objectives: the worst logits are bounds, the ramp, and a small training that ends with proofs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from radii.certificates.bound_certificate import certify
from radii.errors import InputError
from radii.models.zoo.convnets import WongKolterConvNet
from radii.threat import Ball
from radii.training.objectives.bound_propagation import CrownIBP, IntervalBounds
from radii.training.objectives.objective import TrainingProgress


def small() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return WongKolterConvNet((1, 8, 8), 4, widen=0.25), torch.rand(6, 1, 8, 8), torch.arange(6) % 4


@pytest.mark.parametrize("objective", [IntervalBounds(0.1), CrownIBP(0.1)])
@pytest.mark.parametrize("fraction", [0.3, 0.9])
def test_worst_logits_bound_the_loss_in_the_ball(objective, fraction) -> None:
    model, x, y = small()
    progress = TrainingProgress(int(100 * fraction), 100)
    ball = Ball("linf", 0.1)
    worst = objective.worst_logits(model, x, y, 4, ball, progress)
    assert torch.allclose(worst.gather(1, y[:, None]), torch.zeros(6, 1), atol=1e-5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(30):
        reached = F.cross_entropy(model(ball.random_start(x, generator)), y, reduction="none")
        assert (reached <= F.cross_entropy(worst, y, reduction="none") + 1e-5).all()


@pytest.mark.parametrize("objective", [IntervalBounds(0.1, ramp=0.6), CrownIBP(0.1, ramp=0.6)])
def test_gradients_reach_every_weight_and_follow_the_loss(objective) -> None:
    model, x, y = small()
    progress = TrainingProgress(40, 100)
    model.zero_grad()
    objective.loss(model, x, y, progress).value.backward()
    weight = model.conv1.weight
    assert all(parameter.grad is not None for parameter in model.parameters())
    step = 1e-2
    before = objective.loss(model, x, y, progress).value.item()
    slope = float(weight.grad.square().sum())
    with torch.no_grad():
        weight -= step * weight.grad / slope**0.5
    after = objective.loss(model, x, y, progress).value.item()
    assert (before - after) / step == pytest.approx(slope**0.5, rel=0.25)


def test_the_radius_grows_and_clean_loss_fades() -> None:
    objective = IntervalBounds(0.3, warmup=0.1, ramp=0.6)
    assert [objective.growth(TrainingProgress(n, 100)) for n in (0, 10, 35, 60, 99)] == pytest.approx([0, 0, 0.5, 1, 1])
    model, x, y = small()
    clean = F.cross_entropy(model(x), y).item()
    assert objective.loss(model, x, y, TrainingProgress(0, 100)).value.item() == pytest.approx(clean)


def test_a_short_training_ends_with_proofs() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    x = torch.rand(200, 2)
    x = x[(x.sum(1) - 1).abs() > 0.3]
    y = (x.sum(1) > 1).long()
    objective, optimizer = IntervalBounds(0.05), torch.optim.Adam(model.parameters(), 0.02)
    for number in range(150):
        loss = objective.loss(model, x, y, TrainingProgress(number, 150)).value
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    proof = certify(model, x, [0.05], "linf", "ibp")
    assert float((proof.covers(0.05) & (proof.prediction == y)).double().mean()) > 0.9


def test_bad_settings_are_said() -> None:
    with pytest.raises(InputError, match="warmup"):
        IntervalBounds(0.1, warmup=0.7, ramp=0.5)
