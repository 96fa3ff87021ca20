"""Before a study starts: which steps it has, which are done, how long the rest may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radii.errors import InputError
from radii.runs.inputs import DataSpec
from radii.runs.step import Step, plan
from radii.runs.steps import Audit, Certify, Evaluate, Prove, Train
from radii.runs.store import Run, Store
from radii.studies.step_times import Rates
from radii.studies.study import Budget, Study


@dataclass(frozen=True)
class Line:
    """A step of the plan, the studies that need it, and its seconds: measured if done, else expected if known."""

    step: Step
    studies: tuple[str, ...]
    done: bool
    seconds: float | None


@dataclass(frozen=True)
class Remaining:
    """``seconds`` of the steps whose time is known, side by side; ``unknown`` counts the others."""

    seconds: float
    unknown: int


@dataclass(frozen=True)
class Survey:
    """The plan of one or several studies, shared steps once, inputs first."""

    lines: tuple[Line, ...]

    @property
    def todo(self) -> tuple[Line, ...]:
        """What is left to compute."""
        return tuple(line for line in self.lines if not line.done)

    def remaining(self, rates: Rates, workers: int, finished: Sequence[str] = ()) -> Remaining:
        """The expected time of what is left, ``finished`` apart, on ``workers`` workers."""
        left = {line.step.run_id: line.step for line in self.todo if line.step.run_id not in finished}
        known = {run_id: rates.expect(step) for run_id, step in left.items()}
        seconds = {run_id: value for run_id, value in known.items() if value is not None}

        def chain(step: Step) -> float:  # a step waits for its inputs, however many workers there are
            return seconds.get(step.run_id, 0.0) + max((chain(needed) for needed in step.inputs()), default=0.0)

        longest = max((chain(step) for step in left.values()), default=0.0)
        return Remaining(max(longest, sum(seconds.values()) / max(1, workers)), len(known) - len(seconds))


def survey(studies: Sequence[Study], budget: Budget, store: Store, rates: Rates, only: Sequence[str] = ()) -> Survey:
    """The steps of ``studies`` at ``budget``; ``only`` leaves runs that begin so, and their inputs."""
    needed_by: dict[str, dict[str, None]] = {}
    steps: list[Step] = []
    for study in studies:
        own = [cell.step for cell in study.cells(budget)]
        steps += own
        for step in plan(own):
            needed_by.setdefault(step.run_id, {})[study.name] = None
    ordered = plan(_picked(plan(steps), only))
    return Survey(tuple(_line(step, tuple(needed_by[step.run_id]), store, rates) for step in ordered))


def _picked(steps: Sequence[Step], only: Sequence[str]) -> list[Step]:
    if not only:
        return list(steps)
    picked = [step for step in steps if step.run_id.startswith(tuple(only))]
    for name in only:
        if not any(step.run_id.startswith(name) for step in picked):
            raise InputError(f"No step of this plan is called {name!r}; --dry-run lists them.")
    return picked


def _line(step: Step, studies: tuple[str, ...], store: Store, rates: Rates) -> Line:
    done = store.is_done(step)
    seconds = Run(store.folder(step)).environment["seconds"] if done else rates.expect(step)
    return Line(step, studies, done, seconds)


def told_time(left: Remaining) -> str:
    """``about 3 min``, ``at least 3 min, 4 steps of unknown time``, ``unknown``."""
    if left.unknown and not left.seconds:
        return "unknown"
    if left.unknown:
        return f"at least {duration(left.seconds)}, {left.unknown} steps of unknown time"
    return f"about {duration(left.seconds)}"


def duration(seconds: float) -> str:
    """Seconds as people say them: ``0.4 s``, ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def describe(step: Step) -> str:
    """A step in a few words: ``train lenet5 by adversarial on mnist+smooth:3``."""
    match step:
        case Train():
            seed = f", seed {step.seed}" if step.seed else ""
            return f"train {step.model.name} by {step.method.name} on {step.data.source}{seed}"
        case Evaluate():
            return f"evaluate at {step.ball}: {_trained(step.model)}"
        case Certify():
            return f"certify: {_trained(step.model)}"
        case Prove():
            return f"prove at {step.ball}: {_trained(step.model)}"
        case Audit():
            return f"audit {step.data.source} in {step.norm}"
        case _:
            data = getattr(step, "data", None)
            what = data.source if isinstance(data, DataSpec) else getattr(step, "name", "")
            return f"{step.kind} {what}".strip()


def _trained(training: Train) -> str:
    return describe(training).removeprefix("train ")
