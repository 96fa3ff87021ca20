"""``radii study``: listed, planned, run, shown, resumed; a failing step is told and the exit code is 1."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radii.runs.store import Store

GRID = """
name = "tiny"
title = "Two trainings"
data = ["digits"]
[[model]]
name = "lenet5"
widen = 0.125
[[model]]
name = "lenet5"
label = "hot"
widen = 0.125
settings.optimizer.lr = {lr}
[settings]
epochs = 1
batch_size = 256
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(GRID.format(lr=0.02))
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.toml"
    path.write_text(GRID.format(lr=1e30).replace("tiny", "broken"))
    return path


def test_a_dry_run_computes_nothing(radii: Callable[..., Any], grid: Path) -> None:
    told = radii("study", "run", grid, "separation", "--budget", "smoke", "--dry-run")
    assert told.code == 0
    assert "3 steps, 0 done; expected time for the rest: not measured yet." in told.out
    assert "train-" in told.out
    assert not Store.default().root.exists()
    planned = json.loads(radii("study", "run", grid, "--budget", "smoke", "--dry-run", "--json", "-").out)
    assert [step["what"] for step in planned["steps"]] == ["train lenet5 by natural on digits"] * 2
    assert (planned["unknown"], planned["seconds"]) == (2, 0)


def test_a_dry_run_and_a_listing_decode_nothing(
    radii: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A dataset that is here and was never decoded: its steps are listed, without the names of their runs."""
    rng = np.random.default_rng(0)
    monkeypatch.setenv("RADII_DATA", str(tmp_path))
    np.savez(tmp_path / "points.npz", x=rng.random((40, 3), dtype=np.float32), y=np.arange(40) % 2)
    path, name = tmp_path / "own.toml", f"{tmp_path}/points.npz"
    measure = '[measure.evaluate]\nthreat = "l2:0.1"\nsuite = "fast"\npoints = 4'
    path.write_text(f'name = "own"\ndata = ["{name}"]\n[[model]]\nname = "mlp"\nwidth = 4\n{measure}')
    cache = Path(os.environ["RADII_CACHE"])
    told = json.loads(radii("study", "run", path, "--dry-run", "--json", "-").out)
    assert [(step["run"], step["done"]) for step in told["steps"]] == [(None, False)] * 2
    assert told["undecoded"] == [name]
    shown = radii("study", "run", path, "--dry-run")
    assert shown.code == 0
    assert "no name yet" in shown.out
    assert "Not decoded yet: " in shown.out
    assert not list(cache.rglob("*.npy"))
    assert radii("study", "run", path, "--workers", 0).code == 0
    done = json.loads(radii("study", "run", path, "--dry-run", "--json", "-").out)
    assert all(step["done"] and step["run"] for step in done["steps"])
    shutil.rmtree(cache)
    (listed,) = [
        entry for entry in json.loads(radii("study", "list", "--json", "-").out)["studies"] if entry["name"] == "own"
    ]
    assert listed["budgets"]["smoke"] == {
        "cells": 1, "measured": 0, "origin": "", "data": f"not decoded yet: {name}",
    }  # fmt: skip
    assert len(list(cache.rglob("train-x.npy"))) == 1, "only the bundled digits, of other studies"


def test_run_show_and_resume(radii: Callable[..., Any], grid: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = radii("study", "run", grid, "--budget", "smoke", "--workers", 0, "--plot", page)
    assert told.code == 0, told.err
    assert "2 steps, 0 done; expected time for the rest: not measured yet." in told.err
    assert "train lenet5 by natural on digits" in told.err
    assert "2 of 2 cells measured" in told.out
    assert "Two trainings" in page.read_text()
    again = radii("study", "resume", "--workers", 0)
    assert "2 steps, all done." in again.err
    picture = tmp_path / "chart.svg"
    shown = radii("study", "show", "tiny", "--plot", picture, "--json", "-")
    content = json.loads(shown.out)
    assert (content["study"], content["measured"], content["planned"]) == ("tiny", 2, 2)
    assert {row["model"] for row in content["rows"]} == {"lenet5", "hot"}
    assert picture.read_text().startswith("<svg")
    listed = json.loads(radii("study", "list", "--json", "-").out)["studies"]
    (own,) = [entry for entry in listed if entry["name"] == "tiny"]
    assert own["budgets"]["smoke"] == {"cells": 2, "measured": 2, "origin": "your own", "data": ""}


def test_a_failing_step_is_told_with_its_retry(radii: Callable[..., Any], broken: Path) -> None:
    told = radii("study", "run", broken, "--budget", "smoke", "--workers", 0, "--json", "-")
    assert told.code == 1
    content = json.loads(told.out)
    (failure,) = content["failures"]
    assert "diverged" in failure["error"]
    assert "A step failed; what was measured is kept." in told.err
    assert failure["retry"] in told.err
    assert failure["retry"].startswith(f"radii study run {broken} --budget smoke --workers 0 --step train-")
    assert content["studies"][0]["measured"] == 1
    retried = radii(*failure["retry"].split()[1:])
    assert retried.code == 1
    assert "1 of 2 cells measured" in retried.out
    resumed = radii("study", "resume", "broken", "--workers", 0)
    assert resumed.code == 1


def test_what_is_listed(radii: Callable[..., Any]) -> None:
    told = radii("study", "list")
    assert told.code == 0
    for name in ("separation", "sensitivity-mnist", "data-scaling", "subspaces"):
        assert name in told.out
    assert "smoke" in told.out
    assert "1 cells, nothing measured" in told.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "seperation"], "Did you mean 'separation'?"),
        (["run", "separation", "--budget", "gpu"], "No budget is called 'gpu'"),
        (["run", "separation", "--executor", "dask"], "--executor must be processes, inline, ray or ray:local"),
        (["run", "separation", "--executor", "ray"], "--address HOST:PORT"),
        (["run", "none.toml"], "There is no file none.toml"),
        (["run", "separation", "--budget", "smoke", "--step", "train-0"], "No step of this plan"),
        (["resume"], "No study was started"),
        (["resume", "separation"], "The study 'separation' was never started"),
        (["show", "nothing"], "No study is called 'nothing'"),
        (["show", "data-scaling", "--budget", "tiny"], "No budget is called 'tiny'"),
        (["show", "data-scaling", "--budget", "smoke"], "Nothing is measured of data-scaling yet"),
    ],
)
def test_mistakes(radii: Callable[..., Any], arguments: list[str], sentence: str) -> None:
    told = radii("study", *arguments)
    assert told.code == 2
    assert sentence in told.err


def test_the_example_runs(radii: Callable[..., Any]) -> None:
    example = Path(__file__).parents[2] / "examples" / "widths.toml"
    told = radii("study", "run", example, "--budget", "smoke", "--workers", 0)
    assert told.code == 0, told.err
    assert "4 of 4 cells measured" in told.out
    assert "unbroken" in told.out
