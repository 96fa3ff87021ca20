"""The steps there are: train a classifier, audit data, evaluate by attack, certify on both splits, prove by bounds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field, ValidationError, model_validator
from torch import nn

from radii.attacks.pgd import PGD
from radii.certificates import lipschitz
from radii.certificates.bounds.bounded import Bounded
from radii.certificates.bounds.lower_margins import Method
from radii.certificates.choose import choose
from radii.data.dataset import Data, balanced_order
from radii.environment import checkpoint_seconds
from radii.errors import InputError, unknown_name
from radii.evaluation.accuracy import accuracy
from radii.evaluation.evaluate import evaluate, joined
from radii.geometry.audit import audit
from radii.models.classifier import predict, usable
from radii.models.io.bundle import Architecture, initialised, load_bundle, parameters, save_bundle
from radii.models.io.tensor_files import write_tensors
from radii.models.lipschitz.network_bound import lipschitz_bound
from radii.registry import Registry
from radii.runs.inputs import Component, DataSpec
from radii.runs.score_files import load_scores, save_scores
from radii.runs.step import Step
from radii.runs.store import Run, Workspace
from radii.spec import explain
from radii.threat import Ball, Norm
from radii.training.loop import History, Recipe, accuracy_on, train
from radii.training.objectives import METHODS
from radii.training.preprocessing import Preprocessing, statistics
from radii.training.rate_trials import held_out


class Train(Step):
    """A classifier trained on a dataset's train split; its run folder is a model bundle."""

    kind: ClassVar[str] = "train"
    neutral: ClassVar[dict[str, Any]] = {"validation": 0.0}

    data: DataSpec
    model: Component
    method: Component
    recipe: Recipe = Recipe()
    preprocessing: Preprocessing = "center"
    seed: int = 0
    validation: float = Field(0.0, ge=0, lt=1, description="share of the train split held out as the test split")

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Train, save the bundle, report accuracies and the history."""
        model, architecture, data, history = self._fitted(work)
        save_bundle(work.folder, model, architecture)
        return {
            "train_accuracy": accuracy_on(model, data.train),
            "test_accuracy": accuracy_on(model, data.test),
            "parameters": parameters(model),
            "history": history.rows(),
        }

    def assist(self, work: Workspace) -> None:
        """Train along with the process that performs this step, under torchrun; it alone writes."""
        self._fitted(work)

    def _fitted(self, work: Workspace) -> tuple[nn.Module, Architecture, Data, History]:
        data = self.data.load()
        if self.validation:
            data = held_out(data, self.validation, self.seed)
        mean, std = statistics(data.train, self.preprocessing)
        architecture = Architecture(
            name=self.model.name,
            arguments=self.model.arguments,
            input_shape=data.shape,
            classes=data.classes,
            mean=mean,
            std=std,
            box=data.train.box,
        )
        model = initialised(architecture, self.seed).to(usable(work.store.device))
        objective = METHODS.make(self.method.name, **METHODS.arguments(self.method.name, self.method.arguments))
        history = train(
            model,
            data.train,
            objective,
            self.recipe,
            seed=self.seed,
            test=data.test,
            checkpoint=work.checkpoint,
            checkpoint_seconds=checkpoint_seconds(),
        )
        return model, architecture, data, history


class Audit(Step):
    """What the data itself allows: separation of the classes, label noise, the nearest-neighbor rule."""

    kind: ClassVar[str] = "audit"

    data: DataSpec
    norm: Norm = "l2"
    epsilon: float = Field(0.5, gt=0)

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Audit both splits; distances of all points go beside the figures."""
        data = self.data.load()
        found = audit(data, norm=self.norm, epsilon=self.epsilon)
        arrays = {"train": torch.from_numpy(found.train.distance)}
        if found.test is not None:
            arrays["test"] = torch.from_numpy(found.test.distance)
        write_tensors(work.folder / "distances.safetensors", arrays)
        return found.summary()


