"""Running studies: what is missing is computed, what failed is listed, what was measured is kept.

Steps that several studies share are computed once. A failure stops only what
needs it. Whatever ends a run, the next one continues where the steps'
checkpoints are.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from radii import progress
from radii.data.sources import only_local
from radii.errors import InputError, unknown_name
from radii.runs.executors import NAMES, Executor, FailedStepsError, Failures, Watcher, chosen, plan
from radii.runs.step import Step
from radii.runs.store import Run, Store
from radii.studies import results, step_times
from radii.studies.plan import Line, Remaining, Survey, describe, survey, told_time
from radii.studies.results import Evidence
from radii.studies.started import named, remember
from radii.studies.study import BUDGETS, Budget, Study

Begun = Callable[[Survey, Remaining], None]
Told = Callable[[Line, BaseException | None, Remaining], None]


@dataclass(frozen=True)
class Failure:
    """A step that could not be computed, why, and the command that tries it again."""

    run: str
    what: str
    error: str
    studies: tuple[str, ...]
    retry: str


@dataclass(frozen=True)
class Outcome:
    """What a run left: evidence of every study, the files it is kept in, and what failed."""

    evidence: tuple[Evidence, ...]
    files: tuple[Path, ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class Request:
    """What to run, as the user asked: ``references`` are names or TOML files; ``executor`` and the rest say where."""

    references: tuple[str, ...]
    budget: Budget = "cpu"
    executor: str = "processes"
    workers: int | None = None
    address: str | None = None
    only: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.budget not in BUDGETS:
            raise unknown_name("budget", self.budget, BUDGETS)
        if self.executor not in NAMES:
            raise unknown_name("executor", self.executor, NAMES)

    def command(self, only: str = "") -> str:
        """The command line that asks for this, or for one step of it."""
        words = ["radii", "study", "run", *self.references, "--budget", self.budget]
        words += ["--executor", self.executor] if self.executor != "processes" else []
        words += ["--address", self.address] if self.address else []
        words += ["--workers", str(self.workers)] if self.workers else []
        words += [word for path in self.trust for word in ("--trust", path)]
        for name in (only,) if only else self.only:
            words += ["--step", name]
        return shlex.join(words)


def run(
    study: Study | str,
    budget: Budget = "cpu",
    store: Store | None = None,
    *,
    executor: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    trust: Sequence[str] = (),
) -> Evidence:
    """Run a study, given by name, as a TOML file or as a :class:`Study`, and return what it found.

    What the store holds is not computed again. If steps fail, what was measured
    is kept and :class:`FailedStepsError` tells of all of them. ``trust`` holds the
    import paths that a TOML file may name.
    """
    store = store or Store.default()
    made = named(study, store, trust) if isinstance(study, str) else study
    reference = study if isinstance(study, str) else made.name
    request = Request((reference,), budget, executor, workers, address, (), tuple(trust))
    outcome = run_studies([made], request, store)
    if outcome.failures:
        raise FailedStepsError({failure.run: RuntimeError(failure.error) for failure in outcome.failures})
    return outcome.evidence[0]


def run_studies(
    studies: Sequence[Study], request: Request, store: Store, begun: Begun | None = None, told: Told | None = None
) -> Outcome:
    """Compute what is missing of ``studies`` and keep their evidence.

    ``begun`` hears the plan and its expected time, ``told`` of every step that ends.
    """
    executor = chosen(request.executor, request.workers, request.address)
    known = step_times.Rates.known(store)
    planned = survey(studies, request.budget, store, known, request.only)
    for study, reference in zip(studies, request.references, strict=True):
        remember(study, reference, request.budget, store)
    if begun is not None:
        begun(planned, planned.remaining(known, executor.width()))
    watch = _Watch(planned, known, store, executor, told)
    with watch.shown:
        failures = executor.run([line.step for line in planned.lines], store, watch)
    kept = [keep(study, request.budget, store, request.command()) for study in studies]
    return Outcome(
        tuple(found for found, _ in kept), tuple(path for _, path in kept), _listed(failures, planned, request)
    )


def keep(study: Study, budget: Budget, store: Store, command: str) -> tuple[Evidence, Path]:
    """Collect what the store holds of a study and write it beside the runs."""
    found = results.collect(study, budget, store)
    content = results.to_json(found, study, command)
    content["work"] = step_times.measured(plan([cell.step for cell in study.cells(budget)]), store)
    return found, results.save(content, store)


def _listed(failures: Failures, planned: Survey, request: Request) -> tuple[Failure, ...]:
    lines = {line.step.run_id: line for line in planned.lines}
    return tuple(
        Failure(run_id, describe(lines[run_id].step), _sentence(error), lines[run_id].studies, request.command(run_id))
        for run_id, error in failures.items()
    )


def _sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}".removesuffix(": ")


@dataclass
class _Watch(Watcher):
    """Shows the running steps, learns how long steps take, and passes on what ended."""

    planned: Survey
    known: step_times.Rates
    store: Store
    executor: Executor
    told: Told | None
    shown: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._lines = {line.step.run_id: line for line in self.planned.lines}
        self._ended: list[str] = []
        self._running: dict[str, ExitStack] = {}
        count = len(self.planned.todo)
        self._all = self.shown.enter_context(progress.task("steps", count, "steps")) if count else None

    def started(self, step: Step) -> None:
        line = self._running[step.run_id] = self.shown.enter_context(ExitStack())
        line.enter_context(progress.task(describe(step)))

    def ended(self, step: Step, error: BaseException | None) -> None:
        if step.run_id in self._running:
            self._running.pop(step.run_id).close()
        if error is None:
            self.known.learn(step, Run(self.store.folder(step)).environment["seconds"])
        self._ended.append(step.run_id)
        left = self.planned.remaining(self.known, self.executor.width(), self._ended)
        if self._all is not None:
            self._all.advance(note=told_time(left))
        if self.told is not None:
            line = self._lines[step.run_id]
            seconds = self.known.expect(step) if error is None else None
            self.told(Line(step, line.studies, error is None, seconds), error, left)


def latest(study: Study, budget: Budget | None, store: Store) -> Evidence | None:
    """What is known of a study: collected from the store if that holds the most, else as it was saved or shipped."""
    found = results.find(study.name, store, budget)
    least = BUDGETS.index(found.budget) if found is not None else 0
    for wanted in (budget,) if budget else reversed(BUDGETS[least:]):
        try:
            with only_local(decoded=True):
                own = results.collect(study, wanted, store)
        except InputError:  # its data was never used here: nothing was run here either
            continue
        better = found is None or wanted != found.budget or len(own.measured) >= len(found.measured)
        if own.measured and better:
            return own
    return found
