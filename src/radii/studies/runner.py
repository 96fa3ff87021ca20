"""Running studies that a user names: missing steps are computed, failures are listed, results are saved.

Steps that several studies share are computed once. A failure stops only the
steps that need its result. Whatever ends a run, the next one continues from
the steps' checkpoints.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from radii import progress
from radii.budget import Budget, check_budget
from radii.errors import InputError
from radii.files import write_whole
from radii.registry import is_import_path
from radii.runs.executors import Executor, FailedStepsError, Failures, Observer, executor_named
from radii.runs.step import Step
from radii.runs.store import Store
from radii.studies import results, toml
from radii.studies.plan import StepTimes, StudyPlan, plan_studies
from radii.studies.results import Evidence, Failure
from radii.studies.study import (
    STUDIES,
    Study,
    StudyRecord,
    check_study,
    registered_study,
    started_folder,
    study_records,
)


def find_study(reference: str, store: Store, trust: Collection[str] = ()) -> Study:
    """The study that a user names."""
    check_study(reference, store)
    if reference in STUDIES or is_import_path(reference):
        return registered_study(reference)
    if not reference.endswith(".toml"):
        reference = next(record.reference for record in study_records(store) if record.name == reference)
    return toml.load(Path(reference), trust)


def _record_study(study: Study, reference: str, budget: Budget, store: Store) -> None:
    """Record that a study was started, so that it can be resumed by name.

    A study defined in Python cannot be resumed by name and is not recorded.
    """
    if reference not in STUDIES and not reference.endswith(".toml"):
        return
    where = str(Path(reference).resolve()) if reference.endswith(".toml") else reference
    record = StudyRecord(study.name, where, budget)
    write_whole(started_folder(store) / f"{study.name}.json", json.dumps(asdict(record)).encode())


class StudyObserver:
    """Observer of a run of studies; the base class ignores all events."""

    def planned(self, plan: StudyPlan, left: str) -> None:
        """The plan is made and nothing has started."""

    def step_ended(self, step: Step, seconds: float | None, left: str) -> None:
        """A step is committed, or has failed.

        Args:
            seconds: what it took; None if it failed.
        """


@dataclass(frozen=True)
class Request:
    """What to run and where.

    Attributes:
        references: names of studies, or TOML files.
        budget: how much work the studies may be.
        executor: one of :data:`radii.runs.executors.NAMES`.
        workers: steps at the same time; one per core by default, 0 computes in this process.
        address: HOST:PORT of a Ray cluster's head.
        only: beginnings of run ids; only these steps and their inputs are computed.
        trust: import paths that TOML files may name.
    """

    references: tuple[str, ...]
    budget: Budget = "cpu"
    executor: str = "processes"
    workers: int | None = None
    address: str | None = None
    only: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_budget(self.budget)
        self.start_executor()  # a wrong name is reported before any work

    def start_executor(self) -> Executor:
        """The executor; it starts workers when it runs steps."""
        return executor_named(self.executor, self.workers, self.address)

    def command(self, only: str = "") -> str:
        """The command line of this request, or of a single step of it."""
        words = ["radii", "study", "run", *self.references, "--budget", self.budget]
        words += ["--executor", self.executor] if self.executor != "processes" else []
        words += ["--address", self.address] if self.address else []
        words += ["--workers", str(self.workers)] if self.workers is not None else []
        words += [word for path in self.trust for word in ("--trust", path)]
        for name in (only,) if only else self.only:
            words += ["--step", name]
        return shlex.join(words)


def run(
    study: Study | str,
    budget: Budget = "cpu",
    *,
    store: Store | None = None,
    executor: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    trust: Sequence[str] = (),
) -> Evidence:
    """Run a study; steps that the store has are not computed again.

    Args:
        budget: ``smoke``, ``cpu``, ``night`` or ``paper``.
        store: where runs and results are kept; :meth:`Store.default` by default.
        executor: ``processes``, ``inline``, ``ray`` or ``ray:local``.
        workers: steps at the same time; one per core by default, 0 computes in this process.
    """
    store = store or Store.default()
    reference = study if isinstance(study, str) else study.name
    request = Request((reference,), budget, executor, workers, address, (), tuple(trust))
    whole = find_study(study, store, trust) if isinstance(study, str) else study
    (evidence,) = run_studies([whole], request, store)
    if evidence.failures:
        raise FailedStepsError({failure.run: RuntimeError(failure.error) for failure in evidence.failures})
    return evidence


def run_studies(
    studies: Sequence[Study], request: Request, store: Store, observer: StudyObserver | None = None
) -> tuple[Evidence, ...]:
    """Compute the missing steps of ``studies`` and save the evidence of each beside the runs."""
    executor, observer = request.start_executor(), observer or StudyObserver()
    study_plan = plan_studies(studies, request.budget, store, StepTimes.known(store), request.only)
    for study, reference in zip(studies, request.references, strict=True):
        _record_study(study, reference, request.budget, store)
    observer.planned(study_plan, study_plan.time_left(executor.width()))
    tracker = _Tracker(study_plan, executor.width(), observer)
    with tracker.bars:
        errors = executor.run(study_plan.steps, store, tracker)
    failures = _failures(errors, study_plan, request)
    saved = [
        results.save(results.collect(study, request.budget, store), study, request.command(), store)
        for study in studies
    ]
    return tuple(
        replace(evidence, failures=tuple(failure for failure in failures if evidence.study in failure.studies))
        for evidence in saved
    )


def _failures(errors: Failures, study_plan: StudyPlan, request: Request) -> list[Failure]:
    steps = {step.run_id: step for step in study_plan.steps}
    return [
        Failure(run_id, steps[run_id].describe(), _sentence(error), study_plan.studies[run_id], request.command(run_id))
        for run_id, error in errors.items()
    ]


def _sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}".removesuffix(": ")


@dataclass
class _Tracker(Observer):
    """Shows the running steps as bars, learns how long steps take, and passes events on."""

    plan: StudyPlan
    workers: int
    observer: StudyObserver
    bars: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._failed: list[str] = []
        self._running: dict[str, ExitStack] = {}
        count = len(self.plan.todo)
        self._all = self.bars.enter_context(progress.task("steps", count, "steps")) if count else None

    def started(self, step: Step) -> None:
        bar = self._running[step.run_id] = self.bars.enter_context(ExitStack())
        bar.enter_context(progress.task(step.describe()))

    def ended(self, step: Step, error: BaseException | None) -> None:
        if step.run_id in self._running:
            self._running.pop(step.run_id).close()
        seconds = None if error is not None else self.plan.seconds(step)
        if seconds is None:
            self._failed.append(step.run_id)
        else:
            self.plan.times.learn(step, seconds)
        left = self.plan.time_left(self.workers, self._failed)
        if self._all is not None:
            self._all.advance(note=left)
        self.observer.step_ended(step, seconds, left)
