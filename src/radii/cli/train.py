"""``radii train``: a dataset, a model and a method become a run."""

from __future__ import annotations

import os
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radii.cli import options, terminal
from radii.errors import InputError
from radii.spec import read_toml
from radii.tables import listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from radii.cli.fitted_table import FittedTable
    from radii.runs.steps import Train
    from radii.runs.store import Run, Store

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings of training and model, see above.")
]
Model = Annotated[str | None, typer.Option(help="A name or package.module:factory; the recipe's, else simple-convnet.")]
Method = Annotated[str | None, typer.Option(help="How to train; the recipe's, else natural.")]
RecipeName = Annotated[
    str | None, typer.Option("--recipe", help="certified, or a paper's recipe: ding-mnist, prach-lampert, …")
]
Preprocessing = Annotated[
    str | None, typer.Option(help="none, center or standardize, inside the model; the recipe's, else center.")
]
Extra = Annotated[
    str | None,
    typer.Option(metavar="DATASET", help="More training points: another dataset or file; extra_share=0.7 of a batch."),
]
Config = Annotated[Path | None, typer.Option(help="TOML file of settings.")]


def train(
    dataset: options.DatasetName,
    overrides: Overrides = None,
    model: Model = None,
    method: Method = None,
    recipe: RecipeName = None,
    budget: options.OptionalBudget = None,
    threat: options.OptionalThreat = None,
    preprocessing: Preprocessing = None,
    extra: Extra = None,
    config: Config = None,
    checkpoint_minutes: Annotated[
        float | None, typer.Option(min=0, help="Minutes between checkpoints; a kill loses no more. Default: 0.5.")
    ] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard event files.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="List the network's layers before training.")] = False,
    store: options.StoreFolder = None,
    plot: options.Plot = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    json: options.Json = None,
) -> None:
    """Train a classifier; the same command again finds the run, and after a kill continues it.

    Settings: epochs=20 batch_size=256 optimizer.lr=0.1 augmentation.crop=4 model.width=32 …
    Under torchrun all its processes train together: torchrun --nproc-per-node 2 --no-python radii train …
    """
    from radii.training.distributed import teamwork
    from radii.training.events import recorded

    folder = options.open_store(store, device)
    step = training(
        dataset, overrides, config, folder, model=model, method=method, recipe=recipe, budget=budget,
        threat=threat, preprocessing=preprocessing, seed=seed, extra=extra,
    )  # fmt: skip
    if checkpoint_minutes is not None:
        os.environ["RADII_CHECKPOINT_SECONDS"] = str(60 * checkpoint_minutes)
    if summary:
        terminal.errors.print(_layers(step))
    with teamwork() as crew, terminal.progress_shown() if crew.leads else nullcontext(), recorded(tensorboard):
        if crew.size > 1 and not _assist(step, folder, crew.agreed):
            return  # this process assisted; the leading one prints
        run, seconds = terminal.compute(step, folder)
    _print(run, seconds, json, plot)


def training(
    dataset: str,
    overrides: list[str] | None,
    config: Path | None,
    store: Store,
    *,
    model: str | None,
    method: str | None,
    recipe: str | None,
    budget: str | None,
    threat: str | None,
    preprocessing: str | None,
    seed: int,
    extra: str | None = None,
) -> Train:
    """The training step that the options mean: recipe at its budget and threat, then the file, then KEY=VALUE.

    Args:
        dataset: as the user names it.
        overrides: KEY=VALUE words.
        config: TOML file of settings.
        store: where a dataset in memory would be written.
        model: ``--model``; the recipe's by default.
        method: ``--method``; the recipe's by default.
        recipe: ``--recipe``.
        budget: ``--budget``, for a recipe.
        threat: ``--threat``, for the recipe ``certified``.
        preprocessing: ``--preprocessing``; the recipe's by default.
        seed: the seed of every random stream.
        extra: ``--extra``, a dataset of more training points.

    Raises:
        InputError: a name or setting is not known, or options do not go together.
    """
    from radii.runs.planning import data_spec, named_training
    from radii.threat import Ball

    if threat is not None and recipe != "certified":
        raise InputError(f"--threat belongs to --recipe certified; for others write method.threat={threat}.")
    data = data_spec(dataset, store)
    ball = None if threat is None else Ball.parse(threat)
    if recipe == "certified" and ball is None:
        from radii.studies.usual_threats import usual_threat

        ball = usual_threat(data.load()).ball
    return named_training(
        data,
        model,
        method,
        recipe=recipe,
        budget=budget,  # type: ignore[arg-type]  # checked by the recipe
        threat=ball,
        settings=parse_settings(overrides, config),
        preprocessing=preprocessing,  # type: ignore[arg-type]  # checked by the step
        seed=seed,
        extra=None if extra is None else data_spec(extra, store),
    )


def parse_settings(words: list[str] | None, config: Path | None = None) -> dict[str, Any]:
    """Settings as nested dictionaries.

    Args:
        words: such as ``model.width=32``, laid over the file. A value is read as TOML (a number, true, "text",
            [a list]); anything else is text.
        config: a TOML file.

    Raises:
        InputError: a word is not KEY=VALUE, or the file cannot be read.
    """
    settings = read_toml(config, "settings file") if config is not None else {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError(f"Setting {word!r} is not understood: write KEY=VALUE, for example optimizer.lr=0.1.")
        _assign(settings, key, _value(value))
    return settings


def _assign(settings: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        settings = settings.setdefault(part, {})
        if not isinstance(settings, dict):
            raise InputError(f"Setting {key!r}: {part!r} has a value already and cannot have parts.")
    settings[last] = value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):  # not TOML, or too many digits or brackets
        return text


def _layers(step: Train) -> FittedTable:
    """Layers, parameters and multiply-adds as a table."""
    from radii.models.summary import summary

    data = step.data.load()
    network = summary(step.architecture(data).build(), data.shape)
    return terminal.table(network.table(step.model.name))


def _assist(step: Train, store: Store, agreed: Callable[[bool], bool]) -> bool:
    """Under torchrun all processes but one train along; True in the one that performs and commits the step."""
    from radii.runs.store import Workspace
    from radii.training.distributed import team

    work = Workspace(store.root / "work" / step.run_id, store)
    if agreed(not store.is_done(step) and not store.is_finished(step)) and not team().leads:
        step.assist(work)
    return team().leads


def _print(run: Run, seconds: str, json: str | None, plot: Path | None) -> None:
    """The table of a training, its JSON and its chart."""
    from radii.runs.steps.train_step import Fit

    fit = Fit.of(run)
    rows = [
        ("train accuracy", f"{fit.train_accuracy:.2%}"),
        ("test accuracy", f"{fit.test_accuracy:.2%}"),
        ("parameters", f"{fit.parameters:,}"),
        ("seconds", seconds),
        ("run", run.id),
        ("folder", run.folder),
    ]
    terminal.show(json).print(terminal.table(listing(fit.title, ("", ""), rows)))
    terminal.write_json({"run": run.id, "folder": str(run.folder), **run.result}, json)
    if plot is not None:
        terminal.draw(fit.chart(), plot)
