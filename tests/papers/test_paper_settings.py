"""``--budget paper`` is the paper: settings of its trainings, each with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import isclose
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from made_records import certified, split
from radii.certificates.smoothing.randomized import estimate, largest_estimate
from radii.runs.component_specs import DataSpec
from radii.runs.steps import Certify, Evaluate, Train
from radii.runs.store import Store
from radii.studies.results import find
from radii.studies.study import Cell, Measured, registered_study
from radii.training.recipes import plan
from radii_papers.studies._prach_networks import SIGMA

TABLE = Path(__file__).parents[2] / "docs" / "papers" / "paper-settings.md"
CONVNET, MLP, SMOOTHED = "1-Lipschitz", "AOL MLP", "smoothed"


def settings() -> list[tuple[str, dict[str, str], str, Any, str]]:
    """The lines of the table: study, where in its grid, setting, value, source."""
    lines = []
    for line in TABLE.read_text().splitlines():
        if not line.startswith("| `"):
            continue
        study, where, setting, value, source = (part.strip().strip("`") for part in line.strip("|").split(" | "))
        place = {} if where == "all" else dict(part.split(" ", 1) for part in where.split(", "))
        lines.append((study.lstrip("` "), place, setting, _value(value), source))
    return lines


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    return float(Fraction(text)) if re.fullmatch(r"[\d./e-]+", text) else text


def test_the_table_is_read() -> None:
    assert len(settings()) >= 69


@pytest.fixture(autouse=True)
def named_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets by name, also where they are not on the machine."""
    monkeypatch.setattr(DataSpec, "of", lambda name: DataSpec(source=name, train="", test=""))


@cache
def planned(study: str) -> tuple[Cell, ...]:
    return registered_study(study).cells("paper")


@pytest.mark.parametrize(("study", "place", "setting", "value", "source"), settings())
def test_a_setting_is_the_papers(study: str, place: Mapping[str, Any], setting: str, value: Any, source: str) -> None:
    cells = [cell for cell in planned(study) if all(str(cell.place[name]) == wanted for name, wanted in place.items())]
    assert cells, f"{study} has nothing at {place}"
    for cell in cells:
        stated = _setting(_training(cell.step), setting)
        same = isclose(stated, value) if isinstance(value, float) else stated == value
        assert same, f"{study} {dict(cell.place)}: {setting} is {stated!r}; {source} has {value!r}"


def _training(step: Any) -> Train:
    training = step if isinstance(step, Train) else step.model
    assert isinstance(step, Train | Certify | Evaluate)
    assert isinstance(training, Train)
    return training


def _setting(step: Train, path: str) -> Any:
    value: Any = step
    for part in path.split("."):
        value = value[part] if isinstance(value, Mapping) else getattr(value, part)
    return value


@pytest.mark.parametrize(("study", "test_points"), [("data-scaling", 10_000), ("subspaces", 10_000)])
def test_all_test_images_are_certified(study: str, test_points: int) -> None:
    points = {cell.step.points for cell in planned(study) if isinstance(cell.step, Certify)}
    assert points == {test_points}


def test_the_attack_of_the_cifar_training_is_that_of_madry() -> None:
    method = plan("ding-cifar").settings["method"]
    assert (method["steps"], method["step"] * 8) == (7, 2.0)  # 7 steps of 2/255 within 8/255


def test_smoothing_is_called_an_estimate() -> None:
    cells = [cell for cell in planned("data-scaling") if cell.place["model"] == SMOOTHED]
    assert {cell.step.method for cell in cells if isinstance(cell.step, Certify)} == {"estimate"}
    shares = {CONVNET: 0.5, SMOOTHED: 0.7, MLP: 0.4}
    measured = [
        Measured(
            {"data": "cifar10", "n": 50_000, "seed": 0, "model": model},
            certified(
                [36 / 255, 1.0],
                split(0.9, [share, 0.1], estimated=model == SMOOTHED),
                split(0.9, [0.9, 0.2], estimated=model == SMOOTHED),
            ),
        )
        for model, share in shares.items()
    ]
    findings = registered_study("data-scaling").analyze(measured)
    row = findings.table.rows[0]
    assert (row["certified"], row[SMOOTHED], row[MLP]) == (0.5, 0.7, 0.4)
    assert "smoothing, estimate (none beyond 0.2908)" in findings.table.headings


def test_no_figure_stands_where_an_estimate_cannot_reach() -> None:
    """Clipped votes reach no radius beyond 0.2908, so a 0% at radius 1 would be no measurement."""
    unanimous = nn.Linear(2, 2)
    unanimous.weight, unanimous.bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.tensor([1.0, 0.0]))
    reached = estimate(unanimous, torch.full((1, 2), 0.5), SIGMA, samples=100).radius
    assert float(reached) == pytest.approx(largest_estimate(SIGMA), abs=1e-12)
    shipped = find("data-scaling", Store(Path("nowhere")), "cpu")
    assert shipped is not None
    findings = registered_study("data-scaling").analyze(shipped.measured)
    by_data = {row["data"]: row.get(SMOOTHED) for row in findings.table.rows if row["n"] in (50_000, 60_000)}
    assert by_data == {"cifar10": pytest.approx(0.475), "mnist": None}
    assert not [row for chart in findings.charts for row in chart.rows if row["accuracy"] == 0]
