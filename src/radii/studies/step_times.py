"""How long steps take: learned from runs that were measured, told for those to come.

A step's time is a rate times an amount: seconds for each optimizer step of a
training, for each point of an evaluation. Rates come from the same run if it
was measured elsewhere, else from steps that are alike but for their data's
variant, size and seed, else from those that share only the model and the kind
of work; where there is none, nothing is claimed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from statistics import median
from typing import Any

from radii.errors import InputError
from radii.runs.inputs import Component, DataSpec
from radii.runs.step import Step
from radii.runs.steps import Audit, Certify, Evaluate, Prove, Train, from_json
from radii.runs.store import Run, Store


@dataclass(frozen=True)
class Effort:
    """``amount`` units of work of a sort; ``likes`` name the sort, the most alike first."""

    likes: tuple[str, ...]
    amount: float


def effort(step: Step) -> Effort:
    """What the time of a step depends on."""
    match step:
        case Train():
            recipe = step.recipe
            # epochs are as long as their data, steps are not
            data = _base(step.data) if recipe.steps else step.data.source
            length = ("steps", recipe.steps) if recipe.steps else ("epochs", recipe.epochs)
            network = (_whole(step.model), _whole(step.method), recipe.batch_size, length[0])
            return Effort(_likes("train", (*network, data), network), float(length[1]))
        case Evaluate():
            attack = (_whole(step.model.model), step.suite, step.ball.norm, step.minimum_norm)
            likes = _likes("evaluate", (*attack, step.model.method.name, _base(step.data)), attack)
            return Effort(likes, float(step.points))
        case Certify():
            bounded = (_whole(step.model.model),)
            return Effort(_likes("certify", (*bounded, _base(step.data)), bounded), float(step.points))
        case Prove():
            proof = (_whole(step.model.model), step.method)
            return Effort(_likes("prove", (*proof, _base(step.data)), proof), float(step.points))
        case Audit():
            return Effort(_likes("audit", (step.data.source, step.norm)), 1.0)
        case _:
            return Effort(_likes(step.kind, {**step.canonical(), "seed": None}), 1.0)


def _base(data: DataSpec) -> str:
    return data.source.partition("+")[0]


def _whole(component: Component) -> dict[str, Any]:
    return component.canonical()


def _likes(kind: str, *levels: object) -> tuple[str, ...]:
    texts = (json.dumps([kind, level], sort_keys=True, default=str) for level in levels)
    return tuple(hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts)


class Rates:
    """Seconds per unit of work, as far as they were measured."""

    def __init__(self) -> None:
        self._runs: dict[str, float] = {}
        self._rates: dict[str, list[float]] = {}

    @classmethod
    def known(cls, store: Store) -> Rates:
        """What the store's runs and the results shipped with the package tell."""
        rates = cls()
        for content in _shipped():
            for cell in content.get("cells", ()):
                rates._runs[cell["run"]] = cell["seconds"]
            for work in content.get("work", ()):
                rates._note(work["run"], Effort(tuple(work["likes"]), work["amount"]), work["seconds"])
        for run in store.runs():
            try:
                rates.learn(from_json(run.spec), run.environment["seconds"])
            except (InputError, KeyError):  # of another version: it says nothing about this one
                continue
        return rates

    def learn(self, step: Step, seconds: float) -> None:
        """``step`` took ``seconds``."""
        self._note(step.run_id, effort(step), seconds)

    def expect(self, step: Step) -> float | None:
        """The seconds that ``step`` is expected to take; None where nothing like it was measured."""
        if step.run_id in self._runs:
            return self._runs[step.run_id]
        wanted = effort(step)
        known = [self._rates[like] for like in wanted.likes if like in self._rates]
        return median(known[0]) * wanted.amount if known else None

    def _note(self, run_id: str, spent: Effort, seconds: float) -> None:
        self._runs[run_id] = seconds
        for like in spent.likes:
            self._rates.setdefault(like, []).append(seconds / spent.amount)


def measured(steps: Iterable[Step], store: Store) -> list[dict[str, Any]]:
    """What the finished ones of ``steps`` took, to be shipped with their results."""
    rows = []
    for step in steps:
        if store.is_done(step):
            spent = effort(step)
            seconds = Run(store.folder(step)).environment["seconds"]
            rows.append({"run": step.run_id, "likes": spent.likes, "amount": spent.amount, "seconds": seconds})
    return rows


def _shipped() -> Iterable[Mapping[str, Any]]:
    folder = files("radii.papers") / "results"
    if folder.is_dir():
        yield from (json.loads(path.read_text()) for path in folder.iterdir() if path.name.endswith(".json"))
