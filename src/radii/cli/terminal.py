"""What people see in a terminal: tables on stdout, progress and complaints on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from radii import progress
from radii.atomic import check_chart, write_whole
from radii.tables import Table

Json = Annotated[str | None, typer.Option("--json", metavar="PATH|-", help="Write the result as JSON; - is stdout.")]


def _drawable(path: Path | None) -> Path | None:
    """A name that no chart can have is refused before the command works for hours."""
    if path is not None:
        check_chart(path)
    return path


Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg, .pdf or .html.", callback=_drawable)
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random stream.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.")]

errors = Console(stderr=True, highlight=False)


def complain(message: str) -> None:
    """One sentence on stderr."""
    errors.print(f"[bold red]radii:[/] {escape(message)}", soft_wrap=True)


def show(json_target: str | None = None) -> Console:
    """Where tables go: stdout, unless stdout carries the JSON."""
    return Console(stderr=json_target == "-", highlight=False)


def table(numbers: Table) -> RichTable:
    """A table whose first column reads left and whose others align right."""
    shown = RichTable(title=escape(numbers.title), title_justify="left", header_style="bold")
    for number, heading in enumerate(numbers.headings):
        shown.add_column(escape(heading), justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in numbers.cells:
        shown.add_row(*(escape(cell) for cell in row))
    return shown


def write_json(result: Any, target: str | None) -> None:
    """``result`` to a file, or to stdout for ``-``; written whole or not at all."""
    if target is None:
        return
    text = json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(target), text.encode())


def progress_shown() -> AbstractContextManager[None]:
    """Show the library's progress as bars on stderr (plain silence where stderr is no terminal)."""
    return progress.display(RichDisplay())


class RichTask:
    """One bar."""

    def __init__(self, bars: Progress, number: Any) -> None:
        self._bars, self._number = bars, number

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Move the bar and say ``note`` beside it."""
        self._bars.update(self._number, advance=amount, note=escape(note))


class RichDisplay:
    """Progress bars on stderr; satisfies :class:`radii.progress.Display`."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,  # a log gets no bars, and no empty lines for them
        )
        self._open = 0

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[RichTask]:
        """A bar that goes when its work is done."""
        if self._open == 0:
            self._bars.start()
        self._open += 1
        number = self._bars.add_task(escape(what), total=total, unit=unit, note="")
        try:
            yield RichTask(self._bars, number)
        finally:
            self._bars.remove_task(number)
            self._open -= 1
            if self._open == 0:
                self._bars.stop()
