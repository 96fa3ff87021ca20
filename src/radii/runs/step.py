"""A step: a piece of work as a frozen spec that contains its inputs as specs.

A step's identity is its meaning: kind, revision and every field that can
change the result. Studies that need the same training share it with no code
for it, because it has the same hash.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ValidationError

from radii.errors import InputError, unknown_name
from radii.registry import Registry
from radii.runs.inputs import DataSpec
from radii.runs.store import Workspace
from radii.spec import Spec, explain

STEPS = Registry(
    "step",
    {
        "train": "radii.runs.steps.train_step:Train",
        "audit": "radii.runs.steps.audit_step:AuditStep",
        "evaluate": "radii.runs.steps.evaluate_step:Evaluate",
        "attack": "radii.runs.steps.attack_step:AttackStep",
        "certify": "radii.runs.steps.certify_step:Certify",
        "gate": "radii.runs.steps.gate_step:Gate",
        "prove": "radii.runs.steps.prove_step:Prove",
        "theory": "radii.papers.paper_steps:Theory",
        "formula": "radii.papers.paper_steps:Formula",
        "volume": "radii.papers.paper_steps:MeasureVolume",
        "interclass": "radii.papers.paper_steps:MeasureInterclassDistance",
        "spectrum": "radii.papers.paper_steps:MeasureSpectrum",
        "one-dimension": "radii.papers.one_dimension:OneDimension",
        "nearby-accuracy": "radii.papers.nearby_accuracy:NearbyAccuracy",
        "neighbor-distances": "radii.papers.paper_steps:MeasureNeighborDistances",
    },
)


@dataclass(frozen=True)
class Effort:
    """How much work a step is, to estimate its time from steps like it.

    ``keys`` identify comparable steps, the most specific key first; the time
    of comparable steps is proportional to ``amount`` (optimizer steps, points).
    """

    keys: tuple[str, ...]
    amount: float

    @classmethod
    def of(cls, kind: str, *levels: object, amount: float = 1.0) -> Effort:
        """The effort of a step.

        Args:
            kind: of the step.
            levels: JSON data that identifies comparable steps, the most specific first.
            amount: work in units that time is proportional to.
        """
        texts = (json.dumps([kind, level], sort_keys=True, default=str) for level in levels)
        return cls(tuple(hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts), amount)


class Step(Spec):
    """A piece of work. ``revision`` is raised when the code's meaning changes."""

    kind: ClassVar[str]
    revision: ClassVar[int] = 1

    @property
    def run_id(self) -> str:
        """The name of this step's run."""
        return f"{self.kind}-{self.content_hash()}"

    def canonical(self) -> dict[str, Any]:
        """As for every spec, with the kind and revision."""
        return {"step": self.kind, "revision": self.revision, **super().canonical()}

    def to_json(self) -> dict[str, Any]:
        """What another process needs to do this step."""
        return {"step": self.kind, "revision": self.revision, "spec": self.model_dump(mode="json")}

    def inputs(self) -> tuple[Step, ...]:
        """Steps that must be committed before this one."""
        return tuple(value for name in type(self).model_fields if isinstance(value := getattr(self, name), Step))

    def describe(self) -> str:
        """The step in a few words: ``train lenet5 by adversarial on mnist+smooth:3``."""
        data = getattr(self, "data", None)
        subject = data.source if isinstance(data, DataSpec) else getattr(self, "name", "")
        return f"{self.kind} {subject}".strip()

    def effort(self) -> Effort:
        """What the time of this step depends on; by default everything but its seed."""
        return Effort.of(self.kind, {**self.canonical(), "seed": None})

    @abstractmethod
    def perform(self, work: Workspace) -> dict[str, Any]:
        """Do the work in ``work.folder``; the returned JSON becomes ``result.json``."""


def plan(steps: Sequence[Step]) -> list[Step]:
    """All steps and their inputs, each once, inputs first."""
    ordered: dict[str, Step] = {}

    def add(step: Step) -> None:
        for needed in step.inputs():
            add(needed)
        ordered.setdefault(step.run_id, step)

    for step in steps:
        add(step)
    return list(ordered.values())


def from_json(content: dict[str, Any]) -> Step:
    """The step that :meth:`Step.to_json` wrote, on this machine or another.

    Args:
        content: the JSON data: kind, revision and fields.

    Raises:
        InputError: the kind is unknown, its revision is another, or a field is not valid.
    """
    kind = content.get("step")
    if not isinstance(kind, str) or kind not in STEPS:
        raise unknown_name("step", str(kind), STEPS)
    known: type[Step] = STEPS.entry(kind)
    if content.get("revision") != known.revision:
        raise InputError(
            f"This {kind} step has revision {content.get('revision')}, this version of radii has "
            f"{known.revision}: its meaning has changed, plan it again."
        )
    try:
        return known.model_validate(content.get("spec"))
    except ValidationError as error:
        raise explain(error, f"{kind} step") from error
    except TypeError as error:  # a field of a spec with its own constructor, as Ball has, is missing
        raise InputError(f"{kind} step: {error}.") from error
