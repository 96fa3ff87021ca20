"""What people see in a terminal: tables on stdout, progress and complaints on stderr.

Names of classes and files are written by strangers. Characters that steer a
terminal or turn the direction of text are shown as escapes, never sent.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment

from radii import progress
from radii.atomic import write_whole
from radii.cli.fitted_table import FittedTable
from radii.tables import ChartSpec, Table

if TYPE_CHECKING:
    from radii.runs.step import Step
    from radii.runs.store import Run, Store

# C0 and C1 controls but for tab and newline, marks of direction, line separators, tags, halves of surrogate pairs
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """``text`` with characters that steer terminals written as escapes.

    >>> clean("cat\\x1b[2Jdog")
    'cat\\\\x1b[2Jdog'
    """
    return _UNSAFE.sub(lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a file name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


class CleanConsole(Console):
    """A console whose texts are cleaned, whoever prints them; styles and bars keep their control sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As :meth:`rich.console.Console.render`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """The reader has gone (`radii … | head`): the command ends, and that is no failure."""
        raise BrokenPipeError


errors = CleanConsole(stderr=True, highlight=False, emoji=False)
_manner = {"quiet": False, "verbose": False}


def set_manner(*, quiet: bool = False, verbose: bool = False) -> None:
    """How much a command says; what was asked for before its name stays asked for.

    Args:
        quiet: no tables, notes and progress; errors are said.
        verbose: errors tell where they come from, and the library's notes are shown.
    """
    _manner["quiet"] |= quiet
    _manner["verbose"] |= verbose
    logging.getLogger("radii").setLevel(
        logging.ERROR if _manner["quiet"] else logging.INFO if _manner["verbose"] else logging.WARNING
    )


def forget_manner() -> None:
    """Back to saying what is usual, before another command in the same process."""
    _manner.update(quiet=False, verbose=False)
    logging.getLogger("radii").setLevel(logging.WARNING)


def is_verbose() -> bool:
    """Whether the user asked where errors come from."""
    return _manner["verbose"]


def complain(message: str) -> None:
    """One sentence on stderr.

    Args:
        message: the sentence.
    """
    errors.print(f"[bold red]radii:[/] {escape(message)}", soft_wrap=True)


def show(json_target: str | None = None) -> Console:
    """Where tables go: stdout, unless stdout carries the JSON.

    Args:
        json_target: what --json names; ``-`` is stdout.

    Returns:
        The console.
    """
    return CleanConsole(stderr=json_target == "-", highlight=False, emoji=False, quiet=_manner["quiet"])


def table(numbers: Table) -> FittedTable:
    """A table whose first column and words read left and whose numbers align right, as wide as the terminal allows.

    Args:
        numbers: the table to print.
    """
    return FittedTable(numbers, clean)


def draw(chart: ChartSpec, path: Path) -> None:
    """Draw ``chart`` into the file ``path``; only then the libraries for charts are loaded."""
    from radii.report.charts import save

    save(chart, path)


def write_json(result: Any, target: str | None) -> None:
    """Write a result as JSON, whole or not at all.

    Args:
        result: JSON data.
        target: a file, ``-`` for stdout, None for nowhere.
    """
    if target is None:
        return
    text = json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    encoding = (sys.stdout.encoding or "ascii") if target == "-" else "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:  # a name that is not UTF-8, or an ascii terminal: JSON has escapes for both
        text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(target), text.encode())


class ComplainHandler(logging.Handler):
    """What the library has to say beside its results, as sentences on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        complain(record.getMessage())


def prepare_streams() -> None:
    """Let stdout and stderr take any text, whatever their encoding, and show the library's warnings."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    log = logging.getLogger("radii")
    if not any(isinstance(handler, ComplainHandler) for handler in log.handlers):
        log.addHandler(ComplainHandler())
        log.propagate = False


def compute(step: Step, store: Store) -> tuple[Run, str]:
    """The step's run, computed unless the store has it.

    Args:
        step: the step.
        store: the run store.

    Returns:
        The run, and the seconds it took as text, with CPU time and whether it was computed before.
    """
    known = store.is_done(step)
    run = store.ensure(step)
    cpu = "" if run.cpu_seconds is None else f", CPU time {run.cpu_seconds:.1f}"
    return run, f"{run.environment['seconds']:.1f}{cpu}" + (" (found, not computed again)" if known else "")


def progress_shown() -> AbstractContextManager[None]:
    """Show the library's progress as bars on stderr, as plain lines some seconds apart where it is no terminal."""
    if _manner["quiet"]:
        return nullcontext()
    return progress.display(RichDisplay() if errors.is_terminal else progress.TextDisplay(errors.file, over=False))


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
