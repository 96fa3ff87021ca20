"""The studies of the papers stay what they were: the runs that every budget plans, and what the shipped results say.

``golden.json`` holds a digest for each study and budget, and for each shipped result. A plan that changes makes the
runs of users and the shipped results unreachable: change a digest only together with its reason.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from radii.runs.component_specs import DataSpec
from radii.studies import grid, results
from radii.studies.study import STUDIES, Cell, registered_study

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
SHIPPED = {path.stem: path for folder in results.shipped_folders() for path in sorted(folder.glob("*.json"))}
READS_ITS_DATA = "linf-front"  # follows from the points; here only where they are bundled


@pytest.fixture
def named_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets by name, also where they are not on the machine."""
    named = classmethod(lambda cls, name: cls(source=name, train=f"{name} train", test=f"{name} test"))
    monkeypatch.setattr(DataSpec, "of", named)
    monkeypatch.setattr(grid, "_here", lambda name, study: True)


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def plan_digest(cells: tuple[Cell, ...]) -> str:
    """Of every place and its run; the order of the cells is free."""
    return digest({json.dumps(dict(cell.place), sort_keys=True): cell.step.run_id for cell in cells})


@pytest.mark.parametrize("name", [name for name in STUDIES if name != READS_ITS_DATA])
@pytest.mark.usefixtures("named_only")
def test_a_study_plans_the_runs_that_it_planned_before(name: str) -> None:
    study = registered_study(name)
    assert {budget: plan_digest(study.cells(budget)) for budget in study.budgets} == GOLDEN["plans"][name]


def test_a_study_that_reads_its_data_plans_the_runs_that_it_planned_before() -> None:
    assert plan_digest(registered_study(READS_ITS_DATA).cells("smoke")) == GOLDEN["plans"][READS_ITS_DATA]["smoke"]


@pytest.mark.parametrize("name", list(SHIPPED))
@pytest.mark.usefixtures("named_only")
def test_shipped_results_stand_at_places_of_the_plan(name: str) -> None:
    evidence = results.read(SHIPPED[name])
    if evidence.study == READS_ITS_DATA:
        return
    planned = [dict(cell.place) for cell in registered_study(evidence.study).cells(evidence.budget)]
    assert all(dict(cell.place) in planned for cell in evidence.measured)


@pytest.mark.parametrize("name", list(SHIPPED))
def test_tables_and_charts_of_the_shipped_results_are_what_they_were(name: str) -> None:
    evidence = results.read(SHIPPED[name])
    findings = registered_study(evidence.study).analyze(evidence.measured)
    assert digest(_rounded(asdict(findings))) == GOLDEN["findings"][name]


def _rounded(value: Any) -> Any:
    """Nine digits: the order in which a mean adds its terms is free."""
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return f"{value:.9g}" if isinstance(value, float) else value
