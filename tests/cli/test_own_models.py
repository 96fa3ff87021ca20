"""`radii assess --model`, `radii compare` and the growing report: one's own models side by side."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from radii.data import sources
from radii.report.html import render
from radii.report.live import LiveReport, served
from radii.runs.store import Store
from radii.studies.assess import AssessmentRequest

FACTORY = """
from torch import nn

def net(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
"""


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two nets on the digits, the second trained for longer."""
    (tmp_path / "pair_factory.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    x, y = sources.load("digits").train.tensors()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer, files = torch.optim.Adam(net.parameters(), 5e-3), []
    for name, steps in (("short", 8), ("long", 100)):
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        files.append(tmp_path / f"{name}.safetensors")
        save_file(net.state_dict(), files[-1])
    return files


def test_own_models_side_by_side(radii: Callable[..., object], weights: list[Path], tmp_path: Path) -> None:
    out, figures = tmp_path / "report.html", tmp_path / "figures.json"
    models = [word for file in weights for word in ("--model", "pair_factory:net", "--weights", file)]
    words = ["--no-references", "--points", "30", "--suite", "fast", "--workers", "0", "--out", out, "--live"]
    done = radii("assess", "digits", *models, *words, "--json", figures)
    assert done.code == 0, done.err
    assert "small grey images" in done.out  # the threat has a name and a reason
    assert "http://127.0.0.1:" in done.err
    found = json.loads(figures.read_text())
    assert len(found["models"]) == 2
    assert "How robust is pair_factory:net" in out.read_text()

    runs = [own["evaluation_run"] for own in found["models"].values()]
    chart, table = tmp_path / "chart.svg", tmp_path / "pair.json"
    compared = radii("compare", *runs, "--json", table, "--plot", chart)
    assert compared.code == 0, compared.err
    (difference,) = json.loads(table.read_text())["differences"].values()
    clean = [own["evaluation"]["clean"]["value"] for own in found["models"].values()]
    assert difference["clean"]["value"] == pytest.approx(clean[1] - clean[0])
    assert difference["clean"]["low"] < difference["clean"]["value"] < difference["clean"]["high"]
    assert chart.read_text().startswith("<svg")
    assert "at least two runs" in radii("compare", runs[0]).err
    other = radii("evaluate", "pair_factory:net", "digits", "--weights", weights[0], "--threat", "l2:0.1",
                  "--points", "30", "--suite", "fast", "--json", table)  # fmt: skip
    assert other.code == 0
    elsewhere = json.loads(table.read_text())["runs"]["test"]
    assert "differ in the threat" in radii("compare", runs[0], elsewhere).err


def test_mistakes_are_one_sentence(radii: Callable[..., object], weights: list[Path]) -> None:
    assert "nothing to assess" in radii("assess", "digits", "--no-references").err
    assert "belongs to a --model" in radii("assess", "digits", "--weights", weights[0]).err
    assert "No suite" in radii("assess", "digits", "--suite", "nope").err


def test_the_growing_report_waits_grows_and_ends_with_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = AssessmentRequest("digits", "l2:0.3", epochs=1, points=20, suite="fast", forecast=False).plan(store)
    live = LiveReport(plan, store)

    def fetched(host: str = "") -> str:
        request = urllib.request.Request(address, headers={"Host": host} if host else {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    with served(live) as address:
        assert address.startswith("http://127.0.0.1:")
        assert "0 of 7 steps are done" in fetched()
        assert 'http-equiv="refresh"' in fetched()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetched("evil.example:80")
        for step in [*plan.trainings.values(), plan.audit, *plan.evaluations.values()][:5]:
            store.ensure(step)
        grown = fetched()
        assert "5 of 7 steps are done" in grown
        assert "Robust accuracy of standard " in grown
        final = render(live._report(7))
        live.finish(final)
        assert fetched() == final
        assert live.fetched.is_set()
