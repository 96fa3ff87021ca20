"""The setup behind a verdict in one line: which network, how it was trained, on what, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from radii.budget import Budget
from radii.errors import InputError
from radii.runs.step import Step
from radii.spec import read_json
from radii.studies.study import registered_study
from radii_papers.claims.judgment import Verdict


def setup(verdict: Verdict) -> str:
    """The setup of the first run that a verdict was read from; empty where that is unknown."""
    if verdict.budget is None or not verdict.runs:
        return ""
    written = _written(verdict.origin).get(verdict.runs[0])
    if written is not None:
        return str(written)
    step = _steps(verdict.claim.study, verdict.budget).get(verdict.runs[0])
    return "" if step is None else step.setup()


@cache
def _written(origin: str) -> Mapping[str, Any]:
    """The setups that a file of results has by run: those of the plan that was run, whatever it is today."""
    if not Path(origin).is_file():
        return {}
    return dict(read_json(Path(origin), "a study's result").get("setups", {}))


@cache
def _steps(study: str, budget: Budget) -> Mapping[str, Step]:
    try:
        return {cell.step.run_id: cell.step for cell in registered_study(study).cells(budget)}
    except InputError:  # a plan that needs data which is not on this machine
        return {}
