"""The training step: a dataset, a model and a method become a model bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field
from torch import nn

from radii.data.dataset import Data, Preprocessing, balanced_order, statistics
from radii.errors import InputError
from radii.models.classifier import usable
from radii.models.io.bundle import Architecture, initialize, parameters, save_bundle
from radii.runs.inputs import Component, DataSpec
from radii.runs.step import Effort, Step
from radii.runs.store import Run, Workspace
from radii.tables import ChartSpec, Row
from radii.tables import Field as Column
from radii.training.schedule import Recipe

if TYPE_CHECKING:
    from radii.training.loop import History

EPOCH, ACCURACY = Column("epoch"), Column("accuracy", percent=True)


class Train(Step):
    """A classifier trained on a dataset's train split; its run folder is a model bundle."""

    kind: ClassVar[str] = "train"
    neutral: ClassVar[dict[str, Any]] = {"validation": 0.0, "extra": None}

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

    def effort(self) -> Effort:
        """Epochs or optimizer steps. Epochs are as long as their data, optimizer steps are not."""
        recipe = self.recipe
        data = self.data.base if recipe.steps else self.data.source
        unit, amount = ("steps", recipe.steps) if recipe.steps else ("epochs", recipe.epochs)
        network = (self.model.canonical(), self.method.canonical(), recipe.batch_size, unit)
        return Effort.of("train", (*network, data), network, amount=float(amount))

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Train, save the bundle, report accuracies and the history."""
        from radii.training.loop import accuracy_on

        model, architecture, data, history = self._fit(work)
        save_bundle(work.folder, model, architecture, durable=False)
        return {
            "train_accuracy": accuracy_on(model, data.train),
            "test_accuracy": accuracy_on(model, data.test),
            "parameters": parameters(model),
            "history": history.rows(),
        }

    def assist(self, work: Workspace) -> None:
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
        from radii.environment import checkpoint_seconds
        from radii.training.loop import train
        from radii.training.objectives import METHODS

        data = self.data.load()
        if self.validation:
            data = hold_out(data, self.validation, self.seed)
        architecture = self.architecture(data)
        model = initialize(architecture, self.seed).to(usable(work.store.device))
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


@dataclass(frozen=True)
class Fit:
    """How a classifier was trained and how well it fits.

    Args:
        network: name of the architecture.
        method: name of the training method.
        data: the dataset as the user named it.
        parameters: number of trained values.
        seconds: time of the training.
        train_accuracy: on the train split, in eval mode.
        test_accuracy: on the test split.
        history: a row for each epoch: ``number``, ``loss``, ``train_accuracy``, ``test_accuracy``.
    """

    network: str
    method: str
    data: str
    parameters: int
    seconds: float
    train_accuracy: float
    test_accuracy: float
    history: tuple[Row, ...]

    @classmethod
    def of(cls, run: Run) -> Fit:
        """Read the run of a :class:`Train` step."""
        spec, result = run.spec["spec"], run.result
        return cls(
            network=spec["model"]["name"],
            method=spec["method"]["name"],
            data=spec["data"]["source"],
            parameters=result["parameters"],
            seconds=run.environment["seconds"],
            train_accuracy=result["train_accuracy"],
            test_accuracy=result["test_accuracy"],
            history=tuple(result["history"]),
        )

    @property
    def title(self) -> str:
        """``lenet5 on mnist, natural training``."""
        return f"{self.network} on {self.data}, {self.method} training"

    def chart(self) -> ChartSpec:
        """Accuracy over the epochs, on both splits."""
        rows = [
            {"epoch": row["number"] + 1, "accuracy": row[key], "split": split}
            for row in self.history
            for key, split in (("train_accuracy", "train, running"), ("test_accuracy", "test"))
            if row[key] is not None
        ]
        finding = f"{self.network} reaches {self.test_accuracy:.1%} on test inputs"
        return ChartSpec("curves", rows, EPOCH, ACCURACY, "split", finding, self.title)


def hold_out(data: Data, share: float, seed: int) -> Data:
    """Divide the train split in two, class-balanced.

    Args:
        data: the dataset; its test split is dropped.
        share: the share of the train split that takes the place of the test split.
        seed: which points these are.

    Raises:
        InputError: one of the two parts would be empty.
    """
    count = round(share * len(data.train))
    if not 0 < count < len(data.train):
        raise InputError(f"The validation share must leave points on both sides, got {share:g} of {len(data.train)}.")
    order = balanced_order(data.train.y, seed)
    name = f"{data.train.name} (validation)"
    return Data(data.train.take(np.sort(order[count:])), data.train.take(np.sort(order[:count]), name), data.name)
