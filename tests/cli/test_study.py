"""``radii study``: listed, planned, run, shown, resumed; a failing step is told and the exit code is 1."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_a_dry_run_times_a_few_batches_and_leaves_nothing(radii: Callable[..., Any], grid: Path) -> None:
    told = radii("study", "run", grid, "separation", "--budget", "smoke", "--dry-run")
    assert told.code == 0
    assert re.search(r"3 steps, 0 done; expected time for the rest: at least .* s, 1 steps of unknown", told.out)
    assert "train-" in told.out
    assert not Store.default().root.exists()
    planned = json.loads(radii("study", "run", grid, "--budget", "smoke", "--dry-run", "--json", "-").out)
    assert [step["what"] for step in planned["steps"]] == ["train lenet5 by natural on digits"] * 2
    assert planned["unknown"] == 0
    assert planned["seconds"] > 0


def test_run_show_and_resume(radii: Callable[..., Any], grid: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = radii("study", "run", grid, "--budget", "smoke", "--workers", 0, "--plot", page)
    assert told.code == 0, told.err
    assert "2 steps, 0 done; expected time for the rest: unknown." in told.err
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
    listed = json.loads(radii("study", "list", "--json", "-").out)
    (own,) = [entry for entry in listed if entry["name"] == "tiny"]
    assert own["budgets"]["smoke"] == {"cells": 2, "measured": 2, "origin": "your own"}


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
        (["run", "separation", "--executor", "dask"], "No executor is called 'dask'"),
        (["run", "separation", "--executor", "ray"], "--address HOST:PORT"),
        (["run", "none.toml"], "The study file none.toml does not exist"),
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
