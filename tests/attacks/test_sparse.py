"""The attack on few features: exact for linear models, never beyond its count, and never better than brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor, nn

import radii
from radii.attacks.sparse import SparseAttack
from radii.errors import InputError
from radii.feature_limits import FeatureLimits
from radii.randomness import stream
from radii.sparse_threat import Sparse
from radii.threat import Ball


def can_break(model: nn.Module, x: Tensor, y: Tensor, threat: Sparse, values: int) -> Tensor:
    """Whether some choice of ``count`` units, with each feature at ``values`` numbers of its room, is an error: [n]."""
    low, high = threat.room(x)
    shape, found = threat.in_units(x).shape, torch.zeros(len(x), dtype=torch.bool)
    grid = torch.linspace(0, 1, values)
    for units in itertools.combinations(range(shape[2]), min(threat.count, shape[2])):
        for shares in itertools.product(grid.tolist(), repeat=len(units) * shape[1]):
            moved = threat.in_units(x).clone()
            room = threat.in_units(high - low)[:, :, list(units)]
            part = torch.tensor(shares).view(1, shape[1], len(units))
            moved[:, :, list(units)] = threat.in_units(low)[:, :, list(units)] + part * room
            with torch.no_grad():
                found |= model(moved.view_as(x)).argmax(1) != y
    return found


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("shape", [(6,), (2, 2, 3)])
def test_a_linear_model_is_broken_where_it_can_be(shape: tuple[int, ...], count: int) -> None:
    torch.manual_seed(0)
    threat, shares = Sparse(count), []
    for spread in (0.1, 0.3, 0.6, 1.0, 2.0):
        model = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 4)).eval()
        nn.init.normal_(model[1].bias, std=spread)  # type: ignore[arg-type]
        x = torch.rand(60, *shape)
        y = model(x).argmax(1)
        result = SparseAttack(steps=1, queries=1)(model, x, y, threat, stream(0, "attack"))
        wanted = can_break(model, x, y, threat, values=2)  # a linear function is largest at an end
        assert torch.equal(result.broken, wanted)
        assert threat.contains(result.x_adv, x).all()
        assert torch.equal(result.broken, model(result.x_adv).argmax(1) != y)
        shares.append(float(wanted.float().mean()))
    assert any(0.1 < share < 0.9 for share in shares)


@pytest.mark.parametrize("kind", ["network", "tree", "logistic"])
def test_no_error_beyond_brute_force(kind: str) -> None:
    torch.manual_seed(1)
    rng = np.random.default_rng(0)
    x = (rng.integers(0, 9, (40, 4)) / 8).astype(np.float32)
    label = ((x[:, 0] > 0.5) ^ (x[:, 1] + x[:, 2] > 0.9)).astype(np.int64)
    if kind == "network":
        own: nn.Module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
    else:
        fitted = DecisionTreeClassifier(max_depth=4, random_state=0) if kind == "tree" else LogisticRegression(C=100)
        own = radii.BlackBox(fitted.fit(x, label))
    inputs, threat = torch.from_numpy(x), Sparse(2)
    y = own(inputs).argmax(1)
    result = SparseAttack(queries=400)(own, inputs, y, threat, stream(0, "attack"))
    moved = (result.x_adv != inputs).sum(1)
    assert int(moved.max()) <= 2
    assert torch.equal(own(result.x_adv).argmax(1) != y, result.broken)
    reachable = can_break(own, inputs, y, threat, values=9)  # all cells of the tree; corners of the others
    if kind != "network":
        assert torch.equal(result.broken, reachable)
    else:
        assert (result.broken | ~reachable).float().mean() >= 0.95


def test_limits_are_kept() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 2)
    x = torch.round(torch.rand(50, 6) * 8)
    limits = FeatureLimits(whole=(1,), rising=(2,), ranges=tuple((feature, 0.0, 8.0) for feature in range(6)))
    threat = Sparse(2, None, fixed=(0,), limits=limits)
    y = model(x).argmax(1)
    result = SparseAttack(queries=20)(model, x, y, threat, stream(0, "attack"))
    moved = result.x_adv - x
    assert result.broken.any()
    assert (moved[:, 0] == 0).all()
    assert (moved[:, 2] >= 0).all()
    assert torch.equal(result.x_adv[:, 1], result.x_adv[:, 1].round())
    assert result.x_adv.min() >= 0
    assert result.x_adv.max() <= 8


def test_what_is_refused() -> None:
    model, x, y = nn.Linear(3, 2), torch.rand(4, 3), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(InputError, match="L0 is for attack alone"):
        radii.evaluate(model, x, y, "l0:2")
    with pytest.raises(InputError, match="lets feature 0 become anything"):
        radii.attack(model, x, y, "l0:2,nobox")
    with pytest.raises(InputError, match="attacked by 'sparse', got 'pgd'"):
        radii.attack(model, x, y, "l0:2", name="pgd")
    with pytest.raises(InputError, match="is for a number of features"):
        radii.attack(model, x, y, Ball("linf", 0.1), name="sparse")
    with pytest.raises(InputError, match="is not understood"):
        radii.attack(model, x, y, "l0:0.5")
