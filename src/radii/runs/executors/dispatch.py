"""The order of steps: inputs first, each step once; a failure stops only the steps that need its result."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Protocol

from radii.errors import InputError
from radii.randomness import threads
from radii.runs.step import Step, plan
from radii.runs.store import Store

Failures = dict[str, BaseException]  # by run id, in the order in which they happened


class Observer:
    """Observer of step events; the base class ignores them."""

    def started(self, step: Step) -> None:
        """A worker begins with ``step``."""

    def ended(self, step: Step, error: BaseException | None) -> None:
        """``step`` is committed."""


class Executor(Protocol):
    """Computes steps."""

    def width(self) -> int:
        """How many steps run at the same time."""

    def run(self, steps: Sequence[Step], store: Store, observer: Observer) -> Failures:
        """Compute the steps and their inputs, and commit each that succeeds.

        Args:
            steps: the steps; what the store has is not computed again.
        """


class Workers(Protocol):
    """What an executor with several workers offers to :func:`drain`."""

    def have_room(self, step: Step) -> bool:
        """Whether ``step`` may be submitted now; always true if nothing runs."""

    def submit(self, step: Step) -> Future[Any]:
        """Start computing ``step``."""

    def collect(self, step: Step, future: Future[Any]) -> None:
        """Commit the result of a finished step to the store, or raise its error."""


class FailedStepsError(RuntimeError):
    """Some steps failed; everything that did not depend on them is committed."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        super().__init__("; ".join(f"{run_id}: {error}" for run_id, error in failures.items()))


class MissingInputError(InputError):
    """A step was not tried because one of its inputs failed."""


def unfinished(steps: Sequence[Step], store: Store) -> list[Step]:
    """The steps and inputs that the store does not have; inputs of finished steps are not needed again."""
    return [step for step in plan([step for step in steps if not store.is_done(step)]) if not store.is_done(step)]


class Inline:
    """One step after another in this process, with one torch thread, so the bits are those of any executor."""

    def width(self) -> int:
        """One step at a time."""
        return 1

    def run(self, steps: Sequence[Step], store: Store, observer: Observer) -> Failures:
        """As :class:`Executor` says."""
        failures: Failures = {}
        for step in unfinished(steps, store):
            refusal = _missing_input(step, failures)
            if refusal is None:
                observer.started(step)
                try:
                    with threads(1):
                        store.ensure(step)
                except Exception as error:
                    refusal = error
            if refusal is not None:
                failures[step.run_id] = refusal
            observer.ended(step, refusal)
        return failures


def _missing_input(step: Step, failures: Failures) -> BaseException | None:
    """The reason why ``step`` cannot be tried, or None."""
    lost = [needed.run_id for needed in step.inputs() if needed.run_id in failures]
    return MissingInputError(f"not tried: it needs {lost[0]}, which failed") if lost else None


def drain(todo: Sequence[Step], store: Store, workers: Workers, observer: Observer) -> Failures:
    """Submit each step when its inputs are committed and a worker has room; a failure does not stop the others."""
    waiting, running = list(todo), dict[Future[Any], Step]()
    failures: Failures = {}
    while waiting or running:
        for step in list(waiting):
            refusal = _missing_input(step, failures)
            if refusal is not None:
                waiting.remove(step)
                failures[step.run_id] = refusal
                observer.ended(step, refusal)
            elif all(store.is_done(needed) for needed in step.inputs()) and workers.have_room(step):
                waiting.remove(step)
                observer.started(step)
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
            observer.ended(step, problem)
    return failures


def raise_failures(failures: Failures) -> None:
    """Raise the failures of steps, if there are any."""
    real = [error for error in failures.values() if not isinstance(error, MissingInputError)]
    if len(real) == 1 and isinstance(real[0], InputError):
        raise real[0]
    if failures:
        raise FailedStepsError(failures)
