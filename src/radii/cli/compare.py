"""``radii compare``: evaluation runs side by side, with paired differences on the same points."""

from __future__ import annotations

from typing import Annotated

import typer

from radii.cli import options, terminal


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN …", help="Evaluations; the first is the base.")],
    store: options.StoreFolder = None,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Compare evaluations of several models on the points they share: shares, paired differences, chance."""
    from radii.runs.comparison import compare as compare_

    folder = options.open_store(store)
    found = compare_([folder.find(name) for name in runs])
    console = terminal.show(json)
    console.print(terminal.table(found.table()))
    console.print(terminal.table(found.difference_table()))
    console.print(found.difference_table().note)
    terminal.write_json(found.to_dict(), json)
    if plot is not None:
        from radii.evaluation.scores import curve_chart

        terminal.draw(curve_chart(found.scores, f"{len(found.scores)} models on {found.dataset}", "model"), plot)
