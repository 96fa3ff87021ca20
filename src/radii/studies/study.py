"""A study: a plan of steps, and an analysis that turns their results into a table and charts.

A study says which cells there are at which budget, and what their results say.
Running, resuming, spreading over machines and keeping results is the same for
all and lives elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from radii.budget import WITHOUT_NIGHT, Budget
from radii.errors import InputError, unknown_name
from radii.registry import Registry, is_import_path
from radii.runs.step import Step
from radii.runs.step_results import R, StepResult
from radii.runs.store import Store
from radii.spec import read_json
from radii.tables import ChartSpec, Table
from radii.untrusted_text import check_file

Place = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Cell:
    """One measurement of a study: where it stands in the grid, and the step that makes it."""

    place: Place
    step: Step


@dataclass(frozen=True)
class Measured:
    """A cell whose step is done: what it found, in which run."""

    place: Place
    result: StepResult
    run: str = ""
    seconds: float = 0.0
    cpu_seconds: float | None = None

    def read(self, record: type[R]) -> R:
        """The result of a cell whose step's record is known.

        Args:
            record: its type: ``cell.read(Train.Result)``.
        """
        if not isinstance(self.result, record):
            raise InputError(f"{dict(self.place)} has a {type(self.result).__name__}, not a {record.__name__}.")
        return self.result


@dataclass(frozen=True)
class ScalingCurve:
    """One accuracy against the number of training points, as the forecast reads it."""

    data: str
    model: str
    metric: str
    classes: int
    test_points: int
    observations: tuple[Mapping[str, float], ...]  # n, seed, value


@dataclass(frozen=True)
class Findings:
    """What a study's results say: a table, charts, curves to extrapolate."""

    table: Table
    charts: tuple[ChartSpec, ...] = ()
    scaling: tuple[ScalingCurve, ...] = ()


@dataclass(frozen=True)
class Study:
    """``plan`` lists the cells of a budget; ``analyze`` accepts the results of any part of the plan.

    ``about`` says in some sentences what is asked and what is expected.
    """

    name: str
    title: str
    source: str
    plan: Callable[[Budget], tuple[Cell, ...]]
    analyze: Callable[[Sequence[Measured]], Findings]
    budgets: tuple[Budget, ...] = WITHOUT_NIGHT
    about: str = ""

    def cells(self, budget: Budget) -> tuple[Cell, ...]:
        """The cells at a budget.

        Args:
            budget: how much work the study may be.

        Raises:
            InputError: the study has no plan for this budget.
        """
        if budget not in self.budgets:
            raise InputError(f"The study {self.name} has the budgets {', '.join(self.budgets)}, not {budget}.")
        return self.plan(budget)


def mean(values: Sequence[float]) -> float | None:
    """The mean of ``values`` over seeds; None without values, so that a partial study still has its table."""
    return sum(values) / len(values) if values else None


STUDIES = Registry("study", {})  # packages publish theirs by entry points of the group radii.studies


def registered_study(name: str) -> Study:
    """The study called ``name``: published by a package, or at an import path."""
    study = STUDIES.entry(name)
    if not isinstance(study, Study):
        raise InputError(f"The study {name!r} must be a radii.studies.study.Study, got {type(study).__name__} instead.")
    return study


@dataclass(frozen=True)
class StudyRecord:
    """A study that was started: ``reference`` is its name, or the file that it was read from."""

    name: str
    reference: str
    budget: Budget


def check_study(reference: str, store: Store) -> None:
    """Refuse a name that no study has and a TOML file that is not there; nothing is imported."""
    if is_import_path(reference):
        STUDIES.check(reference)
    elif reference.endswith(".toml"):
        check_file(Path(reference))
    elif reference not in (known := [*STUDIES, *(record.name for record in study_records(store))]):
        raise unknown_name("study", reference, known, "Or give a TOML file, my-study.toml.")


def study_records(store: Store) -> list[StudyRecord]:
    """The studies that were started in ``store``, the most recent first."""
    paths = sorted(started_folder(store).glob("*.json"), key=lambda path: -path.stat().st_mtime_ns)
    records = []
    for path in paths:
        try:
            content = read_json(path, "a note of a study")
            records.append(StudyRecord(content["name"], content["reference"], content["budget"]))
        except (InputError, KeyError):
            logging.getLogger("radii").warning("%s is damaged; this study cannot be resumed by its name.", path)
    return records


def started_folder(store: Store) -> Path:
    """Where ``store`` keeps notes of the studies that were started."""
    return store.root / "studies" / "started"
