"""The plan of a study: which steps it has, which are done, and how long the others may take.

The time of a step is a rate times an amount (:meth:`radii.runs.step.Step.effort`).
Rates come from the same run where it was measured on another machine, else
from comparable steps; a step that is like nothing measured is rehearsed on a few batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from radii.budget import Budget
from radii.errors import InputError
from radii.progress import task
from radii.runs.step import Effort, Step, from_json, plan
from radii.runs.store import Run, Store
from radii.studies.buildable import check_networks
from radii.studies.rehearsal import rehearse
from radii.studies.results import shipped_results
from radii.studies.study import Study

PATIENCE = 30.0  # seconds for timing steps before a study; its results do not depend on it


class StepTimes:
    """Seconds of steps, as far as they were measured."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}  # by run id
        self._rates: dict[str, list[float]] = {}  # seconds per unit of work, by key of comparable steps
        self._elsewhere: dict[str, list[float]] = {}  # the same, measured on other machines

    @classmethod
    def known(cls, store: Store) -> StepTimes:
        """The times of the store's runs and of the results shipped with the package."""
        times = cls()
        for content in shipped_results():
            for cell in content.get("cells", ()):
                times._seconds[cell["run"]] = cell["seconds"]
            for work in content.get("work", ()):
                effort = Effort(tuple(work["keys"]), work["amount"])
                times._add(work["run"], effort, work["seconds"], times._elsewhere)
        for run in store.runs():
            try:
                times.learn(from_json(run.spec), _alone(run))
            except (InputError, KeyError):  # a run of another version says nothing about this one
                continue
        return times

    def learn(self, step: Step, seconds: float) -> None:
        """Remember how long a step took.

        Args:
            step: the step.
            seconds: its time.
        """
        self._add(step.run_id, step.effort(), seconds, self._rates)

    def expect(self, step: Step) -> float | None:
        """The expected seconds of ``step``; None if nothing like it was measured.

        The most similar steps count; of those, this machine's before those of others.
        """
        if step.run_id in self._seconds:
            return self._seconds[step.run_id]
        effort = step.effort()
        tables = self._rates, self._elsewhere
        rates = next((table[key] for key in effort.keys for table in tables if key in table), None)
        return None if rates is None else median(rates) * effort.amount

    def rehearse(self, steps: Iterable[Step], device: str) -> None:
        """Time the steps that are like nothing measured, on a few batches each (:mod:`radii.studies.rehearsal`).

        Once this has taken ``PATIENCE`` seconds, the times of further steps follow from their multiply-adds.
        """
        unknown = [step for step in steps if self.expect(step) is None]
        if not unknown:
            return
        begun = time.monotonic()
        with task("timing steps that were never measured", len(unknown), "steps") as bar:
            for step in unknown:
                if self.expect(step) is None:
                    timed = rehearse(step, device) if time.monotonic() - begun < PATIENCE else None
                    if (seconds := timed or _counted(step)) is not None:
                        self._add(step.run_id, step.effort(), seconds, self._elsewhere)  # a guess until one is done
                bar.advance()

    def _add(self, run_id: str, effort: Effort, seconds: float, rates: dict[str, list[float]]) -> None:
        self._seconds[run_id] = seconds
        for key in effort.keys:
            rates.setdefault(key, []).append(seconds / effort.amount)


def _alone(run: Run) -> float:
    """The seconds of a run on a machine that does nothing else: not more than by the clock, nor than in CPU time."""
    cpu, seconds = run.cpu_seconds, float(run.environment["seconds"])
    return seconds if cpu is None else min(seconds, cpu)


def _counted(step: Step) -> float | None:
    """The time of a step by its multiply-adds, where it could not be timed."""
    from radii.studies.operation_count import operations

    count = operations(step)
    return None if count is None else count.core_seconds


