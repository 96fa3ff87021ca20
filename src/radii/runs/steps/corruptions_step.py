"""The corruptions step: a classifier's accuracy on test images under every common corruption."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field

from radii import progress
from radii.data.corruptions import KINDS, SEVERITIES, corrupt
from radii.errors import InputError
from radii.models.classifier import predict, torch_device
from radii.runs.component_specs import DataSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.step import Step
from radii.runs.step_results import CorruptionsResult, KindAccuracy
from radii.runs.store import Workspace


class Corruptions(Step):
    """Accuracy on class-balanced test images under each kind of corruption at each severity."""

    kind: ClassVar[str] = "corruptions"
    Result: ClassVar[type[CorruptionsResult]] = CorruptionsResult

    model: ModelSource
    data: DataSpec
    points: int = Field(1000, ge=1, description="class-balanced choice from the test split; all if it has fewer")
    seed: int = 0

    def describe(self) -> str:
        """``corruptions of mnist: lenet5 by natural on mnist``."""
        return f"corruptions of {self.data.source}: {self.model.label}"

    def perform(self, work: Workspace) -> CorruptionsResult:
        """Count the correct answers; every classifier meets the same corrupted images."""
        data = self.data.load()
        if not data.test.is_image:
            raise InputError(f"Corruptions are for images, and {data.name} has features.")
        device, rows = torch_device(work.store.device), choose_rows(data.test, self.points, self.seed)
        model = load_model(self.model, work.store, data).model.to(device)
        x, y = data.test.tensors(rows)
        clean = int((predict(model, x.to(device)).cpu() == y).sum())
        kinds = []
        with progress.task("corruptions", total=len(KINDS), unit="kinds") as task:
            for name in KINDS:
                made = (torch.from_numpy(corrupt(x.numpy(), (name, k))) for k in range(1, SEVERITIES + 1))
                correct = tuple(int((predict(model, one.to(device)).cpu() == y).sum()) for one in made)
                kinds.append(KindAccuracy(kind=name, correct=correct))
                task.advance(1)
        return CorruptionsResult(points=len(rows), clean=clean, kinds=tuple(kinds))
