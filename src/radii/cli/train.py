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
    from collections.abc import Callable, Mapping

    from radii.cli.terminal import FittedTable
    from radii.runs.steps import Train
    from radii.runs.steps.train_step import Fit
    from radii.runs.store import Run, Store
    from radii.training.history import Watched

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings of training and model, see above.")
]
Model = Annotated[
    str | None,
    typer.Option(
        help="A name or package.module:factory; the recipe's, else simple-convnet.",
        callback=options.registered("radii.models:MODELS"),
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="How to train; the recipe's, else natural.",
        callback=options.registered("radii.training.objectives:METHODS"),
    ),
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="standard, robust, certified, or a recipe of an installed package.",
        callback=options.check_recipe_name,
    ),
]
Preprocessing = Annotated[
    str | None,
    typer.Option(
        help="none, center or standardize, inside the model; the recipe's, else center.",
        callback=options.one_of("none", "center", "standardize"),
    ),
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
        float | None,
        typer.Option(
            help="Minutes between checkpoints; a kill loses no more. Default: 0.5.",
            callback=options.between(0, options.LONGEST_SECONDS),
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND:PLACE", help="Loss and accuracy of every step: tensorboard:FOLDER or csv:FILE."),
    ] = None,
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
    folder = options.open_store(store, device)
    step = training(
        dataset, overrides, config, folder, model=model, method=method, recipe=recipe, budget=budget,
        threat=threat, preprocessing=preprocessing, seed=seed, extra=extra,
    )  # fmt: skip
    from radii.runs.steps.train_step import Fit
    from radii.training.distributed import process_group
    from radii.training.logs import logged_to, open_log

    if checkpoint_minutes is not None:
        os.environ["RADII_CHECKPOINT_SECONDS"] = str(60 * checkpoint_minutes)
    if summary:
        terminal.errors.print(_layers(step))
    with (
        process_group() as group,
        terminal.progress_shown() if group.is_main_process else nullcontext(),
        logged_to(*[open_log(place) for place in log or ()] if group.is_main_process else ()),
    ):
        if group.size > 1 and not _join(step, folder, group.agreed):
            return  # this process assisted; the leading one prints
        run, seconds = terminal.compute(step, folder)
    _print(Fit.of(step, run), run, seconds, json, plot)


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
        model: ``--model``; the recipe's by default.
        method: ``--method``; the recipe's by default.
        threat: ``--threat``, for radii's own recipes.
        preprocessing: ``--preprocessing``; the recipe's by default.
    """
    from radii.training.recipes import RULES

    by_rule = recipe is not None and recipe in RULES
    if threat is not None and not by_rule:
        raise InputError(
            f"--threat belongs to --recipe standard, robust and certified; for others write method.threat={threat}."
        )
    settings = _parse_settings(overrides, config)
    _check_settings(settings)
    from radii.runs.planning import data_spec, named_training
    from radii.threat import Ball

    data = data_spec(dataset, store)
    ball = None if threat is None else Ball.parse(threat)
    if by_rule and recipe != "standard" and ball is None:
        from radii.studies.assessment_defaults import usual_threat

        ball = usual_threat(data.load()).ball
    return named_training(
        data,
        model,
        method,
        recipe=recipe,
        budget=budget,  # type: ignore[arg-type]  # checked by the recipe
        threat=ball,
        settings=settings,
        preprocessing=preprocessing,  # type: ignore[arg-type]  # checked by the step
        seed=seed,
        extra=None if extra is None else data_spec(extra, store),
    )


def _parse_settings(words: list[str] | None, config: Path | None = None) -> dict[str, Any]:
    """Settings as nested dictionaries.

    Args:
        words: such as ``model.width=32``, laid over the file. A value is read as TOML (a number, true, "text",
            [a list]); anything else is text.
    """
    settings = read_toml(config, "settings file") if config is not None else {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError(f"Setting {word!r} is not understood: write KEY=VALUE, for example optimizer.lr=0.1.")
        _assign(settings, key, _value(value))
    return settings


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse what is surely wrong before torch is loaded: values of a wrong kind, names that are nearly a setting's.

    Another name may be an argument of a model or a method; what several values are together, a recipe may change.
    """
    from pydantic import ValidationError

    from radii.spec import explain, nearest_setting, setting_names
    from radii.training.schedule import Recipe

    known = setting_names(Recipe)
    try:
        Recipe.model_validate({key: value for key, value in settings.items() if key not in ("model", "method")})
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            name = ".".join(str(part) for part in fault["loc"])
            unknown = fault["type"] == "extra_forbidden" and nearest_setting(name, known, cutoff=0.75) is None
            if unknown or fault["type"] == "value_error":
                return
        raise explain(error, "training settings", known) from None


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


def _join(step: Train, store: Store, agreed: Callable[[bool], bool]) -> bool:
    """Under torchrun all processes but one train along; True in the one that performs and commits the step."""
    from radii.runs.store import Workspace
    from radii.training.distributed import current_group

    work = Workspace(store.root / "work" / step.run_id, store)
    if agreed(not store.is_done(step) and not store.is_finished(step)) and not current_group().is_main_process:
        step.join(work)
    return current_group().is_main_process


def _watched(look: Watched) -> str:
    """What the last look at held-out training points says of catastrophic overfitting."""
    shares = f"{look.single:.1%} right after the training's attack, {look.several:.1%} after several steps"
    words = "the single step was fitted, several steps took its place" if look.overfits else "no sign of overfitting"
    return f"{look.points}: {shares}; {words}"


def _print(fit: Fit, run: Run, seconds: str, json: str | None, plot: Path | None) -> None:
    """The table of a training, its JSON and its chart."""
    rows = [
        ("train accuracy", f"{fit.result.train_accuracy:.2%}"),
        ("test accuracy", f"{fit.result.test_accuracy:.2%}"),
        *([("held-out points", _watched(fit.result.watched[-1]))] if fit.result.watched else []),
        ("parameters", f"{fit.result.parameters:,}"),
        ("seconds", seconds),
        ("run", run.id),
        ("folder", run.folder),
    ]
    terminal.show(json).print(terminal.table(listing(fit.title, ("", ""), rows)))
    terminal.write_json({"run": run.id, "folder": str(run.folder), **fit.result.to_json()}, json)
    if plot is not None:
        terminal.draw(fit.chart(), plot)
