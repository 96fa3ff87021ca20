"""The setup behind a verdict in one line: which network, how it was trained, on what, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from radii.budget import Budget
from radii.errors import InputError
from radii.papers.claims.judgment import Verdict
from radii.runs.inputs import DataSpec
from radii.runs.step import Step
from radii.runs.steps import AuditStep, Certify, Evaluate, Prove, Train
from radii.spec import Spec
from radii.studies.study import registered_study


def setup(verdict: Verdict) -> str:
    """The setup of the first run that a verdict was read from; empty where that is unknown.

    Args:
        verdict: of the ledger. Its run is looked up in the plan of its study, so results of an older plan have none.
    """
    if verdict.budget is None or not verdict.runs:
        return ""
    step = _steps(verdict.claim.study, verdict.budget).get(verdict.runs[0])
    return "" if step is None else describe(step)


@cache
def _steps(study: str, budget: Budget) -> Mapping[str, Step]:
    try:
        return {cell.step.run_id: cell.step for cell in registered_study(study).cells(budget)}
    except InputError:  # a plan that needs data which is not on this machine
        return {}


def describe(step: Spec) -> str:
    """A step in words.

    >>> from radii.papers.paper_steps import Formula
    >>> describe(Formula(name="uniform"))
    'formula: name uniform, seed 0'
    """
    match step:
        case Train():
            recipe = step.recipe
            length = f"{recipe.steps:,} steps" if recipe.steps else f"{recipe.epochs:g} epochs"
            return (
                f"{step.model.name}{_listed(step.model.arguments)} trained by {step.method.name}"
                f"{_listed(step.method.arguments)} on {step.data.source}, {length}, batches of {recipe.batch_size}"
            )
        case Certify():
            return f"{describe(step.model)}; certified on {step.points:,} points"
        case Evaluate():
            return f"{describe(step.model)}; suite {step.suite} at {step.ball} on {step.points:,} points"
        case Prove():
            return f"{describe(step.model)}; proved by {step.method} at {step.ball} on {step.points:,} points"
        case AuditStep():
            return f"{step.data.source} in {step.norm}, epsilon {step.epsilon:g}"
        case Step():
            kind = step.kind
        case _:
            return str(getattr(step, "label", ""))
    fields = {name: getattr(step, name) for name in type(step).model_fields}
    words = (f"{name} {value.source if isinstance(value, DataSpec) else value}" for name, value in fields.items())
    return f"{kind}: {', '.join(words)}"


def _listed(arguments: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{key} {value}' for key, value in arguments.items())})" if arguments else ""
