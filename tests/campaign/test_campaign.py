"""A hundredth of the campaign: every kind of trial, no false certificate, no crash; and the campaign can fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaign import run
from campaign.tally import Tally, contradicted

TRIALS = {"forms": 60, "graphs": 6, "lipschitz": 12, "planted": 20, "detectors": 20, "exact": 12, "smoothing": 2}


@pytest.mark.parametrize("kind", run.KINDS)
def test_no_certificate_is_false(kind: str) -> None:
    totals = run.campaign(10_000, 1e9, [kind], 512, None, TRIALS[kind])
    line, held = run.summary(totals)
    assert held, (line, totals[kind].notes[:10])
    assert totals[kind].networks > TRIALS[kind] / 3


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    run.campaign(0, 1e9, ["planted"], 8, state, 3)
    twice = run.campaign(0, 1e9, ["planted"], 8, state, 3)
    assert twice == run.campaign(0, 1e9, ["planted"], 8, None, 6)


def test_a_false_certificate_is_seen() -> None:
    model = torch.nn.Linear(2, 2)
    points = torch.rand(100, 1, 2)
    own = model(points[0]).argmax(1)
    with torch.no_grad():
        model.weight.copy_(-10 * model.weight)
        model.bias.copy_(-model.bias)
    assert contradicted(model, points, own, 7).any()
    line, held = run.summary({"forms": Tally(networks=1, false=1)})
    assert "1 false" in line
    assert not held