class Evaluate(Step):
    """A trained classifier on test points: what is proved first, what breaks the rest after.

    With ``parts`` above 1 each part of the points is a step of its own, which
    executors spread over workers and machines; attacks treat every point
    alone, so the scores of the whole are those of its parts side by side.
    """

    kind: ClassVar[str] = "evaluate"
    neutral: ClassVar[dict[str, Any]] = {"minimum_norm": True, "parts": 1, "part": None}

    model: Train
    data: DataSpec
    ball: Ball
    suite: str = "standard"
    points: int = Field(1000, ge=1, description="class-balanced choice from the test split; all if it has fewer")
    seed: int = 0
    minimum_norm: bool = Field(True, description="measure every point's broken radius, too")
    parts: int = Field(1, ge=1, description="steps among which the points are divided")
    part: tuple[int, int] | None = Field(None, description="only the k-th of so many parts, counted from 0")

    @model_validator(mode="after")
    def _divisible(self) -> Evaluate:
        if self.suite == "audited" and (self.parts > 1 or self.part):
            raise ValueError("the audited suite samples from all points, and cannot be divided into parts")
        return self

    def inputs(self) -> tuple[Step, ...]:
        """The training, and the parts if there are several."""
        shares = [{"parts": 1, "part": (k, self.parts)} for k in range(self.parts)] if self.parts > 1 else []
        return (self.model, *(self.model_copy(update=share) for share in shares))

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Certify, attack what is not proved, and save the table of points."""
        data = self.data.load()
        model, architecture = load_bundle(work.store.folder(self.model), trust={self.model.model.name})
        rows = np.sort(balanced_order(data.test.y, self.seed)[: self.points])
        if self.part is not None:
            rows = np.array_split(rows, self.part[1])[self.part[0]]
        x, y = data.test.tensors(rows)
        if self.parts > 1:
            done = [Run(work.store.folder(step)) for step in self.inputs()[1:]]
            scores = joined([load_scores(run)[0] for run in done], model, x, y)
            refusal = done[0].result["no_certificate_because"]
        else:
            ball = self.ball if architecture.box is not None else self.ball.model_copy(update={"box": None})
            chosen = choose(model, x, ball)
            certificate, refusal = chosen.certificate, None if chosen.certificate else " ".join(chosen.refusals)
            scores = evaluate(
                model,
                x,
                y,
                ball,
                suite=self.suite,
                certificate=certificate,
                seed=self.seed,
                radii=None if self.minimum_norm else False,
                alarms=self.part is None,
            )
        save_scores(scores, rows, work.folder / "points.safetensors")
        return {
            "test_accuracy": scores.clean.value,
            "robust_accuracy_at_least": scores.robust.proved.value,
            "robust_accuracy_at_most": scores.robust.unbroken.value,
            "no_certificate_because": refusal,
            **scores.summary(),
        }


class Certify(Step):
    """A 1-Lipschitz classifier on points of its splits: clean and certified accuracy at several L2 radii.

    No attack: what training curves over data size need, at a fraction of an
    evaluation's cost. A network without a proved Lipschitz bound is refused.
    """

    kind: ClassVar[str] = "certify"

    model: Train
    data: DataSpec
    radii: tuple[float, ...]
    points: int = Field(2000, ge=1, description="class-balanced choice from each split; all if it has fewer")
    seed: int = 0

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Prove every layer's norm once, then certify points of both splits."""
        data = self.data.load()
        model, _ = load_bundle(work.store.folder(self.model), trust={self.model.model.name})
        bound = lipschitz_bound(model, data.shape)
        found: dict[str, Any] = {"lipschitz": bound.value, "radii": list(self.radii)}
        for name, split in (("train", data.train), ("test", data.test)):
            x, y = split.tensors(np.sort(balanced_order(split.y, self.seed)[: self.points]))
            certificate = lipschitz.certify(model, x, bound)
            right = certificate.prediction == y
            found[name] = {
                "clean": accuracy(right.numpy()).summary(),
                "certified": [accuracy((right & (certificate.radius >= r)).numpy()).summary() for r in self.radii],
            }
        return found


class Prove(Step):
    """Any bounded classifier on test points: what bounds prove in a ball, and what PGD-40 leaves of the rest."""

    kind: ClassVar[str] = "prove"

    model: Train
    data: DataSpec
    ball: Ball
    method: Method = Field("crown-ibp", description="the last of the methods tried, cheapest first")
    points: int = Field(10_000, ge=1, description="class-balanced choice from the test split; all if it has fewer")
    seed: int = 0

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Prove right answers, then attack those that are not proved."""
        data = self.data.load()
        model, _ = load_bundle(work.store.folder(self.model), trust={self.model.model.name})
        x, y = data.test.tensors(np.sort(balanced_order(data.test.y, self.seed)[: self.points]))
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


STEPS = Registry(
    "step",
    {
        **{step.kind: f"{__name__}:{step.__name__}" for step in (Train, Audit, Evaluate, Certify, Prove)},
        "theory": "radii.papers.paper_steps:Theory",
        "formula": "radii.papers.paper_steps:Formula",
        "volume": "radii.papers.paper_steps:MeasureVolume",
        "interclass": "radii.papers.paper_steps:MeasureInterclassDistance",
        "spectrum": "radii.papers.paper_steps:MeasureSpectrum",
        "neighbor-distances": "radii.papers.paper_steps:MeasureNeighborDistances",
    },
)


def from_json(content: dict[str, Any]) -> Step:
    """The step that :meth:`Step.to_json` wrote down, here or on another machine."""
    kind = content.get("step")
    if not isinstance(kind, str) or kind not in STEPS:
        raise unknown_name("step", str(kind), STEPS)
    known: type[Step] = STEPS.entry(kind)
    if content.get("revision") != known.revision:
        raise InputError(
            f"This {kind} step has revision {content.get('revision')}, this version of radii has "
            f"{known.revision}: its meaning has changed, plan it again."
        )
    try:
        return known.model_validate(content.get("spec"))
    except ValidationError as error:
        raise explain(error, f"{kind} step") from error
    except TypeError as error:  # a field of a spec with its own constructor, as Ball has, is missing
        raise InputError(f"{kind} step: {error}.") from error
