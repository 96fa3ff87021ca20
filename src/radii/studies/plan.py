"""The plan of a study: which steps it has, which are done, and how long the others may take.

A time is known where it was measured: of the same run, here or on another
machine, or of comparable runs in this store, which took proportionally long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from radii.budget import Budget
from radii.data import sources
from radii.data.variant_chain import SHAPING
from radii.errors import InputError
from radii.models.io.bundle import Architecture
from radii.runs.step import Step, from_json, plan
from radii.runs.steps import Train
from radii.runs.store import Run, Store
from radii.studies.results import shipped_results
from radii.studies.study import Study

UNKNOWN = "not measured yet"


class StepTimes:
    """Seconds of steps, as far as they were measured."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}  # by run id
        self._rates: dict[str, list[float]] = {}  # seconds per optimizer step, epoch or point of comparable steps

    @classmethod
    def known(cls, store: Store) -> StepTimes:
        """The times of the store's runs and of the results shipped with packages."""
        times = cls()
        for content in shipped_results():
            times._seconds |= {cell["run"]: cell["seconds"] for cell in content.get("cells", ())}
        for run in store.runs():
            try:
                times.learn(from_json(run.spec), _alone(run))
            except (InputError, KeyError):  # a run of another version says nothing about this one
                continue
        return times

    def learn(self, step: Step, seconds: float) -> None:
        """Remember how long a step took."""
        like, amount = _comparable(step)
        self._seconds[step.run_id] = seconds
        self._rates.setdefault(like, []).append(seconds / amount)

    def expect(self, step: Step) -> float | None:
        """The expected seconds of ``step``; None if nothing like it was measured."""
        if step.run_id in self._seconds:
            return self._seconds[step.run_id]
        like, amount = _comparable(step)
        return median(self._rates[like]) * amount if like in self._rates else None


def _alone(run: Run) -> float:
    """The seconds of a run on a machine that does nothing else: not more than by the clock, nor than in CPU time."""
    cpu, seconds = run.cpu_seconds, float(run.environment["seconds"])
    return seconds if cpu is None else min(seconds, cpu)


def _comparable(step: Step) -> tuple[str, float]:
    """What steps that take proportionally long have in common, and the length of this one.

    Trainings of one network by one method, by optimizer steps or epochs; measurements of one network, by points.
    """
    if isinstance(step, Train):
        recipe = step.recipe
        # an epoch is as long as its data, an optimizer step is not
        length = ["steps", step.data.base] if recipe.steps else ["epochs", step.data.source]
        content = [step.model.canonical(), step.method.canonical(), recipe.batch_size, *length]
        return json.dumps(content, sort_keys=True), float(recipe.steps or recipe.epochs)
    model, points = getattr(step, "model", None), getattr(step, "points", None)
    if isinstance(model, Train) and isinstance(points, int):
        same = {key: value for key, value in step.canonical().items() if key not in ("seed", "points", "data")}
        content = [{**same, "model": model.model.canonical()}, model.data.base]
        return json.dumps(content, sort_keys=True), float(points)
    return json.dumps({**step.canonical(), "seed": None}, sort_keys=True), 1.0


