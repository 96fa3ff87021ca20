"""What is ready to be computed next: inputs first, each step once, a failure stops only what needs it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Protocol

from radii.errors import InputError
from radii.randomness import threads
from radii.runs.step import Step, plan
from radii.runs.store import Run, Store

Failures = dict[str, BaseException]  # by run id, in the order in which they happened


class Watcher:
    """Is told what happens to the steps; this one does not care."""

    def started(self, step: Step) -> None:
        """A worker begins with ``step``."""

    def ended(self, step: Step, error: BaseException | None) -> None:
        """``step`` is committed, or failed with ``error``."""


class Executor(Protocol):
    """Something that computes steps."""

    def width(self) -> int:
        """How many steps run side by side."""

    def run(self, steps: Sequence[Step], store: Store, watcher: Watcher) -> Failures:
        """Commit every step that can be; the failures of the others."""


class Workers(Protocol):
    """What an executor over many workers must be able to do."""

    def have_room(self, step: Step) -> bool:
        """Whether ``step`` may be submitted now; if nothing runs, it may."""

    def submit(self, step: Step) -> Future[Any]:
        """Begin with ``step``."""

    def collect(self, step: Step, future: Future[Any]) -> None:
        """Bring the result of a finished step into the store; raises what went wrong."""


class FailedStepsError(RuntimeError):
    """Some steps failed; everything that did not depend on them is committed."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        super().__init__("; ".join(f"{run_id}: {error}" for run_id, error in failures.items()))


class MissingInputError(InputError):
    """A step was not tried, for one of its inputs failed."""


def unfinished(steps: Sequence[Step], store: Store) -> list[Step]:
    """The part of the plan that the store does not hold; inputs of what is done are not needed again."""
    return [step for step in plan([step for step in steps if not store.is_done(step)]) if not store.is_done(step)]


class Here:
    """Every step, one after another, in this process, with one torch thread: the bits are those of any executor."""

    def width(self) -> int:
        """One step at a time."""
        return 1

    def run(self, steps: Sequence[Step], store: Store, watcher: Watcher) -> Failures:
        """As :class:`Executor` says."""
        failures: Failures = {}
        for step in unfinished(steps, store):
            refusal = missing_input(step, failures)
            if refusal is None:
                watcher.started(step)
                try:
                    with threads(1):
                        store.ensure(step)
                except Exception as error:
                    refusal = error
            if refusal is not None:
                failures[step.run_id] = refusal
            watcher.ended(step, refusal)
        return failures


def run_here(steps: Sequence[Step], store: Store) -> list[Run]:
    """Every step, one after another, in this process; the first failure is raised."""
    return [store.ensure(step) for step in steps]


def missing_input(step: Step, failures: Failures) -> BaseException | None:
    """Why ``step`` cannot be tried."""
    lost = [needed.run_id for needed in step.inputs() if needed.run_id in failures]
    return MissingInputError(f"not tried: it needs {lost[0]}, which failed") if lost else None


def drain(todo: Sequence[Step], store: Store, workers: Workers, watcher: Watcher) -> Failures:
    """Submit each step when its inputs are committed and there is room; failures do not stop the rest."""
    waiting, running = list(todo), dict[Future[Any], Step]()
    failures: Failures = {}
    while waiting or running:
        for step in list(waiting):
            refusal = missing_input(step, failures)
            if refusal is not None:
                waiting.remove(step)
                failures[step.run_id] = refusal
                watcher.ended(step, refusal)
            elif all(store.is_done(needed) for needed in step.inputs()) and workers.have_room(step):
                waiting.remove(step)
                watcher.started(step)
                running[workers.submit(step)] = step
        if not running:
            continue
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            step = running.pop(future)
            problem: BaseException | None = None
            try:
                workers.collect(step, future)
            except Exception as error:
                failures[step.run_id] = problem = error
            watcher.ended(step, problem)
    return failures


def raise_failures(failures: Failures) -> None:
    """A single user's mistake is raised as such; otherwise all failures are listed."""
    real = [error for error in failures.values() if not isinstance(error, MissingInputError)]
    if len(real) == 1 and isinstance(real[0], InputError):
        raise real[0]
    if failures:
        raise FailedStepsError(failures)
