"""The attack step: one attack on points of a test split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator

from radii.attacks.by_name import attack, attack_by_name
from radii.change import Change
from radii.data.threat_on_data import attack_threat_on
from radii.evaluation.accuracy import accuracy
from radii.evaluation.feature_changes import RowChange, smallest_changes
from radii.models.classifier import predict, torch_device
from radii.registry import is_import_path
from radii.runs.component_specs import DataSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.record_files import read_record, write_record
from radii.runs.step import Step
from radii.runs.step_results import AttackStepResult
from radii.runs.store import Run, Workspace
from radii.sparse_threat import AttackThreat, Sparse
from radii.threat import Ball

INPUTS = "adversarial.safetensors"


@dataclass(frozen=True)
class AdversarialInputs:
    """The inputs that an attack reached.

    Attributes:
        x_adv: inputs in the ball [n, …].
        label: their labels [n].
        broken: which are misclassified [n].
        rows: of the test split [n].
    """

    x_adv: NDArray[np.float32]
    label: NDArray[np.int64]
    broken: NDArray[np.bool_]
    rows: NDArray[np.int64]


class AttackStep(Step):
    """One attack on class-balanced test points: an upper bound of robust accuracy, no more."""

    kind: ClassVar[str] = "attack"
    Result: ClassVar[type[AttackStepResult]] = AttackStepResult

    model: ModelSource
    data: DataSpec
    ball: AttackThreat
    attack: str = "apgd-ce"
    points: int = Field(1000, ge=1, description="class-balanced choice from the test split; all if it has fewer")
    seed: int = 0

    @field_validator("attack")
    @classmethod
    def _known(cls, name: str) -> str:
        if not is_import_path(name):  # what a file names is not imported while it is only read
            attack_by_name(name)
        return name

    def describe(self) -> str:
        """``attack by apgd-ce at linf:0.1: lenet5 by natural on mnist``."""
        return f"attack by {self.attack} at {self.ball}: {self.model.label}"

    def perform(self, work: Workspace) -> AttackStepResult:
        """Attack the points; the inputs that the attack reached are saved beside the figures."""
        data = self.data.load()
        threat = attack_threat_on(self.ball, data)
        device, rows = torch_device(work.store.device), choose_rows(data.test, self.points, self.seed)
        model = load_model(self.model, work.store, data).model.to(device)
        x, y = (tensor.to(device) for tensor in data.test.tensors(rows))
        right = predict(model, x) == y
        result = attack(model, x, y, threat, name=self.attack, seed=self.seed)
        x_adv, label, broken = (tensor.cpu().numpy() for tensor in (result.x_adv, y, result.broken))
        write_record(work.folder / INPUTS, AdversarialInputs(x_adv, label, broken, rows))
        return AttackStepResult(
            clean=accuracy(right.cpu().numpy()),
            unbroken=accuracy(~broken),
            broken_by_attack=int((result.broken & right).sum()),
            passes=int(result.queries.sum()),
        )


def smallest_change(run: Run, step: AttackStep) -> tuple[RowChange, Ball | Sparse, str] | None:
    """Of a run on a table: the smallest change that broke a point, its ball, and what the point is."""
    data = step.data.load()
    if data.test.is_image or isinstance(step.ball, Change):
        return None
    inputs, ball = read_record(run.folder / INPUTS, AdversarialInputs), attack_threat_on(step.ball, data)
    assert not isinstance(ball, Change), "a change has no rows of features"
    x, _ = data.test.tensors(inputs.rows)
    names = () if data.test.rules is None else data.test.rules.names
    changes = smallest_changes(x, torch.from_numpy(inputs.x_adv), inputs.broken, ball, names)
    if not changes:
        return None
    (change,) = changes
    row, label = int(inputs.rows[change.point]), data.classes[int(inputs.label[change.point])]
    return replace(change, point=row), ball, f"of the test split, {label}"
