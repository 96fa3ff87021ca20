"""``radii train``: a dataset, a model and a method become a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radii.cli import settings as settings_
from radii.cli import terminal
from radii.cli.terminal import Json, Seed


def train(
    dataset: Annotated[str, typer.Argument(help="A name, a folder, .npz or parquet; +variant:arg may follow.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    model: Annotated[str, typer.Option(help="A name or package.module:factory.")] = "simple-convnet",
    method: Annotated[str, typer.Option(help="How to train.")] = "natural",
    preprocessing: Annotated[str, typer.Option(help="none, center or standardize, inside the model.")] = "center",
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Train a classifier; the same command again finds the run, and after a kill continues it.

    Settings: epochs=20 batch_size=256 optimizer.lr=0.1 augmentation.crop=4 model.width=32 …
    """
    from radii.study.planning import data_spec, train_step
    from radii.study.store import Store

    store = Store.default()
    step = train_step(data_spec(dataset, store), model, method, settings_.parse(overrides, config), preprocessing, seed)  # type: ignore[arg-type]
    found = store.is_done(step)
    with terminal.progress_shown():
        run = store.ensure(step)
    result = run.result
    rows = [
        ("train accuracy", f"{result['train_accuracy']:.2%}"),
        ("test accuracy", f"{result['test_accuracy']:.2%}"),
        ("parameters", f"{result['parameters']:,}"),
        ("seconds", f"{run.environment['seconds']:.1f}" + (" (found, not computed again)" if found else "")),
        ("run", run.id),
        ("folder", run.folder),
    ]
    terminal.show(json).print(terminal.table(f"{model} on {dataset}, {method} training", ("", ""), rows))
    terminal.write_json({"run": run.id, "folder": str(run.folder), **result}, json)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(train)
