"""The gate step: requirements on a model, decided on as few test points as the error rates allow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, field_validator

from radii.attacks import GRADIENT_FREE
from radii.data.threat_on_data import threat_on
from radii.errors import InputError
from radii.evaluation.gate import gate
from radii.evaluation.gate_result import Former, GateResult, Rates
from radii.evaluation.requirement import Requirement
from radii.models.classifier import torch_device
from radii.runs._gate_record import GateSetup, GateStepResult
from radii.runs.component_specs import DataSpec, FileSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.step import Step
from radii.runs.store import Workspace
from radii.spec import read_json
from radii.threat import Ball


class FormerGate(FileSpec):
    """The JSON result of a former gate, identified by its content."""

    @classmethod
    def of(cls, path: Path) -> Self:
        """The file at ``path``."""
        GateResult.of(read_json(path, "the result of a gate"), str(path))
        return super().of(path)

    def load(self, data: DataSpec, suite: str) -> Former:
        """Its outcomes."""
        path = self.unchanged()
        content = read_json(path, "the result of a gate")
        setup = content.get("setup")
        setup = setup if isinstance(setup, dict) else {}
        for name, ours in (("test_digest", data.test), ("suite", suite)):
            if setup.get(name) != ours:
                what = "other test points" if name == "test_digest" else f"the suite {setup.get(name)!r}"
                raise InputError(f"{path} is about {what}; it cannot be compared with this gate.")
        return Former.of(GateResult.of(content, str(path)))


class Gate(Step):
    """Requirements on a classifier over the test split, decided on points in random order."""

    kind: ClassVar[str] = "gate"
    Result: ClassVar[type[GateStepResult]] = GateStepResult

    model: ModelSource
    data: DataSpec
    requirements: tuple[str, ...] = Field(min_length=1)
    alpha: float = Field(0.05, gt=0, lt=0.5, description="false alarms at most")
    beta: float = Field(0.05, gt=0, lt=0.5, description="misses at most")
    margin: float = Field(0.05, gt=0, lt=0.5, description="zone below a floor in which either answer may come")
    suite: str = "standard"
    least: int = Field(100, ge=1, description="points to measure in any case; a later gate can compare with as many")
    points: int | None = Field(None, ge=1, description="class-balanced choice to which floors refer; all by default")
    seed: int = 0
    against: FormerGate | None = None

    @field_validator("requirements")
    @classmethod
    def _readable(cls, requirements: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(Requirement.parse(text)) for text in requirements)

    def describe(self) -> str:
        """``gate: lenet5 by natural on mnist``."""
        return f"gate: {self.model.label}"

    def perform(self, work: Workspace) -> GateStepResult:
        """Measure points until every requirement is decided."""
        data = self.data.load()
        asked = [Requirement.parse(text) for text in self.requirements]
        asked = [item if item.ball is None else replace(item, ball=threat_on(item.ball, data)) for item in asked]
        loaded = load_model(self.model, work.store, data)
        attacked = any(item.measure == "robust" for item in asked)
        if not loaded.has_gradients and self.suite not in GRADIENT_FREE and attacked:
            raise InputError(f"{loaded.name} gives no gradients: use --suite black-box.")
        if loaded.architecture is not None and loaded.architecture.box is None:
            asked = [
                replace(item, ball=item.ball.changed(box=None)) if isinstance(item.ball, Ball) else item
                for item in asked
            ]
        loaded.model.to(torch_device(work.store.device))
        result = gate(
            loaded.model,
            data.test,
            asked,
            rates=Rates(self.alpha, self.beta, self.margin),
            former=None if self.against is None else self.against.load(self.data, self.suite),
            suite=self.suite,
            least=self.least,
            rows=None if self.points is None else choose_rows(data.test, self.points, self.seed),
            seed=self.seed,
        )
        setup = GateSetup(
            model=self.model.label,
            model_hash=self.model.content_hash(),
            dataset=self.data.source,
            test_digest=self.data.test,
            suite=self.suite,
            seed=self.seed,
            against=None if self.against is None else self.against.sha256,
        )
        return GateStepResult(gate=result, setup=setup)
