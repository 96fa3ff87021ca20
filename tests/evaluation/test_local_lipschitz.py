"""The local Lipschitz constant: exact on linear models, never below random search, uphill."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from radii.attacks.point_randomness import derived, point_seeds, start_inside
from radii.errors import InputError
from radii.evaluation.local_lipschitz import local_lipschitz
from radii.randomness import stream
from radii.threat import Ball


def test_a_scalar_linear_model_has_its_dual_norm() -> None:
    """Linf: ||w||_1. L2: ||w||_2."""
    model = nn.Linear(12, 1)
    x = torch.rand(10, 12, generator=torch.Generator().manual_seed(0))
    weight = model.weight.detach().double()
    found = local_lipschitz(model, x, Ball("linf", 0.1, None))
    assert np.allclose(found.value, float(weight.abs().sum()), rtol=1e-4)
    found = local_lipschitz(model, x, Ball("l2", 0.1, None), steps=60, step=0.5)
    assert np.allclose(found.value, float(weight.norm()), rtol=1e-3)
    assert found.mean == pytest.approx(float(found.value.mean()))


def test_a_linear_model_of_many_outputs_has_its_best_vertex() -> None:
    """max over signs s of ||W s||_1, by enumeration of 2^8 vertices."""
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    signs = torch.tensor(list(product([-1.0, 1.0], repeat=8)))
    exact = float((signs @ model.weight.detach().T).abs().sum(1).max())
    x = torch.rand(5, 8, generator=torch.Generator().manual_seed(1))
    found = local_lipschitz(model, x, Ball("linf", 0.2, None), restarts=30)
    assert np.allclose(found.value, exact, rtol=1e-4)


def test_never_below_random_search_nor_above_the_product_of_norms() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 3))
    x = torch.rand(20, 10, generator=torch.Generator().manual_seed(2))
    ball = Ball("linf", 0.3)
    found = local_lipschitz(model, x, ball, seed=5)
    seeds = point_seeds(x, torch.zeros(20, dtype=torch.int64), stream(5, "local-lipschitz"))
    with torch.no_grad():
        for restart in range(3):
            start = start_inside(x, ball.with_radius(0.3 / 2**restart), derived(seeds, restart))
            ratio = (model(start) - model(x)).abs().sum(1) / (start - x).abs().amax(1)
            assert (found.value >= ratio.double().numpy() - 1e-6).all()
        ratio = (model(found.nearby) - model(x)).abs().sum(1) / (found.nearby - x).abs().amax(1)
    assert np.allclose(found.value, ratio.numpy(), rtol=1e-4), "the input named attains the value"
    assert ball.contains(found.nearby, x).all()
    bound = float((model[2].weight.abs() @ model[0].weight.abs()).sum().detach())
    assert (found.value <= bound).all()
    assert np.allclose(found.value, local_lipschitz(model, x, ball, seed=5, batch_size=7).value, rtol=1e-4)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="positive radius"):
        local_lipschitz(nn.Linear(2, 2), torch.rand(3, 2), Ball("linf", 0.0))
    with pytest.raises(InputError, match="must lie in"):
        local_lipschitz(nn.Linear(2, 2), torch.rand(3, 2) + 5, Ball("linf", 0.1))
