"""Trainings by name: from a dataset, a model and a method to the step that trains it, and ``radii.train``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from torch import nn

from radii.budget import Budget
from radii.data.dataset import Data, Preprocessing
from radii.errors import InputError, checked
from radii.models import MODELS
from radii.models.io.bundle import Architecture, load_bundle
from radii.runs.component_specs import Component, DataSpec
from radii.runs.component_specs import data_spec as content_spec
from radii.runs.step_results import TrainResult
from radii.runs.steps.train_step import Train
from radii.runs.store import Run, Store
from radii.spec import explain, setting_names
from radii.threat import Ball
from radii.training.logs import TrainingLog, logged_to, open_log
from radii.training.objectives import METHODS
from radii.training.recipes import RULES, Plan, deep_merge, plan
from radii.training.schedule import Recipe

MODEL, METHOD = "simple-convnet", "natural"  # what is trained unless the user says otherwise
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class TrainedModel:
    """A trained classifier, ready to use, and the run that holds it."""

    model: nn.Module
    architecture: Architecture
    run: Run

    @property
    def result(self) -> TrainResult:
        """Accuracies and the history of the training."""
        return self.run.read(TrainResult)


def data_spec(data: str | Data, store: Store) -> DataSpec:
    """The spec of a dataset."""
    return content_spec(data, store.root / "inputs")


def train_step(
    data: DataSpec,
    model: str,
    method: str,
    settings: Settings | None = None,
    preprocessing: Preprocessing = "center",
    seed: int = 0,
    extra: DataSpec | None = None,
) -> Train:
    """The training step of a model and a method by name.

    Args:
        method: how to train; a name or an import path.
        settings: KEY=VALUE settings as nested sections, for example
            ``{"model": {"widen": 0.5}, "optimizer": {"lr": 0.1}, "epochs": 5}``.
    """
    recipe = {key: value for key, value in (settings or {}).items() if key not in ("model", "method")}
    try:
        return Train(
            data=data,
            model=Component.of(MODELS, model, _section(settings, "model", "width=32")),
            method=Component.of(METHODS, method, _section(settings, "method", "threat=linf:0.1")),
            recipe=Recipe.model_validate(recipe),
            preprocessing=preprocessing,
            seed=seed,
            extra=extra,
        )
    except ValidationError as error:
        known = [*setting_names(Recipe), *(f"model.{name}" for name in MODELS.arguments(model, {}))]
        known += [f"method.{name}" for name in METHODS.arguments(method, {})]
        raise explain(error, "training settings", known) from error


def _section(settings: Settings | None, name: str, example: str) -> dict[str, Any]:
    """The settings of a model or a method."""
    section = (settings or {}).get(name, {})
    if not isinstance(section, Mapping):
        raise InputError(f"The setting {name} has parts, for example {name}.{example}; got {name}={section!r} instead.")
    return dict(section)


def named_training(
    data: DataSpec,
    model: str | None = None,
    method: str | None = None,
    *,
    recipe: str | None = None,
    budget: Budget | None = None,
    threat: Ball | None = None,
    settings: Settings | None = None,
    preprocessing: Preprocessing | None = None,
    seed: int = 0,
    extra: DataSpec | None = None,
) -> Train:
    """The training step of a recipe by name, scaled to a budget and changed by the user's own words.

    Args:
        model: a name or an import path; the recipe's by default, else ``simple-convnet``.
        method: how to train; the recipe's by default, else ``natural``.
        budget: scales the recipe; ``paper`` by default, ``cpu`` for radii's own.
        threat: of radii's own recipes.
        preprocessing: the recipe's by default, else ``center``.
    """
    sections: Settings = {}
    if recipe is not None:
        if recipe in RULES:
            scaled = _by_rule(recipe, data, budget, threat, model or method)
        else:
            scaled = plan(recipe, budget or "paper", model, method)
        model, method, preprocessing = scaled.model, scaled.method, preprocessing or scaled.preprocessing
        sections = scaled.settings
    sections = deep_merge(sections, settings or {})
    return train_step(data, model or MODEL, method or METHOD, sections, preprocessing or "center", seed, extra)


def _by_rule(recipe: str, data: DataSpec, budget: Budget | None, threat: Ball | None, name: str | None) -> Plan:
    """The recipe that follows from the data and the threat."""
    if name is not None:
        raise InputError(f"The recipe {recipe} chooses the model and the method; leave --model and --method out.")
    if threat is None and recipe != "standard":
        raise InputError(f"The recipe {recipe} needs a threat, for example l2:0.5.")
    planned: Plan = RULES.factory(recipe)(data.load().train, threat, budget or "cpu")
    return planned


@checked
def train(
    data: str | Data,
    model: str | None = None,
    method: str | None = None,
    *,
    recipe: Recipe | str | None = None,
    budget: Budget | None = None,
    threat: Ball | str | None = None,
    model_arguments: Settings | None = None,
    method_arguments: Settings | None = None,
    preprocessing: Preprocessing | None = None,
    seed: int = 0,
    store: Store | None = None,
    extra: str | Data | None = None,
    log: TrainingLog | str | None = None,
) -> TrainedModel:
    """Train a classifier, or load the one that the same call has trained before.

    Args:
        data: a name as on the command line, or a dataset in memory.
        model: a name or an import path; the recipe's by default, else ``simple-convnet``.
        method: how to train; the recipe's by default, else ``natural``.
        recipe: ``standard``, ``robust`` or ``certified``, which choose everything else; or length, batches,
            optimizer and augmentation; or the name of a paper's recipe.
        budget: scales a recipe by name; ``paper`` by default, ``cpu`` for the first three.
        threat: what ``robust`` shall withstand and ``certified`` prove, for example ``"l2:0.5"``.
        model_arguments: arguments of the model, for example ``{"width": 32}``.
        method_arguments: arguments of the method, for example ``{"threat": "linf:8/255"}``.
        preprocessing: ``none``, ``center`` or ``standardize``, inside the model; the recipe's, else ``center``.
        seed: the seed of every random stream.
        store: where the run is kept; :meth:`Store.default` by default.
        extra: more training points, as ``data``: its train split; the recipe's ``extra_share`` says how many of
            a batch.
        log: where loss and accuracy of every step go: ``tensorboard:FOLDER``, ``csv:FILE`` or a
            :class:`~radii.training.logs.TrainingLog` of your own. A run that the store has is not trained again.

    Returns:
        The model in eval mode, its architecture and its run.

    Raises:
        InputError: a name or an argument is not known, or the training diverged.
    """
    store = store or Store.default()
    settings: dict[str, Any] = {"model": dict(model_arguments or {}), "method": dict(method_arguments or {})}
    if isinstance(recipe, Recipe):
        settings |= recipe.model_dump()
    step = named_training(
        data_spec(data, store),
        model,
        method,
        recipe=recipe if isinstance(recipe, str) else None,
        budget=budget,
        threat=Ball.parse(threat) if isinstance(threat, str) else threat,
        settings=settings,
        preprocessing=preprocessing,
        seed=seed,
        extra=None if extra is None else data_spec(extra, store),
    )
    logs = () if log is None else (open_log(log) if isinstance(log, str) else log,)
    with logged_to(*logs):
        run = store.ensure(step)
    return load_trained(run, trust={step.model.name})


def load_trained(run: Run, trust: Collection[str] = ()) -> TrainedModel:
    """The classifier of a training run."""
    model, architecture = load_bundle(run.folder, trust)
    return TrainedModel(model, architecture, run)
