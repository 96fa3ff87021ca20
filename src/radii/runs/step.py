"""A step: a piece of work as a frozen spec that contains its inputs as specs.

A step's identity is its meaning: kind, revision and every field that can
change the result. Studies that need the same training share it with no code
for it, because it has the same hash.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from radii.runs.store import Workspace
from radii.spec import Spec


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
