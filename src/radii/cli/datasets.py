"""`radii datasets`: what is here, where, how large; and what could be fetched. Decodes nothing, fetches nothing."""

from __future__ import annotations

from dataclasses import asdict

from radii.cli import terminal
from radii.cli.options import Json
from radii.tables import listing


def datasets(json: Json = None) -> None:
    """List the datasets of this machine and those that could be downloaded."""
    from radii.data import cache, sources

    entries = sources.listing()
    terminal.write_json({"cache": str(cache.folder()), "datasets": [asdict(entry) for entry in entries]}, json)
    rows = [
        (entry.name, entry.contents, entry.where, f"{entry.megabytes:,.0f} MB", "yes" if entry.decoded else "no")
        for entry in entries
    ]
    columns = ("dataset", "contents", "where", "size", "decoded")
    terminal.show(json).print(terminal.table(listing("Datasets", columns, rows)))
