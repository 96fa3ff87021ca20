"""The results of a study as a JSON file: the user's own beside the runs, those we computed within the package.

The file holds every cell's place, run and result; the table is computed from
them when it is read, so that an analysis can be improved without running again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from radii.budget import BUDGETS, Budget
from radii.errors import InputError
from radii.files import write_whole
from radii.registry import published_folders
from radii.runs.step import plan, result_type
from radii.runs.step_results import parse_result
from radii.runs.store import Run, Store
from radii.spec import read_json
from radii.studies.provenance import Provenance
from radii.studies.study import Findings, Measured, Study

TIMES = ("seconds", "cpu_seconds", "resumed", "threads", "commit")  # of a run's environment; not of the study's


@dataclass(frozen=True)
class Failure:
    """A step that could not be computed, the reason, the studies that need it, and the command that tries it again."""

    run: str
    what: str
    error: str
    studies: tuple[str, ...]
    retry: str


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
    cpu_seconds: float | None = None  # the same in CPU time of all threads; None if that of a run is not known
    setups: Mapping[str, str] = field(default_factory=dict)  # by run: network, training, points, in words
    provenance: Provenance = field(default_factory=Provenance)
    failures: tuple[Failure, ...] = ()  # of the run that collected it; not saved

    @property
    def complete(self) -> bool:
        """Whether every cell of the plan was measured."""
        return len(self.measured) == self.planned

    @property
    def duration(self) -> str:
        """What its runs took, in words: CPU time where it is known, and time by the clock."""
        clock = f"{_spoken(self.seconds)} by the clock"
        return clock if self.cpu_seconds is None else f"{_spoken(self.cpu_seconds)} of CPU time, {clock}"

    @property
    def shipped(self) -> bool:
        """Whether it was read from the results that come with a package."""
        return bool(self.origin) and Path(self.origin).parent in shipped_folders()


def shipped_folders() -> tuple[Path, ...]:
    """Folders with results of studies that packages bring: entry points of the group ``radii.results``."""
    return published_folders("radii.results")


def collect(study: Study, budget: Budget, store: Store) -> Evidence:
    """The results of a study that the store has."""
    cells = study.cells(budget)
    measured, environment = [], dict[str, Any]()
    for cell in cells:
        if store.is_done(cell.step):
            run = Run(store.folder(cell.step))
            environment = run.environment
            spent = environment["seconds"], run.cpu_seconds
            measured.append(Measured(dict(cell.place), run.read(cell.step.Result).brief(), run.id, *spent))
    kept = {key: value for key, value in environment.items() if key not in TIMES}
    done = [Run(store.folder(step)) for step in plan([cell.step for cell in cells]) if store.is_done(step)]
    seconds = sum(run.environment["seconds"] for run in done)
    cpu = [run.cpu_seconds for run in done]
    setups = {cell.step.run_id: cell.step.setup() for cell in cells if store.is_done(cell.step)}
    return Evidence(
        study.name,
        budget,
        len(cells),
        tuple(measured),
        kept,
        seconds=seconds,
        cpu_seconds=None if None in cpu else sum(filter(None, cpu)),
        setups=setups,
        provenance=Provenance.of([cell.step for cell in cells], [run.environment for run in done]),
    )


def _spoken(seconds: float) -> str:
    """A duration as people say it."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


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
        "cpu_seconds": None if evidence.cpu_seconds is None else round(evidence.cpu_seconds, 1),
        "environment": evidence.environment,
        "rows": [dict(row) for row in findings.table.rows],
        "scaling": [asdict(curve) for curve in findings.scaling],
        "cells": [{**vars(cell), "result": cell.result.to_json()} for cell in evidence.measured],
        "setups": dict(evidence.setups),
        "provenance": evidence.provenance.to_json(),
    }


def save(evidence: Evidence, study: Study, command: str, store: Store) -> Evidence:
    """Write the results of a study beside the runs; the evidence then says where."""
    path = store.root / "studies" / f"{evidence.study}-{evidence.budget}.json"
    content = to_json(evidence, study, command)
    write_whole(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    return replace(evidence, origin=str(path))


def read(path: Path) -> Evidence:
    """The evidence in the file ``path`` that :func:`save` wrote."""
    try:
        content = read_json(path, "a study's result")
        measured = tuple(_measured(cell, path) for cell in content["cells"])
        return Evidence(
            study=content["study"],
            budget=content["budget"],
            planned=content["planned"],
            measured=measured,
            environment=content["environment"],
            origin=str(path),
            seconds=content["seconds"],
            cpu_seconds=content.get("cpu_seconds"),
            setups=content.get("setups", {}),
            provenance=Provenance.read(content.get("provenance", {})),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} is not a study's result: {error}.") from error


def _measured(cell: Mapping[str, Any], path: Path) -> Measured:
    """A cell of the file ``path``; its run's name tells which kind of step found the result."""
    record = result_type(cell["run"].rpartition("-")[0])
    return Measured(**{**cell, "result": parse_result(cell["result"], record, f"{path}, the cell {cell['run']},")})


def find(name: str, store: Store | None = None, budget: Budget | None = None) -> Evidence | None:
    """The saved evidence that says most about a study; the user's own comes before the package's.

    That is the greatest budget that is complete; else the greatest one. ``smoke`` checks that a study runs, so
    it never comes before another budget.

    Args:
        store: where the user's results are; :meth:`Store.default` by default.

    Returns:
        None if there is no evidence.
    """
    folders = ((store or Store.default()).root / "studies", *shipped_folders())
    paths = [folder / f"{name}-{known}.json" for folder in folders for known in BUDGETS]
    saved = [read(path) for path in paths if path.is_file()]
    fitting = [evidence for evidence in saved if budget in (None, evidence.budget)]
    return max(fitting, key=_weight, default=None)


def _weight(evidence: Evidence) -> tuple[bool, bool, int]:
    """By which evidence is ordered: what was asked at length, whole, at the greatest budget."""
    return evidence.budget != "smoke", evidence.complete, BUDGETS.index(evidence.budget)


def latest(study: Study, budget: Budget | None, store: Store) -> Evidence | None:
    """The most evidence for a study: collected from the store's runs, or as it was saved or shipped.

    Budgets share runs, so a few cells of a greater budget do not hide a complete smaller one.

    Args:
        budget: only at this budget; else at the greatest budget that is complete, or that has evidence if none is.
    """
    from radii.data.sources import only_local

    saved = find(study.name, store, budget)
    least = BUDGETS.index(saved.budget) if saved is not None else 0
    best = saved
    for candidate in (budget,) if budget else [at for at in BUDGETS[least:] if at in study.budgets]:
        try:
            with only_local(decoded=True):
                own = collect(study, candidate, store)
        except InputError:  # the study's data was never used on this machine, so nothing was run
            continue
        if saved is not None and candidate == saved.budget and len(own.measured) < len(saved.measured):
            continue
        if own.measured and (own.complete or best is None or not best.complete or candidate == best.budget):
            best = own
    return best


def shipped_results() -> Iterable[Mapping[str, Any]]:
    """The contents of the results that come with packages."""
    paths = [path for folder in shipped_folders() for path in sorted(folder.glob("*.json"))]
    return (json.loads(path.read_text(encoding="utf-8")) for path in paths)
