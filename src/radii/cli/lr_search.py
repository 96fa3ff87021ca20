"""``radii lr-search``: the learning rate that is best on a held-out part of the training data."""

from __future__ import annotations

from typing import Annotated

import typer

from radii.cli import options, terminal
from radii.cli.train import Config, Method, Model, Overrides, Preprocessing, RecipeName, training
from radii.tables import ChartSpec, Field, listing


def lr_search(
    dataset: options.DatasetName,
    overrides: Overrides = None,
    model: Model = None,
    method: Method = None,
    recipe: RecipeName = None,
    budget: options.OptionalBudget = None,
    threat: options.OptionalThreat = None,
    preprocessing: Preprocessing = None,
    config: Config = None,
    trials: Annotated[int, typer.Option(help="Learning rates to try.", callback=options.between(1, 10_000))] = 16,
    low: Annotated[float, typer.Option(help="The smallest rate.", callback=options.between(1e-12, 1e6))] = 1e-3,
    high: Annotated[float, typer.Option(help="The largest rate.", callback=options.between(1e-12, 1e6))] = 10.0,
    validation: Annotated[
        float, typer.Option(help="Share of the training split held out.", callback=options.between(0.01, 0.9))
    ] = 0.1,
    workers: options.Workers = None,
    store: options.StoreFolder = None,
    plot: options.Plot = None,
    seed: options.Seed = 0,
    json: options.Json = None,
) -> None:
    """Search the learning rate, log-uniformly; the test split is not touched.

    Every trial is a run of its own: a killed search continues where it stopped.
    The defaults are those of Prach & Lampert 2025: 16 rates from 0.001 to 10.
    """
    folder = options.open_store(store)
    template = training(
        dataset, overrides, config, folder, model=model, method=method, recipe=recipe, budget=budget,
        threat=threat, preprocessing=preprocessing, seed=seed,
    )  # fmt: skip
    from radii.runs.rate_search import draw_rates, search_rates

    rates = draw_rates(trials, low, high, seed)
    with terminal.progress_shown():
        search = search_rates(template, rates, validation=validation, store=folder, workers=workers)
    best = search.best
    shown = [
        (
            f"{trial.lr:g}" + (" ← best" if trial is best else ""),
            "diverged" if trial.validation_accuracy is None else f"{trial.validation_accuracy:.2%}",
            "" if trial.train_accuracy is None else f"{trial.train_accuracy:.2%}",
            trial.run or "",
        )
        for trial in search.trials
    ]
    title = f"{template.model.name} on {dataset}, {template.method.name} training"
    terminal.show(json).print(terminal.table(listing(title, ("learning rate", "validation", "train", "run"), shown)))
    terminal.write_json({"best": best.lr, "trials": search.rows()}, json)
    if plot is not None:
        rows = [row for row in search.rows() if row["validation_accuracy"] is not None]
        chart = ChartSpec(
            "points",
            rows,
            Field("lr", "learning rate", log=True),
            Field("validation_accuracy", percent=True),
            title=f"Learning rate {best.lr:g} reaches {best.validation_accuracy:.1%} on held-out points",
            note=title,
        )
        terminal.draw(chart, plot)
