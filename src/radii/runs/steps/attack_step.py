"""The attack step: one attack on points of a test split."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field, field_validator
from torch import Tensor

from radii.attacks.by_name import attack, attack_by_name
from radii.evaluation.accuracy import accuracy
from radii.models.classifier import predict, usable
from radii.models.io.tensor_files import read_tensors, write_tensors
from radii.registry import is_import_path
from radii.runs.inputs import DataSpec, ball_on, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.step import Step
from radii.runs.store import Workspace
from radii.threat import Ball

INPUTS = "adversarial.safetensors"  # x_adv, label, broken, rows


class AttackStep(Step):
    """One attack on class-balanced test points: an upper bound of robust accuracy, no more."""

    kind: ClassVar[str] = "attack"

    model: ModelSource
    data: DataSpec
    ball: Ball
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

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Attack the points; the inputs that the attack reached are saved beside the figures."""
        data = self.data.load()
        device, rows = usable(work.store.device), choose_rows(data.test, self.points, self.seed)
        model = load_model(self.model, work.store, data).model.to(device)
        x, y = (tensor.to(device) for tensor in data.test.tensors(rows))
        right = predict(model, x) == y
        result = attack(model, x, y, ball_on(self.ball, data), name=self.attack, seed=self.seed)
        arrays = {"x_adv": result.x_adv, "label": y, "broken": result.broken, "rows": torch.from_numpy(rows)}
        write_tensors(work.folder / INPUTS, arrays, durable=False)
        return {
            "clean": accuracy(right.cpu().numpy()).summary(),
            "unbroken": accuracy((~result.broken).cpu().numpy()).summary(),
            "broken_by_attack": int((result.broken & right).sum()),
            "passes": int(result.queries.sum()),
        }


def load_adversarial(folder: Path) -> dict[str, Tensor]:
    """The inputs of the attack run in ``folder``: ``x_adv`` [n, …], ``label``, ``broken`` and ``rows`` [n]."""
    return read_tensors(folder / INPUTS)[0]
