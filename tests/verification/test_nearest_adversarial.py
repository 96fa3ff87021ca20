"""The smallest broken radius, against networks whose nearest error is known and against a dense search."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from radii.threat import Ball, Norm
from radii.verification._nearest_adversarial import nearest_error
from radii.verification._runnable_network import Deployed
from radii.verification.answer import Limits
from radii.verification.true_radius import true_radii


def linear() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 2)).eval()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]]))
        model[0].bias.copy_(torch.tensor([2.0, 0.0]))
    return model


@pytest.mark.parametrize(("norm", "distance"), [("l2", 0.3), ("linf", 1.5 / 7)])
def test_a_linear_boundary_is_met_exactly(norm: Norm, distance: float) -> None:
    model, x = linear(), torch.tensor([[0.1, 0.05, 0.5]])  # 3 x_0 + 4 x_1 = 0.5, and 2 is the boundary
    away, error = nearest_error(Deployed.of(model, (3,)), x, 0, Ball(norm, 0.5), Limits())
    assert error is not None
    assert int(model(error).argmax()) == 1
    assert distance <= away <= distance * 1.001


def test_the_box_bends_the_way_to_the_boundary() -> None:
    model, x = linear(), torch.tensor([[0.98, -0.5, 0.5]])  # x_0 can only grow by 0.02, so x_1 must grow by 0.25
    away, error = nearest_error(Deployed.of(model, (3,)), x, 0, Ball("l2", 0.5, (-1.0, 1.0)), Limits())
    exact = ((1 - 0.98) ** 2 + ((2 - 3.0) / 4 + 0.5) ** 2) ** 0.5
    assert error is not None
    assert bool((error.abs() <= 1).all())
    assert exact * 0.9999 <= away <= exact * 1.001


def test_a_constant_network_has_no_error() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    nn.init.zeros_(model[2].weight)
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([1.0, 0.0]))
    assert nearest_error(Deployed.of(model, (3,)), torch.rand(1, 3), 0, Ball("l2", 0.5), Limits()) == (torch.inf, None)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_true_radii_of_a_network_with_few_inputs_match_a_dense_search(norm: Norm) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3)).eval()
    x = torch.rand(4, 2)
    found = true_radii(model, x, 1.5, norm=norm, seconds=30)
    grid = torch.cartesian_prod(torch.linspace(0, 1, 1001), torch.linspace(0, 1, 1001))
    classes = model(grid).argmax(1)
    for i in range(4):
        others = grid[classes != found.prediction[i]]
        if not len(others):
            continue
        step = (others - x[i]).double()
        nearest = float((step.norm(dim=1) if norm == "l2" else step.abs().amax(1)).min())
        assert float(found.proved[i]) <= nearest
        assert float(found.broken[i]) <= nearest * 1.01 + 1e-6
        assert bool(found.known()[i])
