"""The attack on changes, where the weakest error has a closed form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import radii
from radii.attacks.change_grid import ChangeGrid
from radii.change import Change
from radii.errors import InputError
from radii.randomness import stream
from radii.threat import Ball


def brighter_than(level: float) -> nn.Module:
    """Class 1 where the mean of the pixels is above ``level``."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([torch.zeros(16), torch.full((16,), 1 / 16)]))
        model[1].bias.copy_(torch.tensor([level, 0.0]))
    return model


def test_the_weakest_brightness_in_closed_form() -> None:
    x = torch.tensor([0.5, 0.3, 0.1, 0.8]).view(4, 1, 1, 1).expand(4, 1, 4, 4).clone()
    y = torch.tensor([0, 0, 0, 1])
    found = radii.attack(brighter_than(0.6), x, y, "brightness:0.35")
    assert found.radius.tolist() == pytest.approx([0.1, 0.3, float("inf"), 0.2], abs=1e-5)
    assert found.broken.tolist() == [True, True, False, True]
    assert torch.equal(found.x_adv[2], x[2])
    both = radii.attack(brighter_than(0.6), x, y, "brightness:0.15+fade:0.5")
    assert both.broken[0]
    assert float(both.radius[0]) <= 1


def test_nothing_broken_and_everything_broken() -> None:
    x, grid = torch.full((3, 1, 4, 4), 0.5), ChangeGrid()
    none = grid(brighter_than(0.9), x, torch.zeros(3, dtype=torch.int64), Change("brightness", 0.1), stream(0))
    assert not none.broken.any()
    assert torch.equal(none.x_adv, x)
    clean = grid(brighter_than(0.9), x, torch.ones(3, dtype=torch.int64), Change("brightness", 0.1), stream(0))
    assert clean.radius.tolist() == [0.0, 0.0, 0.0]


def test_balls_and_other_attacks_are_refused() -> None:
    x, y, model = torch.full((1, 1, 4, 4), 0.5), torch.zeros(1, dtype=torch.int64), brighter_than(0.9)
    with pytest.raises(InputError, match="is for changes as brightness"):
        ChangeGrid()(model, x, y, Ball("linf", 0.1), stream(0))
    with pytest.raises(InputError, match="Changes of images are attacked by 'grid'"):
        radii.attack(model, x, y, "brightness:0.1", name="pgd")
    with pytest.raises(InputError, match="leave suite out"):
        radii.evaluate(model, x, y, "brightness:0.1", suite="standard")
