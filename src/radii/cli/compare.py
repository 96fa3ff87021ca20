"""``radii compare``: evaluation runs side by side, with paired differences on the same points."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from radii.cli import options, terminal


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN …", help="Evaluations; the first is the base.")],
    store: options.StoreFolder = None,
    json: options.Json = None,
    plot: options.Plot = None,
    html: options.Html = None,
    markdown: options.Markdown = None,
) -> None:
    """Compare evaluations of several models on the points they share: shares, paired differences, chance."""
    terminal.check_one_stdout(json, markdown)
    folder = options.open_store(store)
    chosen = [folder.find(name) for name in runs]
    from radii.runs.comparison import compare_runs

    found = compare_runs(chosen)
    console = terminal.show("-" if markdown == "-" else json)
    console.print(terminal.table(found.table()))
    console.print(terminal.table(found.difference_table()))
    console.print(found.difference_table().note, soft_wrap=True)
    for warning in found.warnings:
        console.print(escape(f"Warning: {warning}"), soft_wrap=True)
    terminal.write_json(found.to_dict(), json)
    if plot is not None:
        from radii.evaluation.curves import curve_chart

        terminal.draw(curve_chart(found.scores, f"{len(found.scores)} models on {found.dataset}", "model"), plot)
    if html is not None:
        from radii.report.comparison_page import page
        from radii.report.html import write

        write(page(found), html)
        console.print(f"page: {escape(str(html))}", soft_wrap=True)
    if markdown is not None:
        from radii.report.comparison_page import comment

        terminal.write_plain(comment(found), markdown)
