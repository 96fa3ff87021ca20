"""OneCycle agrees with torch's scheduler, which walks where ours computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch.optim.lr_scheduler import MultiStepLR, OneCycleLR

from radii.training.schedule import Optimizer


@pytest.mark.parametrize(("total", "warmup"), [(10, 0.3), (101, 0.3), (1000, 0.25), (37, 0.5)])
def test_agrees_with_torch(total: int, warmup: float) -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    scheduler = OneCycleLR(optimizer, max_lr=0.7, total_steps=total, pct_start=warmup)
    ours = Optimizer(lr=0.7, warmup=warmup, cycle_momentum=True)
    for step in range(total):
        group = optimizer.param_groups[0]
        assert ours.at(step, total) == pytest.approx((group["lr"], group["momentum"]), rel=1e-9)
        optimizer.step()
        if step + 1 < total:
            scheduler.step()


def test_momentum_is_constant_unless_cycled() -> None:
    assert {Optimizer(momentum=0.8).at(step, 50)[1] for step in range(50)} == {0.8}


def test_a_single_step_and_no_warmup_have_a_rate() -> None:
    assert Optimizer(lr=1.0).at(0, 1)[0] > 0
    assert Optimizer(lr=1.0, warmup=0.0).at(0, 10)[0] == pytest.approx(1.0, rel=0.05)


def test_contradictory_momentum_is_refused() -> None:
    with pytest.raises(ValidationError, match="leave it out"):
        Optimizer(momentum=0.5, cycle_momentum=True)


def test_steps_drop_as_torchs_multistep() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scheduler = MultiStepLR(optimizer, [20, 30])
    ours = Optimizer(lr=0.1, schedule="steps", drops=(0.5, 0.75))
    for step in range(40):
        assert ours.at(step, 40)[0] == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        scheduler.step()


def test_a_constant_rate_is_constant() -> None:
    assert {Optimizer(lr=0.3, schedule="constant").at(step, 9) for step in range(9)} == {(0.3, 0.9)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "steps", "drops": (0.7, 0.5)}, "rising shares"),
        ({"schedule": "steps", "drops": (50.0,)}, "between 0 and 1"),
        ({"drops": (0.5,)}, "optimizer.schedule=steps"),
        ({"kind": "adam", "cycle_momentum": True}, "belongs to SGD"),
        ({"kind": "adamw"}, "sgd"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Optimizer(**given)


def test_later_fields_leave_older_hashes_alone() -> None:
    """What was hashed before Adam and step schedules existed is hashed the same now."""
    assert set(Optimizer().canonical()) == {
        "lr", "warmup", "momentum", "cycle_momentum", "weight_decay", "clip_gradient",
    }  # fmt: skip
