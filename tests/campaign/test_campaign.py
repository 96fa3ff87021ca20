"""A hundredth of the campaign: every kind of trial, no false certificate, no crash; and the campaign can fail."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaign import broken_files, fuzz, kills, run, sandbox
from campaign.tally import Tally, contradicted

TRIALS = {
    "forms": 60,
    "graphs": 6,
    "lipschitz": 12,
    "planted": 12,
    "detectors": 20,
    "exact": 12,
    "splits": 4,
    "smoothing": 2,
}


@pytest.mark.parametrize("kind", run.KINDS)
def test_no_certificate_is_false(kind: str) -> None:
    totals = run.campaign(10_000, 1e9, [kind], 512, None, TRIALS[kind])
    line, held = run.summary(totals)
    assert held, (line, totals[kind].notes[:10])
    assert totals[kind].networks > TRIALS[kind] / 3


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    run.campaign(0, 1e9, ["lipschitz"], 8, state, 2)
    run.campaign(0, 1e9, ["detectors"], 8, state, 2)
    twice = run.campaign(0, 1e9, ["lipschitz"], 8, state, 2)
    assert twice == run.campaign(0, 1e9, ["lipschitz"], 8, None, 4)


def test_odd_command_lines_and_broken_files_end_with_a_sentence() -> None:
    """A twentieth of `make fuzz`; every format of a file once."""
    codes, faults = fuzz.fuzz(100, 6, len(broken_files.MAKERS), 20.0, show=False)
    assert not faults, [(outcome.arguments, outcome.faults, outcome.err[-300:]) for outcome in faults]
    assert codes.total() == 6 + len(broken_files.MAKERS)
    assert codes[2] > 10


def test_the_sandbox_sees_a_fault(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    outcome = sandbox.run_command(["runs"], tmp_path / "in")
    assert outcome.faults == []
    bad = replace(outcome, code=70, err="Traceback (most recent call last):", leftovers=("x.part",))
    assert len(bad.faults) == 3


def test_a_killed_training_ends_with_the_same_bits() -> None:
    """A fiftieth of `make kills`."""
    counts, faults = kills.kill(4, 1, ["train"])
    assert not faults
    assert counts["train"].total() >= 4


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
