"""From what a user names to the steps that compute it: ``radii.train`` and the plans of commands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from torch import nn

from radii.data.dataset import Data
from radii.models import MODELS
from radii.models.io.bundle import Architecture, load_bundle
from radii.runs.inputs import Component, DataSpec, keep
from radii.runs.steps import Train
from radii.runs.store import Run, Store
from radii.spec import explain
from radii.training.loop import Recipe
from radii.training.objectives import METHODS
from radii.training.preprocessing import Preprocessing


@dataclass(frozen=True)
class Trained:
    """A trained classifier, ready to use, and the run that holds it."""

    model: nn.Module
    architecture: Architecture
    run: Run

    @property
    def result(self) -> dict[str, Any]:
        """Accuracies and the history of the training."""
        return self.run.result


def data_spec(data: str | Data, store: Store) -> DataSpec:
    """The spec of a dataset by name, or of one in memory, which is then kept beside the runs."""
    return DataSpec.of(data) if isinstance(data, str) else keep(data, store.root / "inputs")


def train_step(
    data: DataSpec,
    model: str,
    method: str,
    settings: dict[str, Any] | None = None,
    preprocessing: Preprocessing = "center",
    seed: int = 0,
) -> Train:
    """A training with ``settings`` such as ``{"model": {"widen": 0.5}, "optimizer": {"lr": 0.1}, "epochs": 5}``."""
    rest = dict(settings or {})
    model_arguments, method_arguments = rest.pop("model", {}), rest.pop("method", {})
    try:
        return Train(
            data=data,
            model=Component.of(MODELS, model, model_arguments),
            method=Component.of(METHODS, method, method_arguments),
            recipe=Recipe.model_validate(rest),
            preprocessing=preprocessing,
            seed=seed,
        )
    except ValidationError as error:
        raise explain(error, "training settings") from error


def train(
    data: str | Data,
    model: str = "simple-convnet",
    method: str = "natural",
    settings: dict[str, Any] | None = None,
    *,
    preprocessing: Preprocessing = "center",
    seed: int = 0,
    store: Store | None = None,
) -> Trained:
    """Train a classifier, or find the one that this call trained before.

    ``data`` is a name as on the command line or a :class:`Data`.
    """
    store = store or Store.default()
    step = train_step(data_spec(data, store), model, method, settings, preprocessing, seed)
    return trained(store.ensure(step), trust={model})


def trained(run: Run, trust: Collection[str] = ()) -> Trained:
    """The classifier of a training run; ``trust`` holds the import paths that it may name."""
    model, architecture = load_bundle(run.folder, trust)
    return Trained(model, architecture, run)
