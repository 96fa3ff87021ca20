"""OneCycle agrees with torch's scheduler, which walks where ours computes."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch.optim.lr_scheduler import OneCycleLR

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
