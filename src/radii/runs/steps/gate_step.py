"""The gate step: requirements on a model, decided on as few test points as the error rates allow."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from radii.errors import InputError
from radii.evaluation.gate import gate
from radii.evaluation.gate_result import Former, GateResult, Rates
from radii.evaluation.requirement import Requirement
from radii.models.classifier import usable
from radii.runs.inputs import DataSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.step import Step
from radii.runs.store import Workspace
from radii.spec import Spec, read_json


class FormerGate(Spec):
    """The JSON result of a former gate, identified by its content."""

    unhashed: ClassVar[frozenset[str]] = frozenset({"path"})

    path: str
    sha256: str

    @classmethod
    def of(cls, path: Path) -> FormerGate:
        """The file at ``path``.

        Raises:
            InputError: it cannot be read or is not of a gate.
        """
        GateResult.of(read_json(path, "the result of a gate"), str(path))
        return cls(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())

    def load(self, data: DataSpec, suite: str) -> Former:
        """Its outcomes.

        Raises:
            InputError: it is about other data or other attacks, or has changed.
        """
        path = Path(self.path)
        content = read_json(path, "the result of a gate")
        if hashlib.sha256(path.read_bytes()).hexdigest() != self.sha256:
            raise InputError(f"{path} has changed since this gate was planned; give the command again.")
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

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Measure points until every requirement is decided."""
        data = self.data.load()
        loaded = load_model(self.model, work.store, data)
        asked = [Requirement.parse(text) for text in self.requirements]
        if not loaded.has_gradients and self.suite != "black-box" and any(item.measure == "robust" for item in asked):
            raise InputError(f"{loaded.name} gives no gradients: use --suite black-box.")
        if loaded.architecture is not None and loaded.architecture.box is None:
            asked = [item.without_box() for item in asked]
        loaded.model.to(usable(work.store.device))
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
        setup = {
            "model": self.model.label,
            "model_hash": self.model.content_hash(),
            "dataset": self.data.source,
            "test_digest": self.data.test,
            "suite": self.suite,
            "seed": self.seed,
            "against": None if self.against is None else self.against.sha256,
        }
        return {**result.to_dict(), "setup": setup}
