"""``radii assess``: from a dataset to one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from radii.cli import options, terminal


def assess(
    dataset: options.DatasetName,
    threat: options.OptionalThreat = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training data.")] = None,
    points: options.Points = 500,
    suite: options.Suite = "standard",
    forecast: Annotated[
        bool | None, typer.Option(help="What more data would bring; by default on small data only.")
    ] = None,
    complete: options.Complete = 0.0,
    workers: options.Workers = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The report, .html.", callback=options.writable)
    ] = Path("report.html"),
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    json: options.Json = None,
) -> None:
    """How robust can a classifier on this data be, and how robust are two of them? One HTML report."""
    from radii.report.assessment import page
    from radii.report.html import write
    from radii.report.observations import observations
    from radii.studies.assess import assess as assess_

    with terminal.progress_shown():
        assessment = assess_(
            dataset,
            threat,
            epochs=epochs,
            points=points,
            suite=suite,
            seed=seed,
            store=options.open_store(store),
            workers=workers,
            forecast=forecast,
            complete=complete,
        )
    report = page(assessment)
    write(report, out)
    console = terminal.show(json)
    columns = ("classifier", "clean", "proved", "unbroken", "proved_radius", "broken_radius")
    console.print(terminal.table(assessment.table().select(*columns)))
    console.print(escape(report.verdict))
    if assessment.forecast is not None:
        outlook = assessment.forecast if isinstance(assessment.forecast, str) else assessment.forecast.verdict
        console.print(escape(f"What more data would bring: {outlook}"), soft_wrap=True)
    console.print(f"report: {escape(str(out))}")
    terminal.write_json(assessment.summary() | {"claims": [seen.to_dict() for seen in observations(assessment)]}, json)
