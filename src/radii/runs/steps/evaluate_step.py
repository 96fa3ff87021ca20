"""The evaluation step: what is proved of a model on points of a split, and what attacks break of the rest."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from radii.attacks import GRADIENT_FREE
from radii.attacks.caveats import Alarm, SurvivorBound
from radii.certificates.choose import choose
from radii.certificates.methods import AUTO
from radii.change import Change, Threat
from radii.change_kinds import GRID
from radii.data.dataset import Data
from radii.data.threat_on_data import threat_on
from radii.errors import InputError
from radii.evaluation.evaluate import evaluate, joined
from radii.evaluation.scores import PointTable, Scores
from radii.models.adapter import BlackBox
from radii.models.classifier import torch_device
from radii.runs.component_specs import DataSpec, choose_rows
from radii.runs.model_source import LoadedModel, ModelSource, load_model
from radii.runs.record_files import read_record, write_record
from radii.runs.step import Step, model_setup
from radii.runs.step_results import EvaluateResult
from radii.runs.store import Run, Workspace


class Evaluate(Step):
    """A classifier on points of a split: first what is proved, then what attacks break of the rest.

    With ``parts`` above 1 each part of the points is a step of its own, which
    executors spread over workers and machines; attacks treat every point
    alone, so the scores of the whole are those of its parts side by side.
    """

    kind: ClassVar[str] = "evaluate"
    Result: ClassVar[type[EvaluateResult]] = EvaluateResult
    omit_if_default: ClassVar[dict[str, Any]] = {
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
    ball: Threat
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

    @model_validator(mode="after")
    def _divisible(self) -> Evaluate:
        if self.suite == "sampled" and (self.parts > 1 or self.part):
            raise ValueError("the suite sampled draws from all points, and cannot be divided into parts")
        return self

    def canonical(self) -> dict[str, Any]:
        """As of every spec; the suite ``sampled`` is hashed under its first name, so that run ids stay the same."""
        return {**super().canonical(), "suite": "audited" if self.suite == "sampled" else self.suite}

    def inputs(self) -> tuple[Step, ...]:
        """The trainings of the models, and the parts if there are several."""
        shares = [{"parts": 1, "part": (k, self.parts)} for k in range(self.parts)] if self.parts > 1 else []
        return (*super().inputs(), *(self.model_copy(update=share) for share in shares))

    def describe(self) -> str:
        """``evaluate at linf:0.1: lenet5 by natural on mnist``."""
        return f"evaluate at {self.ball}: {self.model.label}"

    def rows(self, data: Data) -> NDArray[np.int64]:
        """The rows of the split that this step is about."""
        rows = choose_rows(data.test if self.split == "test" else data.train, self.points, self.seed)
        return rows if self.part is None else np.array_split(rows, self.part[1])[self.part[0]]

    def setup(self) -> str:
        """``…; suite standard at linf:0.1 on 1,000 points``, after the network's training."""
        split = "" if self.split == "test" else f" {self.split}"
        return f"{model_setup(self.model)}; suite {self.suite} at {self.ball} on {self.points:,}{split} points"

    def perform(self, work: Workspace) -> EvaluateResult:
        """Certify, attack what is not proved, and save the table of points."""
        data = self.data.load()
        loaded = load_model(self.model, work.store, data)
        if not loaded.has_gradients and self.suite not in (*GRADIENT_FREE, GRID):
            raise InputError(f"{loaded.name} gives no gradients: use --suite black-box.")
        device, rows = torch_device(work.store.device), self.rows(data)
        x, y = (tensor.to(device) for tensor in (data.test if self.split == "test" else data.train).tensors(rows))
        loaded.model.to(device)
        if self.parts > 1:
            runs = [Run(work.store.folder(step)) for step in self.inputs() if isinstance(step, Evaluate)]
            scores = joined([load_scores(run)[0] for run in runs], loaded.model, x, y)
            refusal = runs[0].read(EvaluateResult).no_certificate_because
        else:
            scores, refusal = self._scores(loaded, x, y, work, data)
        _save_scores(scores, rows, work.folder)
        return EvaluateResult.model_validate({**scores.summary(), "no_certificate_because": refusal})

    def _scores(
        self, loaded: LoadedModel, x: Tensor, y: Tensor, work: Workspace, data: Data
    ) -> tuple[Scores, str | None]:
        """The scores of this step's points, and why nothing is proved, if so."""
        surrogate = None
        if self.surrogate is not None:
            surrogate = load_model(self.surrogate, work.store, data).model.to(x.device)
        ball = threat_on(self.ball, data)
        if isinstance(ball, Change):
            proof = AUTO if self.certify else None
            scores = evaluate(
                loaded.model, x, y, ball, suite=self.suite, certificate=proof, seed=self.seed, complete=self.complete
            )
            return scores, None
        readable = loaded.has_gradients or isinstance(loaded.model, BlackBox)  # linear models and trees are read
        chosen = choose(loaded.model, x, ball) if self.certify and readable else None
        certificate = None if chosen is None else chosen.certificate
        refusal = chosen.why if chosen is not None and certificate is None else None
        if self.certify and not loaded.has_gradients and certificate is None:
            refusal = f"{loaded.name} only answers; its layers cannot be bounded."
            if chosen is not None and getattr(loaded.model, "estimator", None) is not None:
                read = [why for why in chosen.refusals if why.startswith(("linear: ", "trees: "))]
                refusal = " ".join([refusal, *read])  # why its numbers were not read
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


POINTS = "points.safetensors"


@dataclass(frozen=True, kw_only=True)
class _ScoreFile(PointTable):
    """The columns of the points side by side with the fields of their :class:`Scores`, as the file names them."""

    rows: NDArray[np.int64]
    x_adv: NDArray[np.float32]
    ball: Threat
    suite: str
    seed: int
    passes: dict[str, int]
    certificate_method: str | None
    notes: tuple[str, ...]
    alarms: tuple[Alarm, ...]
    survivor_bound: SurvivorBound | None
    local_lipschitz: float | None


def _save_scores(scores: Scores, rows: NDArray[np.int64], folder: Path) -> None:
    """Write the scores of an evaluation into the folder of its run; ``rows`` of the split are its points."""
    points, own = vars(scores.points), {name: value for name, value in vars(scores).items() if name != "points"}
    write_record(folder / POINTS, _ScoreFile(**points, **own | {"rows": rows, "x_adv": scores.x_adv.cpu().numpy()}))


def load_scores(run: Run) -> tuple[Scores, NDArray[np.int64]]:
    """The scores of an evaluation run and the rows of the split that they are about."""
    stored = vars(read_record(run.folder / POINTS, _ScoreFile))
    points = PointTable(**{field.name: stored[field.name] for field in fields(PointTable)})
    own = {field.name: stored[field.name] for field in fields(Scores) if field.name != "points"}
    return Scores(points=points, **own | {"x_adv": torch.from_numpy(stored["x_adv"])}), stored["rows"]
