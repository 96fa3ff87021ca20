"""The evaluation step: what is proved of a model on points of a split, and what attacks break of the rest."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from radii.attacks.suite import FORMER_NAMES
from radii.certificates.choose import choose
from radii.data.dataset import Data
from radii.errors import InputError
from radii.evaluation.evaluate import evaluate, joined
from radii.evaluation.scores import Scores
from radii.models.classifier import usable
from radii.runs.inputs import DataSpec, ball_on, choose_rows
from radii.runs.model_source import LoadedModel, ModelSource, load_model
from radii.runs.score_files import load_scores, save_scores
from radii.runs.step import Effort, Step
from radii.runs.steps.train_step import Train
from radii.runs.store import Run, Workspace
from radii.threat import Ball


class Evaluate(Step):
    """A classifier on points of a split: first what is proved, then what attacks break of the rest.

    With ``parts`` above 1 each part of the points is a step of its own, which
    executors spread over workers and machines; attacks treat every point
    alone, so the scores of the whole are those of its parts side by side.
    """

    kind: ClassVar[str] = "evaluate"
    neutral: ClassVar[dict[str, Any]] = {
        "minimum_norm": True,
        "parts": 1,
        "part": None,
        "split": "test",
        "certify": True,
        "lipschitz": False,
        "surrogate": None,
        "complete": 0.0,
    }

    model: ModelSource
    data: DataSpec
    ball: Ball
    suite: str = "standard"
    points: int = Field(1000, ge=1, description="class-balanced choice from the split; all if it has fewer")
    seed: int = 0
    minimum_norm: bool = Field(True, description="measure every point's broken radius, too")
    parts: int = Field(1, ge=1, description="steps among which the points are divided")
    part: tuple[int, int] | None = Field(None, description="only the k-th of so many parts, counted from 0")
    split: Literal["test", "train"] = "test"
    certify: bool = Field(True, description="prove what can be proved before attacking the rest")
    lipschitz: bool = Field(False, description="estimate the local Lipschitz constant, too")
    surrogate: ModelSource | None = Field(None, description="a model from which a transfer attack starts")
    complete: float = Field(0.0, ge=0, description="seconds a point of complete verification")

    @field_validator("suite")
    @classmethod
    def _current(cls, suite: str) -> str:
        return FORMER_NAMES.get(suite, suite)

    @model_validator(mode="after")
    def _divisible(self) -> Evaluate:
        if self.suite == "sampled" and (self.parts > 1 or self.part):
            raise ValueError("the suite sampled draws from all points, and cannot be divided into parts")
        return self

    def canonical(self) -> dict[str, Any]:
        """As of every spec; a suite keeps its former name there, so that hashes of stored runs stay the same."""
        former = {name: old for old, name in FORMER_NAMES.items()}
        return {**super().canonical(), "suite": former.get(self.suite, self.suite)}

    def inputs(self) -> tuple[Step, ...]:
        """The trainings of the models, and the parts if there are several."""
        shares = [{"parts": 1, "part": (k, self.parts)} for k in range(self.parts)] if self.parts > 1 else []
        return (*super().inputs(), *(self.model_copy(update=share) for share in shares))

    def describe(self) -> str:
        """``evaluate at linf:0.1: lenet5 by natural on mnist``."""
        return f"evaluate at {self.ball}: {self.model.label}"

    def effort(self) -> Effort:
        """The points."""
        training = self.model
        if not isinstance(training, Train):
            return super().effort()
        attack = (training.model.canonical(), self.suite, self.ball.norm, self.minimum_norm)
        return Effort.of("evaluate", (*attack, training.method.name, self.data.base), attack, amount=float(self.points))

    def rows(self, data: Data) -> NDArray[np.int64]:
        """The rows of the split that this step is about."""
        rows = choose_rows(data.test if self.split == "test" else data.train, self.points, self.seed)
        return rows if self.part is None else np.array_split(rows, self.part[1])[self.part[0]]

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Certify, attack what is not proved, and save the table of points."""
        data = self.data.load()
        loaded = load_model(self.model, work.store, data)
        if not loaded.has_gradients and self.suite != "black-box":
            raise InputError(f"{loaded.name} gives no gradients: use --suite black-box.")
        device, rows = usable(work.store.device), self.rows(data)
        x, y = (tensor.to(device) for tensor in (data.test if self.split == "test" else data.train).tensors(rows))
        loaded.model.to(device)
        if self.parts > 1:
            runs = [Run(work.store.folder(step)) for step in self.inputs() if isinstance(step, Evaluate)]
            scores = joined([load_scores(run)[0] for run in runs], loaded.model, x, y)
            refusal = runs[0].result["no_certificate_because"]
        else:
            scores, refusal = self._scores(loaded, x, y, work, data)
        save_scores(scores, rows, work.folder / "points.safetensors")
        return {
            "test_accuracy": scores.clean.value,
            "robust_accuracy_at_least": scores.robust.proved.value,
            "robust_accuracy_at_most": scores.robust.unbroken.value,
            "no_certificate_because": refusal,
            **scores.summary(),
        }

    def _scores(
        self, loaded: LoadedModel, x: Tensor, y: Tensor, work: Workspace, data: Data
    ) -> tuple[Scores, str | None]:
        """The scores of this step's points, and why nothing is proved, if so."""
        surrogate = None
        if self.surrogate is not None:
            surrogate = load_model(self.surrogate, work.store, data).model.to(x.device)
        ball = ball_on(self.ball, data)
        chosen = choose(loaded.model, x, ball) if self.certify and loaded.has_gradients else None
        certificate = None if chosen is None else chosen.certificate
        refusal = " ".join(chosen.refusals) if chosen is not None and certificate is None else None
        if self.certify and not loaded.has_gradients:
            refusal = f"{loaded.name} only answers; its layers cannot be bounded."
        scores = evaluate(
            loaded.model,
            x,
            y,
            ball,
            suite=self.suite,
            certificate=certificate,
            seed=self.seed,
            surrogate=surrogate,
            radii=None if self.minimum_norm else False,
            alarms=self.part is None,
            lipschitz=self.lipschitz,
            complete=self.complete,
        )
        return scores, refusal