def measured_times(steps: Iterable[Step], store: Store) -> list[dict[str, Any]]:
    """The times of the finished steps, to be shipped with their results.

    Args:
        steps: steps, finished or not.
        store: the run store.
    """
    rows = []
    for step in steps:
        if store.is_done(step):
            effort = step.effort()
            seconds = _alone(Run(store.folder(step)))
            rows.append({"run": step.run_id, "keys": effort.keys, "amount": effort.amount, "seconds": seconds})
    return rows


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan, the studies that need it, and its seconds: measured if it is done, else expected if known."""

    step: Step
    studies: tuple[str, ...]
    done: bool
    seconds: float | None


@dataclass(frozen=True)
class TimeLeft:
    """``seconds`` for the steps whose time is known; ``unknown`` counts the other steps."""

    seconds: float
    unknown: int

    def __str__(self) -> str:
        """``about 3 min``, ``at least 3 min, 4 steps of unknown time``, ``unknown``."""
        if self.unknown and not self.seconds:
            return "unknown"
        if self.unknown:
            return f"at least {format_duration(self.seconds)}, {self.unknown} steps of unknown time"
        return f"about {format_duration(self.seconds)}"


@dataclass(frozen=True)
class StudyPlan:
    """The steps of one or several studies; shared steps once, inputs first."""

    steps: tuple[PlannedStep, ...]

    @property
    def todo(self) -> tuple[PlannedStep, ...]:
        """The steps that are not done."""
        return tuple(planned for planned in self.steps if not planned.done)

    def time_left(self, times: StepTimes, workers: int, finished: Sequence[str] = ()) -> TimeLeft:
        """The expected time of the steps that are not done.

        Args:
            times: measured times.
            workers: steps at the same time.
            finished: run ids that have ended since the plan was made.
        """
        left = {item.step.run_id: item.step for item in self.todo if item.step.run_id not in finished}
        expected = {run_id: times.expect(step) for run_id, step in left.items()}
        seconds = {run_id: value for run_id, value in expected.items() if value is not None}

        def chain(step: Step) -> float:  # a step waits for its inputs, however many workers there are
            return seconds.get(step.run_id, 0.0) + max((chain(needed) for needed in step.inputs()), default=0.0)

        longest = max((chain(step) for step in left.values()), default=0.0)
        return TimeLeft(max(longest, sum(seconds.values()) / max(1, workers)), len(expected) - len(seconds))


def plan_studies(
    studies: Sequence[Study],
    budget: Budget,
    store: Store,
    times: StepTimes,
    only: Sequence[str] = (),
    rehearsed: bool = False,
) -> StudyPlan:
    """The steps of studies at a budget.

    Args:
        studies: the studies.
        budget: how much work they may be.
        store: says which steps are done.
        times: measured times.
        only: keep only steps whose run id starts with one of these, and their inputs.
        rehearsed: whether steps of unknown time are timed on a few batches now.

    Raises:
        InputError: no step's run id starts with one of ``only``, or a network does not fit its data.
    """
    needed_by: dict[str, dict[str, None]] = {}
    steps: list[Step] = []
    for study in studies:
        own = [cell.step for cell in study.cells(budget)]
        steps += own
        for step in plan(own):
            needed_by.setdefault(step.run_id, {})[study.name] = None
    ordered = plan(_select(plan(steps), only))
    todo = [step for step in ordered if not store.is_done(step)]
    check_networks(todo)
    if rehearsed:
        times.rehearse(todo, store.device)
    return StudyPlan(tuple(_planned(step, tuple(needed_by[step.run_id]), store, times) for step in ordered))


def _select(steps: Sequence[Step], only: Sequence[str]) -> list[Step]:
    if not only:
        return list(steps)
    selected = [step for step in steps if step.run_id.startswith(tuple(only))]
    for name in only:
        if not any(step.run_id.startswith(name) for step in selected):
            raise InputError(f"No step of this plan is called {name!r}; --dry-run lists them.")
    return selected


def _planned(step: Step, studies: tuple[str, ...], store: Store, times: StepTimes) -> PlannedStep:
    done = store.is_done(step)
    seconds = Run(store.folder(step)).environment["seconds"] if done else times.expect(step)
    return PlannedStep(step, studies, done, seconds)


def format_duration(seconds: float) -> str:
    """``seconds`` as text: ``0.4 s``, ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
