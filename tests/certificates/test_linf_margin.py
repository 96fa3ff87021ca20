"""Linf distance networks: their constant, their training schedule, and that no attack errs within the radius."""

from __future__ import annotations

from math import inf

import pytest
import torch
from torch import nn

from radii.attacks.pgd import PGD
from radii.certificates._linf_margin import certify as linf_margin
from radii.certificates.choose import certify, choose
from radii.data.sources import load
from radii.errors import InputError
from radii.models.zoo.linf_distance import LinfDistance, LinfDistanceNetwork
from radii.threat import Ball
from radii.training.loop import train
from radii.training.objectives.cross_entropies import GrowingPower
from radii.training.objectives.objective import TrainingProgress
from radii.training.schedule import Recipe


@pytest.fixture(scope="module")
def trained() -> LinfDistanceNetwork:
    data = load("digits")
    torch.manual_seed(0)
    model = LinfDistanceNetwork((1, 8, 8), 10, width=64, depth=2)
    recipe = {"epochs": 10, "batch_size": 64, "test_every": 0, "optimizer": {"kind": "adam", "lr": 0.03}}
    train(model, data.train, GrowingPower(), Recipe.model_validate(recipe))
    return model.eval()


def test_a_layer_is_the_distance() -> None:
    layer, x = LinfDistance(5, 3, shifted=False).eval(), torch.randn(4, 5)
    expected = (x[:, None] - layer.weight[None]).abs().amax(2)
    torch.testing.assert_close(layer(x), expected)
    layer.train()
    layer.power = 3.0
    powers = (x[:, None] - layer.weight[None]).abs().pow(3).sum(2).pow(1 / 3)
    torch.testing.assert_close(layer(x), powers)


def test_logits_move_no_faster_than_the_input() -> None:
    torch.manual_seed(0)
    model = LinfDistanceNetwork((12,), 4, width=16, depth=3).double().eval()
    x, step = torch.randn(500, 12).double(), torch.randn(500, 12).double() * torch.rand(500, 1).double()
    moved = (model(x + step) - model(x)).abs().amax(1)
    assert bool((moved <= step.abs().amax(1) * (1 + 1e-12)).all())


@torch.no_grad()
def test_the_radius_of_one_layer_by_hand() -> None:
    """Distances 0.25 and 0.75: a margin of 0.5, of which rounding takes 4 u (0.75 + 0.75), and 2 u of every step."""
    model = LinfDistanceNetwork((1,), 2, depth=1).eval()
    model.head.weight.copy_(torch.tensor([[0.0], [1.0]]))
    unit = 2.0**-24
    exact = (0.5 - 4 * unit * 1.5) / (2 * (1 + 2 * unit))
    found = linf_margin(model, torch.tensor([[0.25], [0.5]]))
    assert found.prediction.tolist() == [0, 0]
    assert exact * (1 - 2**-24) < float(found.radius[0]) <= exact
    assert float(found.radius[1]) == 0.0


@torch.no_grad()
def test_no_distance_within_the_radius_is_infinite() -> None:
    model = LinfDistanceNetwork((1,), 2, depth=1).eval()
    model.head.weight.copy_(torch.tensor([[0.0], [1e38]]))
    for place in (-1e38, -2e38, -2.3e38):
        radius = float(linf_margin(model, torch.tensor([[place]])).radius)
        assert 1e38 - place + radius <= torch.finfo(torch.float32).max


def test_it_learns_and_no_attack_errs_within_the_radius(trained: LinfDistanceNetwork) -> None:
    x, y = load("digits").test.tensors()
    certificate = linf_margin(trained, x)
    right = certificate.prediction == y
    assert float(right.float().mean()) > 0.8
    assert float((right & (certificate.radius >= 0.05)).float().mean()) > 0.5
    for radius in (0.02, 0.05, 0.1):
        rows = torch.nonzero(certificate.covers(radius))[:, 0]
        if len(rows):
            attack = PGD(20, 0.2)(
                trained, x[rows], certificate.prediction[rows], Ball("linf", radius), torch.Generator().manual_seed(0)
            )
            assert not bool(attack.broken.any())


def test_the_radius_is_tight_for_one_layer() -> None:
    """Two stored points: the certificate is half the difference of distances, and just beyond it the class changes."""
    model = LinfDistanceNetwork((2,), 2, depth=1).eval()
    with torch.no_grad():
        next(model.layers()).weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    x = torch.tensor([[0.25, 0.0]])
    certificate = linf_margin(model, x)
    assert certificate.radius.item() == pytest.approx(0.25, abs=1e-6)
    assert certificate.radius.item() < 0.25
    assert int(model(torch.tensor([[0.5001, 0.0]])).argmax(1)) == 1


def test_the_doors_of_certify(trained: LinfDistanceNetwork) -> None:
    x = load("digits").test.tensors()[0][:20]
    known = linf_margin(trained, x)
    assert torch.equal(certify(trained, x, "margin", norm="linf").radius, known.radius)
    choice = choose(trained, x, Ball("linf", 0.05))
    assert choice.certificate is not None
    assert torch.equal(choice.certificate.radius, known.radius)
    assert choice.certificate.norm == "linf"


def test_the_power_grows_to_infinity() -> None:
    objective = GrowingPower(first=8.0, last=32.0, exact=0.9)
    powers = [objective.power(TrainingProgress(step, 100)) for step in range(100)]
    assert powers[0] == 8.0
    assert powers[45] == pytest.approx(16.0)
    assert powers[89] < 32
    assert powers[90:] == [inf] * 10


def test_refusals() -> None:
    x = torch.rand(2, 4)
    with pytest.raises(InputError, match="LinfDistanceNetwork"):
        linf_margin(nn.Linear(4, 2), x)
    with pytest.raises(InputError, match="float32"):
        linf_margin(LinfDistanceNetwork((4,), 2).double(), x)
    with pytest.raises(InputError, match="LinfDistance"):
        GrowingPower().loss(nn.Linear(4, 2), x, torch.tensor([0, 1]), TrainingProgress(0, 1))
    with pytest.raises(InputError, match="first"):
        GrowingPower(first=9.0, last=8.0)
    with pytest.raises(InputError, match="depth"):
        LinfDistanceNetwork((4,), 2, depth=0)
