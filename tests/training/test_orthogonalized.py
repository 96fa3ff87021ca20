"""Orthogonalized momentum without a manifold: closed forms, which parameters it moves, and its settings."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from radii.errors import InputError
from radii.training.optimizers import Orthogonalized
from radii.training.schedule import Optimizer


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(96, 3)
    )


def gradients(model: nn.Module, step: int) -> None:
    torch.manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def test_inner_kernels_move_by_the_polar_factor_of_nesterov_momentum() -> None:
    """Against a singular value decomposition; the first step's momentum is the gradient itself."""
    model = network()
    before = model[3].weight.detach().clone()
    optimizer = Orthogonalized(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
    momentum = torch.zeros_like(before)
    for step in range(3):
        gradients(model, step)
        gradient = model[3].weight.grad.clone()
        momentum = 0.9 * momentum + gradient
        optimizer.step()
        u, _, v = torch.linalg.svd((gradient + 0.9 * momentum).flatten(1), full_matrices=False)
        moved = (model[3].weight.detach() - (1 - 0.05 * 0.1) * before).flatten(1) / -(0.05 * 0.2 * 36**0.5)
        along = u.T @ moved @ v.T
        assert torch.allclose(along.diagonal(), torch.ones(6), atol=0.35), "four Newton-Schulz steps end near 1"
        assert float((along - along.diagonal().diag()).abs().max()) < 1e-3, "it has no other directions"
        before = model[3].weight.detach().clone()


def test_all_others_move_as_by_sgd() -> None:
    ours, theirs = network(), network()
    optimizer = Orthogonalized(ours.parameters(), others_lr=0.1, momentum=0.8)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.8, nesterov=True)
    for step in range(4):
        gradients(ours, step)
        gradients(theirs, step)
        optimizer.step()
        reference.step()
    for (name, own), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(own, other, atol=1e-6) == (name != "3.weight"), name


def test_a_network_of_two_matrices_has_no_inner_one() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert [group["orthogonal"] for group in Orthogonalized(model.parameters()).param_groups] == [False]


def test_the_schedule_moves_both_rates() -> None:
    settings = Optimizer(kind="orthogonalized", schedule="linear", lr=0.02, others_lr=0.1, warmup=0.2)
    optimizer = settings.make(network().parameters())
    settings.set(optimizer, 59, 100)
    rates = {group["orthogonal"]: group["lr"] for group in optimizer.param_groups}
    assert rates == {True: pytest.approx(0.02 * 0.41 / 0.8), False: pytest.approx(0.1 * 0.41 / 0.8)}
    assert "others_lr" not in Optimizer(lr=0.1).canonical()


def test_refusals() -> None:
    with pytest.raises(InputError, match="positive rates"):
        Orthogonalized(network().parameters(), lr=0.0)
    with pytest.raises(ValidationError, match="orthogonalized"):
        Optimizer(kind="sgd", others_lr=0.3)
