"""The attack that sees classes only, against distances that are known exactly."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from radii.attacks.decision_based import DecisionBased
from radii.randomness import stream
from radii.threat import Ball, Box, Norm, length


class Decisions(nn.Module):
    """A half space: class 1 where the weighted sum is above the offset; no scores, no gradients."""

    def __init__(self, weight: Tensor, offset: float) -> None:
        super().__init__()
        self.weight, self.offset = weight, offset

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot((x.flatten(1) @ self.weight > self.offset).long(), 2).float()


WEIGHT = torch.tensor([0.5, -1.0, 0.25, 2.0, -0.75, 1.0])
MODEL = Decisions(WEIGHT, 1.0)
SIDE = torch.tensor([1.0, -1.0]).repeat(10)
DRAWN = 0.3 + 0.4 * torch.rand(20, 6, generator=torch.Generator().manual_seed(0))
POINTS = DRAWN + ((1.0 + 0.2 * SIDE - DRAWN @ WEIGHT) / (WEIGHT @ WEIGHT))[:, None] * WEIGHT  # all at one distance
LABELS = MODEL(POINTS).argmax(1)
ATTACK = DecisionBased(rounds=10, probes=12)


def share_broken(norm: Norm, factor: float, box: Box | None) -> float:
    """The share of points that are broken in balls of ``factor`` times their true radius."""
    true = 0.2 / float(length(WEIGHT[None], "l2" if norm == "l2" else "l1"))
    ball = Ball(norm, factor * true, box)
    result = ATTACK(MODEL, POINTS, LABELS, ball, stream(0))
    assert bool(ball.contains(result.x_adv, POINTS)[result.broken].all())
    return float(result.broken.float().mean())


@pytest.mark.parametrize("box", [(0.0, 1.0), None])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_it_finds_errors_near_the_true_radius_and_none_below(norm: Norm, box: Box | None) -> None:
    assert share_broken(norm, 0.99, box) == 0
    assert share_broken(norm, 1.3, box) >= 0.9


def test_fixed_features_keep_their_values_and_points_are_independent() -> None:
    ball = Ball("l2", 0.5, None, fixed=(3,))
    together = ATTACK(MODEL, POINTS, LABELS, ball, stream(0))
    alone = ATTACK(MODEL, POINTS[5:6], LABELS[5:6], ball, stream(0))
    assert torch.equal(together.x_adv[5:6], alone.x_adv)
    assert torch.equal(together.x_adv[:, 3], POINTS[:, 3])
    assert bool(together.broken.any())
    assert int(together.queries.max()) < 5000
