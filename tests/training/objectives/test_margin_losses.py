"""The losses of 1-Lipschitz networks against their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from radii.errors import InputError
from radii.models.zoo.lipschitz_networks import LipschitzConvNet
from radii.training.objectives.cross_entropies import (
    GloRo,
    OffsetCrossEntropy,
    SelfNormalizingCrossEntropy,
    offset_cross_entropy,
    self_normalizing_cross_entropy,
)
from radii.training.objectives.objective import TrainingProgress

LOGITS = torch.randn(16, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(16) % 10


def test_offset_cross_entropy_by_hand() -> None:
    shifted = LOGITS.clone()
    shifted[torch.arange(16), LABELS] -= 0.25
    expected = -0.25 * torch.log_softmax(shifted * 4, 1)[torch.arange(16), LABELS].mean()
    torch.testing.assert_close(offset_cross_entropy(LOGITS, LABELS), expected)
    plain = nn.functional.cross_entropy(LOGITS, LABELS)
    torch.testing.assert_close(offset_cross_entropy(LOGITS, LABELS, 0.0, 1.0), plain)


def test_self_normalizing_cross_entropy() -> None:
    """At t = 0 it is blind to the size of logits; softmax is applied once; std is unbiased."""
    small = self_normalizing_cross_entropy(LOGITS, LABELS, 0.0)
    torch.testing.assert_close(self_normalizing_cross_entropy(10 * LOGITS, LABELS, 0.0), small, rtol=1e-12, atol=0)
    row = LOGITS[0] / (LOGITS[0].var(correction=1).sqrt() + 0.1)
    row[0] -= 1
    by_hand = -(row[0] - row.exp().sum().log())
    torch.testing.assert_close(self_normalizing_cross_entropy(LOGITS[:1], LABELS[:1], 0.1), by_hand)


def test_objectives_call_the_model_once() -> None:
    model = nn.Linear(10, 10).double()
    for objective in (OffsetCrossEntropy(), SelfNormalizingCrossEntropy()):
        loss = objective.loss(model, LOGITS, LABELS, TrainingProgress(0, 1))
        assert loss.logits.shape == (16, 10)
        loss.value.backward()


def test_the_temperature_moves_linearly() -> None:
    """At each progress the loss is the one of a constant temperature, from the first one to the last."""
    moving = OffsetCrossEntropy(offset=0.5, temperature=0.2, first_temperature=1.0)
    for number, now in ((0, 1.0), (5, 0.6), (10, 0.2)):
        value = moving.loss(nn.Identity(), LOGITS, LABELS, TrainingProgress(number, 10)).value
        torch.testing.assert_close(value, offset_cross_entropy(LOGITS, LABELS, 0.5, now))


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="temperature must be positive"):
        OffsetCrossEntropy(first_temperature=-1.0)
    with pytest.raises(InputError, match="temperature must be positive"):
        OffsetCrossEntropy(temperature=0.0)
    with pytest.raises(InputError, match="t must be at least 0"):
        SelfNormalizingCrossEntropy(t=-1.0)


def test_gloro_charges_for_the_networks_own_constant() -> None:
    """A larger radius costs more, and the estimate of the constant passes gradients to every weight."""
    torch.manual_seed(0)
    model = LipschitzConvNet((1, 8, 8), 3, width=4, layer="liresnet", depth=1).double()
    x, y = torch.rand(6, 1, 8, 8, dtype=torch.float64), torch.arange(6) % 3
    harsh, mild = (GloRo(radius).loss(model, x, y, TrainingProgress(0, 1)) for radius in (1.0, 1e-9))
    assert float(harsh.value.detach()) > float(mild.value.detach())
    harsh.value.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(InputError, match="one MarginHead, got 0"):
        GloRo().loss(nn.Linear(10, 10).double(), LOGITS, LABELS, TrainingProgress(0, 1))
    with pytest.raises(InputError, match="radius must be positive"):
        GloRo(0.0)
