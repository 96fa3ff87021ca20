"""The proof step: what bounds prove of a classifier on a ball, and what PGD leaves of the rest."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field

from radii.attacks.pgd import PGD
from radii.certificates.bounds.bounded import Bounded
from radii.certificates.bounds.lower_margins import Method
from radii.evaluation.accuracy import accuracy
from radii.models.classifier import predict
from radii.runs.inputs import DataSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.step import Effort, Step
from radii.runs.steps.train_step import Train
from radii.runs.store import Workspace
from radii.threat import Ball


class Prove(Step):
    """Any bounded classifier on test points: what bounds prove in a ball, and what PGD-40 leaves of the rest."""

    kind: ClassVar[str] = "prove"

    model: ModelSource
    data: DataSpec
    ball: Ball
    method: Method = Field("crown-ibp", description="the last of the methods tried, cheapest first")
    points: int = Field(10_000, ge=1, description="class-balanced choice from the test split; all if it has fewer")
    seed: int = 0

    def describe(self) -> str:
        """``prove at linf:0.3: wong-kolter by interval-bounds on mnist``."""
        return f"prove at {self.ball}: {self.model.label}"

    def effort(self) -> Effort:
        """The points."""
        if not isinstance(self.model, Train):
            return super().effort()
        proof = (self.model.model.canonical(), self.method)
        return Effort.of("prove", (*proof, self.data.base), proof, amount=float(self.points))

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Prove right answers, then attack those that are not proved."""
        data = self.data.load()
        model = load_model(self.model, work.store, data).model
        x, y = data.test.tensors(choose_rows(data.test, self.points, self.seed))
        right = predict(model, x) == y
        rows, proved = torch.nonzero(right)[:, 0], torch.zeros_like(right)
        proved[rows] = Bounded(model, data.shape).proves(x[rows], y[rows], self.ball, self.method)
        left = torch.nonzero(right & ~proved)[:, 0]
        unbroken = proved.clone()
        if len(left):
            generator = torch.Generator().manual_seed(self.seed)
            unbroken[left] = ~PGD(40, 0.1)(model, x[left], y[left], self.ball, generator).broken
        shares = {"clean": right, "proved": proved, "unbroken": unbroken}
        return {name: accuracy(share.numpy()).summary() for name, share in shares.items()}
