"""``radii doctor``: will an evaluation of this model on this data mean something, and how long will it take?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from radii.cli import options, terminal

if TYPE_CHECKING:
    from radii.evaluation.doctor import Diagnosis
    from radii.runs.store import Store


def doctor(
    model: options.ModelName,
    dataset: options.DatasetName,
    threat: options.OptionalThreat = None,
    weights: options.Weights = None,
    interface: options.ModelInterface = options.PLAIN,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    json: options.Json = None,
) -> None:
    """Check a model and its data on a few points, in about ten seconds; exit code 1 if something is wrong."""
    folder = options.open_store(store, device)
    with terminal.progress_shown():
        diagnosis = _examine(folder, model, dataset, threat, (weights, interface, seed))
    console = terminal.show(json)
    console.print(terminal.table(diagnosis.table(f"{model} on {dataset}")))
    for remedy in diagnosis.remedies:
        console.print(escape(remedy))
    terminal.write_json(diagnosis.summary() | {"model": model, "dataset": dataset}, json)
    if not diagnosis.passed:
        raise typer.Exit(1)


def _examine(
    store: Store,
    model: str,
    dataset: str,
    threat: str | None,
    choice: tuple[Path | None, options.ModelInterface, int],
) -> Diagnosis:
    """The findings; a model that cannot be used with the data is one of them."""
    from radii.data.threat_on_data import ball_on
    from radii.errors import InputError
    from radii.evaluation.doctor import POINTS, Diagnosis, examined, refused
    from radii.models.classifier import torch_device
    from radii.runs.component_specs import DataSpec, choose_rows
    from radii.runs.model_source import load_model
    from radii.studies.assessment_defaults import usual_threat
    from radii.threat import Ball

    spec = DataSpec.of(dataset)
    data = spec.load()
    ball = usual_threat(data).ball if threat is None else Ball.parse(threat)
    weights, interface, seed = choice
    device = torch_device(store.device)
    x, y = (tensor.to(device) for tensor in data.test.tensors(choose_rows(data.test, POINTS, seed)))
    try:
        own = load_model(options.open_model(model, store, spec, interface, weights), store, data).model.to(device)
    except InputError as refusal:
        return Diagnosis((refused("model", refusal),))
    return examined(own, x, y, ball_on(ball, data), seed, len(data.test))
