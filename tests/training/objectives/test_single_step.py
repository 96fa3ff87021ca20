"""The single noisy step of training: its closed form, and several steps in its place."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.threat import Ball
from radii.training.objectives.objective import TrainingProgress
from radii.training.objectives.single_step import NoiseFGSM

NOW = TrainingProgress(3, 10, seed=1)


def linear() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 2)).eval()
    return model, torch.rand(5, 1, 2, 3), torch.tensor([0, 1, 0, 1, 1])


def rival_direction(model: nn.Module, y: Tensor) -> Tensor:
    weight = model[1].weight.detach()  # type: ignore[index]
    return torch.stack([weight[1 - label] - weight[label] for label in y.tolist()]).view(-1, 1, 2, 3)


def test_without_noise_a_linear_network_is_attacked_best() -> None:
    """Its loss rises along the difference of two rows: sign of it in Linf, its direction in L2; nothing is clipped."""
    model, x, y = linear()
    along = rival_direction(model, y)
    moved = NoiseFGSM("linf:0.3", noise=0.0, step=1.5).attacked(model, x, y, NOW)
    torch.testing.assert_close(moved, x + 0.45 * along.sign())
    assert bool((moved < 0).any() | (moved > 1).any()), "the box does not bind"
    moved = NoiseFGSM("l2:0.3", noise=0.0).attacked(model, x, y, NOW)
    torch.testing.assert_close(moved, x + 0.3 * along / along.flatten(1).norm(dim=1).view(-1, 1, 1, 1))


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_noise_has_the_stated_size_and_repeats(norm: str) -> None:
    model, x, y = linear()
    objective = NoiseFGSM(f"{norm}:0.1", noise=2.0)
    moved = objective.attacked(model, x, y, NOW)
    away = Ball.parse(f"{norm}:0.1").distance(x, moved)
    assert float(away.max()) <= 0.3 + 1e-6
    assert torch.equal(moved, objective.attacked(model, x, y, NOW))
    assert not torch.equal(moved, objective.attacked(model, x, y, replace(NOW, number=4)))


def test_several_steps_stay_in_the_ball_and_take_over() -> None:
    model, x, y = linear()
    objective = NoiseFGSM("linf:0.1")
    strong = objective.strong(model, x, y, NOW)
    assert float((strong - x).abs().max()) <= 0.1 + 1e-6
    single, several = (objective.loss(model, x, y, replace(NOW, several=flag)) for flag in (False, True))
    torch.testing.assert_close(several.logits, model(strong))
    assert not torch.equal(single.logits, several.logits)


def test_labels_can_be_smoothed_and_the_radius_can_grow() -> None:
    model, x, y = linear()
    plain, smooth = (NoiseFGSM("linf:0.1", label_smoothing=share).loss(model, x, y, NOW) for share in (0.0, 0.2))
    expected = 0.8 * plain.value - 0.2 * torch.log_softmax(plain.logits, 1).mean()
    torch.testing.assert_close(smooth.value, expected)
    early = NoiseFGSM("linf:0.4", noise=0.0, warmup=0.8).attacked(model, x, y, TrainingProgress(1, 10))
    assert float((early - x).abs().max()) == pytest.approx(0.1, abs=1e-6)


def test_refusals() -> None:
    with pytest.raises(InputError, match="l2 and linf"):
        NoiseFGSM("l1:2")
    with pytest.raises(InputError, match="noise"):
        NoiseFGSM("linf:0.1", noise=-1)
