"""The proof step: what bounds prove of a classifier on a ball, and what PGD leaves of the rest."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field, field_validator

from radii.attacks.pgd import PGD
from radii.bounds.provably_robust import Bounded
from radii.certificates.methods import METHODS, check_bound_method
from radii.evaluation.accuracy import accuracy
from radii.models.classifier import predict
from radii.runs.component_specs import DataSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.step import Step, model_setup
from radii.runs.step_results import ProveResult
from radii.runs.store import Workspace
from radii.threat import Ball


class Prove(Step):
    """Any bounded classifier on test points: what bounds prove in a ball, and what PGD-40 leaves of the rest."""

    kind: ClassVar[str] = "prove"
    Result: ClassVar[type[ProveResult]] = ProveResult

    model: ModelSource
    data: DataSpec
    ball: Ball
    method: str = Field("crown-ibp", description="the last of the methods tried, cheapest first")
    points: int = Field(10_000, ge=1, description="class-balanced choice from the test split; all if it has fewer")
    seed: int = 0

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        return check_bound_method(method)

    def describe(self) -> str:
        """``prove at linf:0.3: wong-kolter by interval-bounds on mnist``."""
        return f"prove at {self.ball}: {self.model.label}"

    def setup(self) -> str:
        """``…; proved by crown-ibp at linf:0.3 on 10,000 points``, after the network's training."""
        return f"{model_setup(self.model)}; proved by {self.method} at {self.ball} on {self.points:,} points"

    def perform(self, work: Workspace) -> ProveResult:
        """Prove right answers, then attack those that are not proved."""
        data = self.data.load()
        model = load_model(self.model, work.store, data).model
        x, y = data.test.tensors(choose_rows(data.test, self.points, self.seed))
        right = predict(model, x) == y
        rows, proved = torch.nonzero(right)[:, 0], torch.zeros_like(right)
        proved[rows] = Bounded(model, data.shape).proves(x[rows], y[rows], self.ball, METHODS[self.method].attempts)
        left = torch.nonzero(right & ~proved)[:, 0]
        unbroken = proved.clone()
        if len(left):
            generator = torch.Generator().manual_seed(self.seed)
            unbroken[left] = ~PGD(40, 0.1)(model, x[left], y[left], self.ball, generator).broken
        clean, proved_share, unbroken_share = (accuracy(share.numpy()) for share in (right, proved, unbroken))
        return ProveResult(clean=clean, proved=proved_share, unbroken=unbroken_share)
