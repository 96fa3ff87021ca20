"""``radii train``: a dataset, a model and a method become a run."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radii.cli import settings as settings_
from radii.cli import terminal
from radii.cli.terminal import Device, Json, Plot, Seed
from radii.errors import InputError
from radii.tables import ChartSpec, Field, listing

if TYPE_CHECKING:
    from radii.runs.inputs import DataSpec
    from radii.runs.steps import Train
    from radii.runs.store import Run, Store
    from radii.training.recipes import Plan

Dataset = Annotated[str, typer.Argument(help="A name, a folder, .npz or parquet; +variant:arg may follow.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")]
Model = Annotated[str | None, typer.Option(help="A name or package.module:factory; the recipe's, else simple-convnet.")]
Method = Annotated[str | None, typer.Option(help="How to train; the recipe's, else natural.")]
RecipeName = Annotated[
    str | None, typer.Option("--recipe", help="certified, or a paper's recipe: ding-mnist, prach-lampert, …")
]
BudgetName = Annotated[
    str | None, typer.Option("--budget", help="Scale the recipe: smoke, cpu, paper (night instead, for certified).")
]
ThreatName = Annotated[
    str | None, typer.Option("--threat", help="What the recipe certified shall prove, for example l2:0.5.")
]
Preprocessing = Annotated[
    str | None, typer.Option(help="none, center or standardize, inside the model; the recipe's, else center.")
]
Config = Annotated[Path | None, typer.Option(help="TOML file of settings.")]


def train(
    dataset: Dataset,
    overrides: Overrides = None,
    model: Model = None,
    method: Method = None,
    recipe: RecipeName = None,
    budget: BudgetName = None,
    threat: ThreatName = None,
    preprocessing: Preprocessing = None,
    config: Config = None,
    checkpoint_minutes: Annotated[
        float | None, typer.Option(min=0, help="Minutes between checkpoints; a kill loses no more. Half a minute.")
    ] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard event files.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="List the network's layers before training.")] = False,
    plot: Plot = None,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = None,
) -> None:
    """Train a classifier; the same command again finds the run, and after a kill continues it.

    Settings: epochs=20 batch_size=256 optimizer.lr=0.1 augmentation.crop=4 model.width=32 …
    Under torchrun all its processes train together: torchrun --nproc-per-node 2 --no-python radii train …
    """
    from radii.runs.store import Store
    from radii.training.distributed import teamwork
    from radii.training.events import recorded

    store = Store.default(device)
    step = planned(dataset, overrides, config, (model, method, preprocessing), (recipe, budget, threat), seed, store)
    if checkpoint_minutes is not None:
        os.environ["RADII_CHECKPOINT_SECONDS"] = str(60 * checkpoint_minutes)
    if summary:
        terminal.errors.print(_layers(step))
    found = store.is_done(step)
    with teamwork() as crew, terminal.progress_shown() if crew.leads else nullcontext(), recorded(tensorboard):
        run = _together(step, store, crew.agreed) if crew.size > 1 else store.ensure(step)
        if run is None:  # this process assisted; the leading one tells
            return
    _tell(run, step, found, json, plot)


def planned(
    dataset: str,
    overrides: list[str] | None,
    config: Path | None,
    names: tuple[str | None, str | None, str | None],
    recipe: tuple[str | None, str | None, str | None],
    seed: int,
    store: Store,
) -> Train:
    """The training step that the options mean: recipe at its budget and threat, then the file, then KEY=VALUE."""
    from radii.runs.planning import data_spec, train_step
    from radii.training.recipes import laid_over, plan

    model, method, preprocessing = names
    (name, budget, threat), data = recipe, data_spec(dataset, store)
    given = settings_.parse(overrides, config)
    base: dict[str, Any] = {}
    if threat is not None and name != "certified":
        raise InputError(f"--threat belongs to --recipe certified; for others write method.threat={threat}.")
    if name is not None:
        if name == "certified":
            made = _certified(data, budget, threat, (model, method))
        else:
            made = plan(name, budget or "paper", model, method)  # type: ignore[arg-type]
        model, method, preprocessing = made.model, made.method, preprocessing or made.preprocessing
        base = made.settings
    return train_step(
        data,
        model or "simple-convnet",
        method or "natural",
        laid_over(base, given),
        preprocessing or "center",  # type: ignore[arg-type]
        seed,
    )


def _certified(data: DataSpec, budget: str | None, threat: str | None, names: tuple[str | None, str | None]) -> Plan:
    """The recipe that follows from the data; the usual threat of such data unless one is named."""
    from radii.studies.assess import usual_threat
    from radii.threat import Ball
    from radii.training.certified import certified_plan

    if any(name is not None for name in names):
        raise InputError("--recipe certified chooses the model and the method; leave --model and --method out.")
    loaded = data.load()
    ball = Ball.parse(threat) if threat is not None else usual_threat(loaded)
    return certified_plan(loaded.train, ball, budget or "cpu")  # type: ignore[arg-type]


def _layers(step: Train):  # type: ignore[no-untyped-def]
    """Layers, parameters and multiply-adds as a table."""
    from radii.models.io.bundle import Architecture
    from radii.models.summary import summary

    data = step.data.load()
    card = Architecture(
        name=step.model.name, arguments=step.model.arguments, input_shape=data.shape, classes=data.classes
    )
    found = summary(card.build(), data.shape)
    rows = [
        (row.name, row.kind, "x".join(map(str, row.output)), f"{row.parameters:,}", f"{row.multiply_adds:,}")
        for row in found.rows
    ]
    rows.append(("all", "", "", f"{found.parameters:,}", f"{found.multiply_adds:,}"))
    return terminal.table(listing(step.model.name, ("layer", "kind", "output", "parameters", "multiply-adds"), rows))


def _together(step: Train, store: Store, agreed) -> Run | None:  # type: ignore[no-untyped-def]
    """One process performs and commits the step; the others train along."""
    from radii.runs.store import Workspace
    from radii.training.distributed import team

    work = Workspace(store.root / "work" / step.run_id, store)
    if agreed(not store.is_done(step) and not store.is_finished(step)) and not team().leads:
        step.assist(work)
    return store.ensure(step) if team().leads else None


def _tell(run: Run, step: Train, found: bool, json: str | None, plot: Path | None) -> None:
    result = run.result
    rows = [
        ("train accuracy", f"{result['train_accuracy']:.2%}"),
        ("test accuracy", f"{result['test_accuracy']:.2%}"),
        ("parameters", f"{result['parameters']:,}"),
        ("seconds", f"{run.environment['seconds']:.1f}" + (" (found, not computed again)" if found else "")),
        ("run", run.id),
        ("folder", run.folder),
    ]
    title = f"{step.model.name} on {step.data.source}, {step.method.name} training"
    terminal.show(json).print(terminal.table(listing(title, ("", ""), rows)))
    terminal.write_json({"run": run.id, "folder": str(run.folder), **result}, json)
    if plot is not None:
        from radii.report.charts import save

        epochs = [
            {"epoch": row["number"] + 1, "accuracy": row[key], "split": split}
            for row in result["history"]
            for key, split in (("train_accuracy", "train, running"), ("test_accuracy", "test"))
            if row[key] is not None
        ]
        accuracy = Field("accuracy", percent=True)
        finding = f"{step.model.name} reaches {result['test_accuracy']:.1%} on test inputs"
        save(ChartSpec("curves", epochs, Field("epoch"), accuracy, "split", finding, title), plot)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(train)
