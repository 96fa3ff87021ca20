"""A step in words: which network, how it was trained, on what, and what is measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radii.runs.inputs import DataSpec
from radii.runs.step import Step
from radii.runs.steps import AuditStep, Certify, Evaluate, Prove, Train
from radii.spec import Spec


def describe(step: Spec) -> str:
    """A step in words.

    >>> data = DataSpec(source="digits", train="", test="")
    >>> describe(AuditStep(data=data, norm="linf", epsilon=0.1))
    'digits in linf, epsilon 0.1'
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
            split = "" if step.split == "test" else f" {step.split}"
            return f"{describe(step.model)}; suite {step.suite} at {step.ball} on {step.points:,}{split} points"
        case Prove():
            return f"{describe(step.model)}; proved by {step.method} at {step.ball} on {step.points:,} points"
        case AuditStep():
            return f"{step.data.source} in {step.norm}, epsilon {step.epsilon:g}"
        case Step():
            kind = step.kind
        case _:
            return str(getattr(step, "label", ""))
    fields = {name: getattr(step, name) for name in type(step).model_fields}
    return f"{kind}: {', '.join(f'{name} {_worded(value)}' for name, value in fields.items())}"


def _worded(value: Any) -> str:
    """A field of a step: data by its source, a step that it needs in words."""
    if isinstance(value, DataSpec):
        return value.source
    return f"({describe(value)})" if isinstance(value, Step) else str(value)


def _listed(arguments: Mapping[str, Any]) -> str:
    """Arguments in parentheses, without those that are not given."""
    given = [f"{key} {value}" for key, value in arguments.items() if value not in (None, "")]
    return f" ({', '.join(given)})" if given else ""
