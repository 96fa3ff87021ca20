"""The training step: a dataset, a model and a method become a model bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field
from torch import nn

from radii.data.dataset import Data, Preprocessing, balanced_order, statistics
from radii.errors import InputError
from radii.models.classifier import torch_device
from radii.models.io.bundle import Architecture, initialize, parameters, save_bundle
from radii.runs.component_specs import Component, DataSpec
from radii.runs.step import Step
from radii.runs.step_results import TrainResult
from radii.runs.store import Run, Workspace
from radii.tables import ChartSpec, Row, plain
from radii.tables import Field as Column
from radii.training.schedule import Recipe

if TYPE_CHECKING:
    from radii.training.history import History

EPOCH, ACCURACY = Column("epoch"), Column("accuracy", percent=True)


class Train(Step):
    """A classifier trained on a dataset's train split; its run folder is a model bundle."""

    kind: ClassVar[str] = "train"
    Result: ClassVar[type[TrainResult]] = TrainResult
    omit_if_default: ClassVar[dict[str, Any]] = {"validation": 0.0, "extra": None}

    data: DataSpec
    model: Component
    method: Component
    recipe: Recipe = Recipe()
    preprocessing: Preprocessing = "center"
    seed: int = 0
    validation: float = Field(0.0, ge=0, lt=1, description="share of the train split held out as the test split")
    extra: DataSpec | None = Field(None, description="more training points: the train split of another dataset")

    def describe(self) -> str:
        """``train lenet5 by adversarial on mnist+smooth:3, seed 1``."""
        return f"train {self.label}"

    @property
    def label(self) -> str:
        """The trained model in a few words."""
        seed = f", seed {self.seed}" if self.seed else ""
        extra = f" and {self.extra.source}" if self.extra is not None else ""
        return f"{self.model.name} by {self.method.name} on {self.data.source}{extra}{seed}"

    def setup(self) -> str:
        """``lenet5 (widen 0.25) trained by natural on mnist, 2 epochs, batches of 128``."""
        length = f"{self.recipe.steps:,} steps" if self.recipe.steps else f"{self.recipe.epochs:g} epochs"
        return (
            f"{self.model.name}{_listed(self.model.arguments)} trained by {self.method.name}"
            f"{_listed(self.method.arguments)} on {self.data.source}, {length}, batches of {self.recipe.batch_size}"
        )

    def perform(self, work: Workspace) -> TrainResult:
        """Train, save the bundle, report accuracies and the history."""
        from radii.training.loop import accuracy_on

        model, architecture, data, history = self._fit(work)
        save_bundle(work.folder, model, architecture, durable=False)
        return TrainResult(
            train_accuracy=accuracy_on(model, data.train),
            test_accuracy=accuracy_on(model, data.test),
            parameters=parameters(model),
            history=history.epochs,
            watched=history.watched,
        )

    def join(self, work: Workspace) -> None:
        """Train along with the process that performs this step, under torchrun; only that process writes."""
        self._fit(work)

    def architecture(self, data: Data) -> Architecture:
        """What to build for ``data``: the network with its preprocessing."""
        mean, std = statistics(data.train, self.preprocessing)
        return Architecture(
            name=self.model.name,
            arguments=self.model.arguments,
            input_shape=data.shape,
            classes=data.classes,
            mean=mean,
            std=std,
            box=data.train.box,
        )

    def _fit(self, work: Workspace) -> tuple[nn.Module, Architecture, Data, History]:
        from radii.process import checkpoint_seconds
        from radii.training.loop import train
        from radii.training.objectives import METHODS

        data = self.data.load()
        if self.validation:
            data = _hold_out(data, self.validation, self.seed)
        architecture = self.architecture(data)
        model = initialize(architecture, self.seed).to(torch_device(work.store.device))
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
            extra=None if self.extra is None else self.extra.load().train,
        )
        return model, architecture, data, history


def _listed(arguments: Mapping[str, Any]) -> str:
    """Arguments in parentheses, without those that are not given."""
    given = [f"{key} {value}" for key, value in arguments.items() if value not in (None, "")]
    return f" ({', '.join(given)})" if given else ""


@dataclass(frozen=True)
class Fit:
    """A training, what it reached, and its seconds by the clock."""

    step: Train
    result: TrainResult
    seconds: float

    @classmethod
    def of(cls, step: Train, run: Run) -> Fit:
        """Of the ``run`` of ``step``."""
        return cls(step, run.read(TrainResult), run.environment["seconds"])

    @property
    def title(self) -> str:
        """``lenet5 on mnist, natural training``."""
        return f"{self.step.model.name} on {self.step.data.source}, {self.step.method.name} training"

    def accuracy_rows(self) -> list[Row]:
        """Accuracy over the epochs on both splits, where it was measured; test accuracy at least at the end."""
        history = self.result.history
        rows: list[Row] = [
            {"epoch": epoch.number + 1, "accuracy": share, "split": split}
            for epoch in history
            for share, split in ((epoch.train_accuracy, "train, running"), (epoch.test_accuracy, "test"))
            if plain(share) is not None
        ]
        if history and plain(history[-1].test_accuracy) is None:
            rows.append({"epoch": history[-1].number + 1, "accuracy": self.result.test_accuracy, "split": "test"})
        return rows

    def chart(self) -> ChartSpec:
        """Accuracy over the epochs, on both splits."""
        finding = f"{self.step.model.name} reaches {self.result.test_accuracy:.1%} on test inputs"
        return ChartSpec("curves", self.accuracy_rows(), EPOCH, ACCURACY, "split", finding, self.title)


def _hold_out(data: Data, share: float, seed: int) -> Data:
    """Divide the train split in two, class-balanced.

    Args:
        data: the dataset; its test split is dropped.
        share: the share of the train split that takes the place of the test split.
    """
    count = round(share * len(data.train))
    if not 0 < count < len(data.train):
        raise InputError(f"The validation share must leave points on both sides, got {share:g} of {len(data.train)}.")
    order = balanced_order(data.train.y, seed)
    name = f"{data.train.name} (validation)"
    return Data(data.train.take(np.sort(order[count:])), data.train.take(np.sort(order[:count]), name), data.name)