@dataclass(frozen=True)
class StudyPlan:
    """The steps of one or several studies, shared steps once, inputs first; ``studies`` need a run by its id."""

    steps: tuple[Step, ...]
    studies: Mapping[str, tuple[str, ...]]
    store: Store
    times: StepTimes

    @property
    def todo(self) -> tuple[Step, ...]:
        """The steps that are not done."""
        return tuple(step for step in self.steps if not self.store.is_done(step))

    def seconds(self, step: Step) -> float | None:
        """The time of a step: measured if it is done, else expected; None if nothing like it was measured."""
        if self.store.is_done(step):
            return float(Run(self.store.folder(step)).environment["seconds"])
        return self.times.expect(step)

    def seconds_left(self, workers: int, failed: Collection[str] = ()) -> tuple[float, int]:
        """The expected seconds of the steps to do, with so many at a time, and how many steps have no expected time.

        Runs that ``failed`` are not tried again.
        """
        left = {step.run_id: step for step in self.todo if step.run_id not in failed}
        expected = {run_id: self.times.expect(step) for run_id, step in left.items()}
        seconds = {run_id: value for run_id, value in expected.items() if value is not None}

        def chain(step: Step) -> float:  # a step waits for its inputs, however many workers there are
            return seconds.get(step.run_id, 0.0) + max((chain(needed) for needed in step.inputs()), default=0.0)

        longest = max((chain(step) for step in left.values()), default=0.0)
        return max(longest, sum(seconds.values()) / max(1, workers)), len(expected) - len(seconds)

    def time_left(self, workers: int, failed: Collection[str] = ()) -> str:
        """:meth:`seconds_left` in words: ``about 3 min``, ``at least 3 min, 4 steps not measured yet``."""
        seconds, unknown = self.seconds_left(workers, failed)
        if not unknown:
            return f"about {format_duration(seconds)}" if seconds else "nothing"
        return f"at least {format_duration(seconds)}, {unknown} steps {UNKNOWN}" if seconds else UNKNOWN


def plan_studies(
    studies: Sequence[Study], budget: Budget, store: Store, times: StepTimes, only: Sequence[str] = ()
) -> StudyPlan:
    """The steps of studies at a budget; nothing is computed."""
    needed_by: dict[str, dict[str, None]] = {}
    steps: list[Step] = []
    for study in studies:
        own = [cell.step for cell in study.cells(budget)]
        steps += own
        for step in plan(own):
            needed_by.setdefault(step.run_id, {})[study.name] = None
    ordered = plan(_select(plan(steps), only))
    _check_networks(step for step in ordered if not store.is_done(step))
    return StudyPlan(tuple(ordered), {run_id: tuple(names) for run_id, names in needed_by.items()}, store, times)


def _select(steps: Sequence[Step], only: Sequence[str]) -> list[Step]:
    if not only:
        return list(steps)
    selected = [step for step in steps if step.run_id.startswith(tuple(only))]
    for name in only:
        if not any(step.run_id.startswith(name) for step in selected):
            raise InputError(f"No step of this plan is called {name!r}; --dry-run lists them.")
    return selected


def undecoded(steps: Sequence[Step]) -> tuple[str, ...]:
    """The datasets of steps, inputs included, that were never decoded on this machine."""
    specs = [getattr(step, "data", None) for step in plan(steps)]
    return tuple(dict.fromkeys(spec.base for spec in specs if spec is not None and not spec.is_decoded))


def _check_networks(steps: Iterable[Step]) -> None:
    """Refuse networks of ``steps`` that do not fit their data, such as a width below what the inputs need.

    Networks are built without memory for their weights. Those of a user's own code are not built, nor are those for
    data that is not on this machine or was never decoded.
    """
    trainings = [step for step in steps if isinstance(step, Train) and ":" not in step.model.name]
    distinct = {(_shaped(step.data.source), str(step.model.canonical())): step for step in trainings}
    for (source, _), step in distinct.items():
        try:
            with sources.only_local(decoded=True):
                data = sources.load(source)
        except InputError:
            continue
        network = Architecture(
            name=step.model.name, arguments=step.model.arguments, input_shape=data.shape, classes=data.classes
        )
        try:
            with torch.device("meta"), _Unset():
                network.build()
        except InputError as refusal:
            raise InputError(f"{step.model.name} cannot be built for {step.data.source}: {refusal}") from refusal
        except (NotImplementedError, RuntimeError):  # a start that must compute with its weights
            continue


class _Unset(TorchFunctionMode):
    """Leaves random starts out: without memory they say nothing, and torch loads its compiler for them."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "trunc_normal_"):
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def _shaped(source: str) -> str:
    """The dataset with those of its variants that change the shape of the images; others cost more and tell nothing."""
    base, *variants = source.split("+")
    return "+".join([base, *(variant for variant in variants if variant.partition(":")[0] in SHAPING)])


def format_duration(seconds: float) -> str:
    """``seconds`` as text: ``0.4 s``, ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
