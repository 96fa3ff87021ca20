"""What a gate finds, as a typed record: its answers and what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import InstanceOf, model_serializer, model_validator

from radii.evaluation.gate_result import GateResult
from radii.runs.step_results import Record, StepResult


class GateSetup(Record):
    """What a gate was about; ``against`` is the sha256 of the former result that it was compared with."""

    model: str
    model_hash: str
    dataset: str
    test_digest: str
    suite: str
    seed: int
    against: str | None


class GateStepResult(StepResult):
    """The answers of a gate and its setup; in the file they stand side by side."""

    gate: InstanceOf[GateResult]
    setup: GateSetup

    @model_validator(mode="before")
    @classmethod
    def _apart(cls, content: Any) -> Any:
        if isinstance(content, Mapping) and "gate" not in content:
            return {"gate": GateResult.of(content, "this"), "setup": content.get("setup")}
        return content

    @model_serializer
    def _together(self) -> dict[str, Any]:
        return {**self.gate.to_dict(), "setup": self.setup.model_dump()}

    def headline(self) -> str:
        """``passed 2 of 3``."""
        return f"passed {sum(own.passed for own in self.gate.results)} of {len(self.gate.results)}"
