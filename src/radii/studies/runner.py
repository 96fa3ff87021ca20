"""Running studies: missing steps are computed, failures are listed, results are saved.

Steps that several studies share are computed once. A failure stops only the
steps that need its result. Whatever ends a run, the next one continues from
the steps' checkpoints.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from radii import progress
from radii.budget import Budget, check_budget
from radii.errors import InputError
from radii.runs.executors import Executor, FailedStepsError, Failures, Observer, executor_named
from radii.runs.step import Step, plan
from radii.runs.store import Run, Store
from radii.studies import results
from radii.studies.plan import PlannedStep, StepTimes, StudyPlan, TimeLeft, measured_times, plan_studies
from radii.studies.results import Evidence
from radii.studies.study import Study
from radii.studies.study_lookup import find_study, record_study


class StudyObserver:
    """Observer of a run of studies; the base class ignores all events."""

    def planned(self, plan: StudyPlan, left: TimeLeft) -> None:
        """The plan is made and nothing has started.

        Args:
            plan: all steps.
            left: the expected time.
        """

    def step_ended(self, step: PlannedStep, error: BaseException | None, left: TimeLeft) -> None:
        """A step is committed, or has failed.

        Args:
            step: the step.
            error: the reason, if it failed.
            left: the expected time of the other steps.
        """


@dataclass(frozen=True)
class Failure:
    """A step that could not be computed, the reason, and the command that tries it again."""

    run: str
    what: str
    error: str
    studies: tuple[str, ...]
    retry: str


@dataclass(frozen=True)
class Outcome:
    """The evidence of every study, the files it is saved in, and the failures."""

    evidence: tuple[Evidence, ...]
    files: tuple[Path, ...]
    failures: tuple[Failure, ...]


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
        study: a study, its name, or a TOML file.
        budget: ``smoke``, ``cpu``, ``night`` or ``paper``.
        store: where runs and results are kept; :meth:`Store.default` by default.
        executor: ``processes``, ``inline``, ``ray`` or ``ray:local``.
        workers: steps at the same time; one per core by default, 0 computes in this process.
        address: HOST:PORT of a Ray cluster's head, with ``executor="ray"``.
        trust: import paths that a TOML file may name.

    Returns:
        The results of all cells.

    Raises:
        InputError: the study, budget or executor is not known.
        FailedStepsError: steps failed; what was measured is saved.
    """
    store = store or Store.default()
    reference = study if isinstance(study, str) else study.name
    request = Request((reference,), budget, executor, workers, address, (), tuple(trust))
    whole = find_study(study, store, trust) if isinstance(study, str) else study
    outcome = run_studies([whole], request, store)
    if outcome.failures:
        raise FailedStepsError({failure.run: RuntimeError(failure.error) for failure in outcome.failures})
    return outcome.evidence[0]


def run_studies(
    studies: Sequence[Study], request: Request, store: Store, observer: StudyObserver | None = None
) -> Outcome:
    """Compute the missing steps of ``studies`` and save their evidence.

    Args:
        studies: one study for each of ``request.references``.
        request: budget, executor and selection.
        store: where runs and results are kept.
        observer: hears the plan, and of every step that ends.
    """
    executor, times = request.start_executor(), StepTimes.known(store)
    study_plan = plan_studies(studies, request.budget, store, times, request.only, rehearsed=request.budget != "smoke")
    for study, reference in zip(studies, request.references, strict=True):
        record_study(study, reference, request.budget, store)
    observer = observer or StudyObserver()
    observer.planned(study_plan, study_plan.time_left(times, executor.width()))
    tracker = _Tracker(study_plan, times, store, executor.width(), observer)
    with tracker.bars:
        failures = executor.run([planned.step for planned in study_plan.steps], store, tracker)
    saved = [save_evidence(study, request.budget, store, request.command()) for study in studies]
    return Outcome(
        tuple(evidence for evidence, _ in saved),
        tuple(path for _, path in saved),
        _failures(failures, study_plan, request),
    )


def save_evidence(study: Study, budget: Budget, store: Store, command: str) -> tuple[Evidence, Path]:
    """Collect the results of a study that the store has and write them beside the runs.

    Args:
        study: the study.
        budget: which plan of the study.
        store: the run store.
        command: what computes the results again.
    """
    evidence = results.collect(study, budget, store)
    content = results.to_json(evidence, study, command)
    content["work"] = measured_times(plan([cell.step for cell in study.cells(budget)]), store)
    return evidence, results.save(content, store)


def _failures(failures: Failures, study_plan: StudyPlan, request: Request) -> tuple[Failure, ...]:
    steps = {planned.step.run_id: planned for planned in study_plan.steps}
    return tuple(
        Failure(run_id, steps[run_id].step.describe(), _sentence(error), steps[run_id].studies, request.command(run_id))
        for run_id, error in failures.items()
    )


def _sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}".removesuffix(": ")


@dataclass
class _Tracker(Observer):
    """Shows the running steps as bars, learns how long steps take, and passes events on."""

    plan: StudyPlan
    times: StepTimes
    store: Store
    workers: int
    observer: StudyObserver
    bars: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._steps = {planned.step.run_id: planned for planned in self.plan.steps}
        self._ended: list[str] = []
        self._running: dict[str, ExitStack] = {}
        count = len(self.plan.todo)
        self._all = self.bars.enter_context(progress.task("steps", count, "steps")) if count else None

    def started(self, step: Step) -> None:
        bar = self._running[step.run_id] = self.bars.enter_context(ExitStack())
        bar.enter_context(progress.task(step.describe()))

    def ended(self, step: Step, error: BaseException | None) -> None:
        if step.run_id in self._running:
            self._running.pop(step.run_id).close()
        if error is None:
            self.times.learn(step, Run(self.store.folder(step)).environment["seconds"])
        self._ended.append(step.run_id)
        left = self.plan.time_left(self.times, self.workers, self._ended)
        if self._all is not None:
            self._all.advance(note=str(left))
        seconds = self.times.expect(step) if error is None else None
        planned = replace(self._steps[step.run_id], done=error is None, seconds=seconds)
        self.observer.step_ended(planned, error, left)
