"""A step: a piece of work as a frozen spec that contains its inputs as specs.

A step's identity is its meaning: kind, revision and every field that can
change the result. Studies that need the same training share it with no code
for it, because it has the same hash.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from radii.errors import InputError, unknown_name
from radii.registry import Registry
from radii.runs.component_specs import DataSpec
from radii.runs.step_results import StepResult
from radii.runs.store import Workspace
from radii.spec import Spec, explain

STEPS = Registry(
    "step",
    {
        "train": "radii.runs.steps.train_step:Train",
        "audit": "radii.runs.steps.audit_step:AuditStep",
        "evaluate": "radii.runs.steps.evaluate_step:Evaluate",
        "attack": "radii.runs.steps.attack_step:AttackStep",
        "corruptions": "radii.runs.steps.corruptions_step:Corruptions",
        "certify": "radii.runs.steps.certify_step:Certify",
        "gate": "radii.runs.steps.gate_step:Gate",
        "prove": "radii.runs.steps.prove_step:Prove",
        "verify": "radii.runs.steps.verify_step:Verify",
    },
)
# Where a step's Result can be had without loading the step, and torch with it; else it is taken from the step.
RECORDS = Registry(
    "record",
    {
        "train": "radii.runs.step_results:TrainResult",
        "audit": "radii.runs.audit_record:AuditResult",
        "evaluate": "radii.runs.step_results:EvaluateResult",
        "attack": "radii.runs.step_results:AttackStepResult",
        "corruptions": "radii.runs.step_results:CorruptionsResult",
        "certify": "radii.runs.step_results:CertifyResult",
        "gate": "radii.runs._gate_record:GateStepResult",
        "prove": "radii.runs.step_results:ProveResult",
        "verify": "radii.runs.step_results:VerifyResult",
    },
)


class Step(Spec):
    """A piece of work. ``revision`` is raised when the code's meaning changes.

    ``Result`` is the record that :meth:`perform` returns: a frozen subclass of
    :class:`~radii.runs.step_results.StepResult`. The store writes it to ``result.json``, and ``run.read(Result)`` and
    ``run.result`` give an equal one back. Arrays are no part of it: a step writes them into files beside
    (:mod:`radii.runs.record_files`). Results are not hashed, so a record may grow: a field added later needs a
    default, which older runs have.
    """

    kind: ClassVar[str]
    Result: ClassVar[type[StepResult]]
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

    def setup(self) -> str:
        """The step with all that its figures depend on, in words; tables and claims print it."""
        fields = ", ".join(f"{name} {_worded(getattr(self, name))}" for name in type(self).model_fields)
        return f"{self.kind}: {fields}"

    @abstractmethod
    def perform(self, work: Workspace) -> StepResult:
        """Do the work in ``work.folder``; the record that is returned, a :attr:`Result`, becomes ``result.json``."""


def _worded(value: Any) -> str:
    """A field of a step: data by its source, a step that it needs by its setup."""
    if isinstance(value, DataSpec):
        return value.source
    return f"({value.setup()})" if isinstance(value, Step) else str(value)


def model_setup(model: Any) -> str:
    """How the network that a step is about came to be: its training, or the label of a user's own."""
    return model.setup() if isinstance(model, Step) else str(model.label)


def result_type(kind: str) -> type[StepResult]:
    """The record of a ``kind`` of steps."""
    record: type[StepResult] = RECORDS.entry(kind) if kind in RECORDS else STEPS.entry(kind).Result
    return record


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
    """The step that :meth:`Step.to_json` wrote, on this machine or another."""
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
