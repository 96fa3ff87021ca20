"""What a study found, as a JSON file: the user's own beside the runs, the ones we ran within the package.

The file holds every cell's place, run and result; the table is computed from
them when it is read, so that an analysis can be improved without running again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from radii.atomic import write_whole
from radii.errors import InputError
from radii.runs.step import plan
from radii.runs.store import Run, Store
from radii.studies.study import BUDGETS, Budget, Findings, Measured, Study

BULKY = ("history", "points", "per_class", "verdict", "closest", "contradictory", "examples")  # not needed to judge


@dataclass(frozen=True)
class Evidence:
    """The results of a study at a budget; ``planned`` counts its cells, done or not."""

    study: str
    budget: Budget
    planned: int
    measured: tuple[Measured, ...]
    environment: dict[str, Any]
    origin: str = ""  # the file it was read from
    seconds: float = 0.0  # what its runs took, inputs included, each counted once

    @property
    def complete(self) -> bool:
        """Whether every cell of the plan was measured."""
        return len(self.measured) == self.planned


def collect(study: Study, budget: Budget, store: Store) -> Evidence:
    """What the store holds of a study."""
    cells = study.cells(budget)
    measured, environment = [], dict[str, Any]()
    for cell in cells:
        if store.is_done(cell.step):
            run = Run(store.folder(cell.step))
            environment = run.environment
            measured.append(Measured(dict(cell.place), _brief(run.result), run.id, environment["seconds"]))
    kept = {key: value for key, value in environment.items() if key not in ("seconds", "threads")}
    done = [step for step in plan([cell.step for cell in cells]) if store.is_done(step)]
    seconds = sum(Run(store.folder(step)).environment["seconds"] for step in done)
    return Evidence(study.name, budget, len(cells), tuple(measured), kept, seconds=seconds)


def _brief(result: Any) -> Any:
    """A result without its long lists."""
    if isinstance(result, dict):
        return {key: _brief(value) for key, value in result.items() if key not in BULKY}
    return result


def to_json(evidence: Evidence, study: Study, command: str) -> dict[str, Any]:
    """The evidence with its table and curves, as written to disk and shown by ``--json``."""
    findings: Findings = study.analyze(evidence.measured)
    return {
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "budget": evidence.budget,
        "command": command,
        "planned": evidence.planned,
        "measured": len(evidence.measured),
        "seconds": round(evidence.seconds, 1),
        "environment": evidence.environment,
        "rows": [dict(row) for row in findings.table.rows],
        "scaling": [asdict(curve) for curve in findings.scaling],
        "cells": [asdict(cell) for cell in evidence.measured],
    }


def save(content: dict[str, Any], store: Store) -> Path:
    """Keep a study's findings beside the runs."""
    path = store.root / "studies" / f"{content['study']}-{content['budget']}.json"
    write_whole(path, (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())
    return path


def read(path: Path) -> Evidence:
    """The evidence in a file that :func:`save` wrote."""
    try:
        content = json.loads(path.read_text())
        measured = tuple(Measured(**cell) for cell in content["cells"])
        return Evidence(
            study=content["study"],
            budget=content["budget"],
            planned=content["planned"],
            measured=measured,
            environment=content["environment"],
            origin=str(path),
            seconds=content["seconds"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a study's result: {error}.") from error


def find(name: str, store: Store | None = None, budget: Budget | None = None) -> Evidence | None:
    """The most telling evidence for a study: the greatest budget, the user's own before the package's."""
    found = [read(path) for path in _candidates(name, store or Store.default()) if path.is_file()]
    fitting = [evidence for evidence in found if budget in (None, evidence.budget)]
    return max(fitting, key=lambda evidence: (BUDGETS.index(evidence.budget), evidence.complete), default=None)


def _candidates(name: str, store: Store) -> Iterable[Path]:
    shipped = Path(str(files("radii.papers") / "results"))
    return [folder / f"{name}-{budget}.json" for folder in (store.root / "studies", shipped) for budget in BUDGETS]
