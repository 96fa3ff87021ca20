"""``radii board``: a leaderboard of all evaluations of a store, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from radii.cli import options, terminal
from radii.errors import InputError


def board(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="A store of runs; $RADII_RUNS or ./radii-runs by default.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The page, .html.", callback=options.own_by_default)
    ] = Path("board.html"),
    json: options.Json = None,
) -> None:
    """Write a leaderboard of all evaluations of a store; unlike ones stay apart."""
    store = options.open_store(folder)
    if folder is not None and not (folder / "runs").is_dir():
        raise InputError(f"{folder} is no store of runs: it has no folder runs.")
    from radii.report.board_page import page
    from radii.report.html import write
    from radii.runs.standings import board as board_

    found = board_(store.runs())
    if not found.contests:
        raise InputError(f"There is no evaluation in {store.root}; radii evaluate makes one.")
    console = terminal.show(json)
    for contest in found.contests:
        console.print(escape(contest.title))
        console.print(terminal.table(found.table(contest).select("model", "clean", "proved", "unbroken", "run")))
    for run, reason in found.unread.items():
        console.print(escape(f"Left out: {run}: {reason}"), soft_wrap=True)
    write(page(found, str(store.root)), out)
    console.print(f"page: {escape(str(out))}", soft_wrap=True)
    terminal.write_json(found.to_dict(), json)
