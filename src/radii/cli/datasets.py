"""``radii datasets``: what is on this machine and on the hub; or what radii understands of one dataset."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from radii.cli import terminal
from radii.cli.options import Json
from radii.tables import listing


def datasets(
    dataset: Annotated[
        str | None, typer.Argument(metavar="[DATASET]", help="Describe this one: its splits, classes, shape, faults.")
    ] = None,
    json: Json = None,
) -> None:
    """List datasets that a name reaches, or describe one: radii datasets photos+resize:64."""
    if dataset is not None:
        _describe(dataset, json)
        return
    from radii.data import cache, sources

    entries = sources.listing()
    terminal.write_json({"cache": str(cache.folder()), "datasets": [asdict(entry) for entry in entries]}, json)
    rows = [
        (entry.name, entry.contents, entry.where, f"{entry.megabytes:,.0f} MB", "yes" if entry.decoded else "no")
        for entry in entries
    ]
    columns = ("dataset", "contents", "where", "size", "decoded")
    terminal.show(json).print(terminal.table(listing("Datasets", columns, rows)))


def _describe(dataset: str, json: str | None) -> None:
    from radii.data.description import describe

    with terminal.progress_shown():
        described = describe(dataset)
    console = terminal.show(json)
    console.print(terminal.table(described.table()))
    for sentence in described.sentences():
        console.print(escape(sentence), soft_wrap=True)
    terminal.write_json(described.summary(), json)
