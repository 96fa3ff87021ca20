"""What people see in a terminal: tables on stdout, progress and complaints on stderr.

Names of classes and files are written by strangers. Characters that steer a
terminal or turn the direction of text are shown as escapes, never sent.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress import Task as ProgressTask
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from radii import progress
from radii.errors import InputError
from radii.files import write_whole
from radii.tables import ChartSpec, Table
from radii.untrusted_text import clean

if TYPE_CHECKING:
    from radii.runs.step import Step
    from radii.runs.store import Run, Store


class CleanConsole(Console):
    """A console whose texts are cleaned, whoever prints them; styles and bars keep their control sequences."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """As :meth:`rich.console.Console.print`; a terminal wraps between words, a file keeps whole lines."""
        super().print(*objects, soft_wrap=bool(soft_wrap) and not self.is_terminal, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As :meth:`rich.console.Console.render`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """The reader has gone (`radii … | head`): the command ends, and that is no failure."""
        raise BrokenPipeError


errors = CleanConsole(stderr=True, highlight=False, emoji=False)
_manner = {"quiet": False, "verbose": False}
_shown: list[Table] = []  # by this command
JSON_VERSION = 1  # of what --json writes: a key that goes or changes its meaning raises it
FOUND = " (found, not computed again)"  # behind a run that the store had


def set_verbosity(*, quiet: bool = False, verbose: bool = False) -> None:
    """How much a command says; what was asked for before its name stays asked for.

    Args:
        quiet: no tables, notes and progress; errors are said.
    """
    _manner["quiet"] |= quiet
    _manner["verbose"] |= verbose
    logging.getLogger("radii").setLevel(
        logging.ERROR if _manner["quiet"] else logging.INFO if _manner["verbose"] else logging.WARNING
    )


def reset_verbosity() -> None:
    """Back to saying what is usual, before another command in the same process."""
    _manner.update(quiet=False, verbose=False)
    _shown.clear()
    logging.getLogger("radii").setLevel(logging.WARNING)


def is_verbose() -> bool:
    """Whether the user asked where errors come from."""
    return _manner["verbose"]


def complain(message: str) -> None:
    """One sentence on stderr."""
    errors.print(f"[bold red]radii:[/] {escape(message)}", soft_wrap=True)


def show(json_target: str | None = None) -> Console:
    """Where tables go: stdout, unless stdout carries the JSON.

    Args:
        json_target: what --json names; ``-`` is stdout.
    """
    return CleanConsole(stderr=json_target == "-", highlight=False, emoji=False, quiet=_manner["quiet"])


def table(numbers: Table) -> FittedTable:
    """A table whose first column and words read left and whose numbers align right, as wide as the terminal allows."""
    _shown.append(numbers)
    return FittedTable(numbers, clean)


def write_latex(path: Path) -> None:
    """Write the tables that this command has shown as LaTeX."""
    text = "\n\n".join(["% \\usepackage{booktabs}", *(each.to_latex() for each in _shown)])
    write_whole(path, (clean(text) + "\n").encode(errors="replace"))


def draw(chart: ChartSpec, path: Path) -> None:
    """Draw ``chart`` into the file ``path``; only then the libraries for charts are loaded."""
    from radii.report.charts import save

    save(chart, path)


def write_json(content: Mapping[str, Any], target: str | None) -> None:
    """Write a result as JSON, whole or not at all; the version of its form stands first.

    Args:
        target: a file, ``-`` for stdout, None for nowhere.
    """
    if target is None:
        return
    result = {"version": JSON_VERSION, **content}
    text = json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    encoding = (sys.stdout.encoding or "ascii") if target == "-" else "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:  # a name that is not UTF-8, or an ascii terminal: JSON has escapes for both
        text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    write_plain(text, target)


def check_one_stdout(*targets: str | None) -> None:
    """Refuse several results that are to go to stdout, which would be one text that nothing reads."""
    if targets.count("-") > 1:
        raise InputError("Only one of --json - and --markdown - can have stdout.")


def write_plain(text: str, target: str) -> None:
    """Write text to a file, whole or not at all, or to stdout, which ``-`` names."""
    if target == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(target), text.encode(errors="replace"))


class _ComplainHandler(logging.Handler):
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
    if not any(isinstance(handler, _ComplainHandler) for handler in log.handlers):
        log.addHandler(_ComplainHandler())
        log.propagate = False


def compute(step: Step, store: Store) -> tuple[Run, str]:
    """The step's run, computed unless the store has it.

    Returns:
        The run, and the seconds it took as text, with CPU time and whether it was computed before.
    """
    known = store.is_done(step)
    run = store.ensure(step)
    cpu = "" if run.cpu_seconds is None else f", CPU time {run.cpu_seconds:.1f}"
    return run, f"{run.environment['seconds']:.1f}{cpu}" + (FOUND if known else "")


def progress_shown() -> AbstractContextManager[None]:
    """Show the library's progress as bars on stderr, as plain lines some seconds apart where it is no terminal."""
    if _manner["quiet"]:
        return nullcontext()
    return progress.display(RichDisplay() if errors.is_terminal else progress.TextDisplay(errors.file, over=False))


class _RichTask:
    """One bar."""

    def __init__(self, bars: Progress, number: Any) -> None:
        self._bars, self._number = bars, number

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Move the bar and say ``note`` beside it."""
        self._bars.update(self._number, advance=amount, note=escape(note))


WIDE = 120  # characters from which a line has room for everything


class _Cut(TextColumn):
    """A text that ends with … where its room does, so that bar, count and time keep theirs."""

    def __init__(self, text: str, room: int) -> None:
        super().__init__(text)
        self._room = max(1, room)

    def render(self, task: ProgressTask) -> Text:
        """The text, cut."""
        text = super().render(task)
        text.truncate(self._room, overflow="ellipsis")
        return text


class _TimeLeft(TimeRemainingColumn):
    """``0:00:32 left``."""

    def render(self, task: ProgressTask) -> Text:
        """The time, with what it is."""
        return super().render(task) + " left"


class RichDisplay:
    """Progress bars on stderr; satisfies :class:`radii.progress.Display`."""

    def __init__(self) -> None:
        wide = errors.width >= WIDE
        unit = [TextColumn("{task.fields[unit]}")] if wide else []
        self._bars = Progress(
            _Cut("{task.description}", room=60 if wide else 24),
            BarColumn(bar_width=24 if wide else 10),
            MofNCompleteColumn(),
            *unit,
            _TimeLeft(),
            _Cut("[dim]{task.fields[note]}", room=errors.width - (WIDE if wide else 66)),
            console=errors,
            transient=True,
        )
        self._open = 0

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[_RichTask]:
        """A bar that goes when its work is done."""
        if self._open == 0:
            self._bars.start()
        self._open += 1
        number = self._bars.add_task(escape(what), total=total, unit=unit, note="")
        try:
            yield _RichTask(self._bars, number)
        finally:
            self._bars.remove_task(number)
            self._open -= 1
            if self._open == 0:
                self._bars.stop()

    def say(self, sentence: str) -> None:
        """A sentence above the bars; it stays."""
        errors.print(escape(sentence))


FRAME = 3  # characters that a column takes beside its content: two spaces and a line
NAME = 16  # characters of a name that stays on one line


@dataclass(frozen=True)
class Column:
    """One column as texts.

    Attributes:
        heading: its title.
        cells: its cells.
        of_words: whether its cells read left and may wrap between words.
    """

    heading: str
    cells: tuple[str, ...]
    of_words: bool

    @property
    def width(self) -> int:
        """The width at which nothing wraps."""
        return max(cell_len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))

    @property
    def least(self) -> int:
        """The width at which no word, no short name and no number is broken."""
        lines = [line for cell in self.cells for line in cell.split("\n")]
        whole = [line for line in lines if not self.of_words or cell_len(line) <= NAME]
        words = [word for line in lines for word in line.split()] if self.of_words else []
        return max(map(cell_len, (*self.heading.split(), *whole, *words)), default=1)

    def stacked(self) -> Column:
        """The column with every interval below its value."""
        return replace(self, cells=tuple(cell.replace(" [", "\n[") for cell in self.cells))


@dataclass(frozen=True)
class FittedTable:
    """A renderable of rich: the table, in as many parts as the width needs.

    Args:
        content: the table; its texts are printed without markup.
        clean: what is done with every text before it is measured and printed, for characters that steer terminals.
    """

    content: Table
    clean: Callable[[str], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RichTable | Text]:
        columns = _columns(self.content, self.clean)
        if len(parts(columns, options.max_width)) > 1:
            columns = [column if column.of_words else column.stacked() for column in columns]
        if self.content.title:
            yield Text(self.clean(self.content.title), style="italic")
        for part in parts(columns, options.max_width):
            shown = RichTable(header_style="bold")
            chosen = [columns[k] for k in part]
            for column, width in zip(chosen, widths(chosen, options.max_width), strict=True):
                shown.add_column(
                    escape(column.heading),
                    justify="left" if column.of_words else "right",
                    width=width,
                    overflow="fold",
                )
            for row in zip(*(column.cells for column in chosen), strict=True):
                shown.add_row(*map(escape, row))
            yield shown


def parts(columns: Sequence[Column], room: int) -> list[list[int]]:
    """Which columns stand beside each other, in order.

    Args:
        room: characters of a line.

    Returns:
        The numbers of the columns of each part; every part begins with the columns that name the rows.
    """
    names = _naming(columns, room)
    found, used = [[*names]], _needed(columns, names)
    for k in range(len(names), len(columns)):
        more = columns[k].least + FRAME
        if used + more > room and len(found[-1]) > len(names):
            found.append([*names])
            used = _needed(columns, names)
        found[-1].append(k)
        used += more
    return found


def widths(columns: Sequence[Column], room: int) -> list[int]:
    """A width for each of the columns of one part.

    Args:
        room: characters of a line.

    Returns:
        At least what keeps words and numbers whole, if the line has room; what is left is shared by those that wrap.
    """
    free = room - 1 - FRAME * len(columns)
    given = [column.least for column in columns]
    while sum(given) > max(free, len(given)):  # too long for a line: words are broken before numbers
        broken = max(range(len(given)), key=lambda k: (given[k] > 1 and columns[k].of_words, given[k]))
        given[broken] -= 1
    wanted = [max(0, column.width - width) for column, width in zip(columns, given, strict=True)]
    share = min(1.0, max(0, free - sum(given)) / max(1, sum(wanted)))
    return [width + int(share * more) for width, more in zip(given, wanted, strict=True)]


def _columns(table: Table, clean: Callable[[str], str]) -> list[Column]:
    words, cells = {0, *table.words}, table.cells
    return [
        Column(clean(heading), tuple(clean(row[k]) for row in cells), k in words)
        for k, heading in enumerate(table.headings)
    ]


def _naming(columns: Sequence[Column], room: int) -> list[int]:
    """The first columns that tell all rows apart, if they leave half of the line and any other fits; else the first."""
    count = len(columns[0].cells) if columns else 0
    widest = max((column.least + FRAME for column in columns), default=0)
    for last in range(1, len(columns)):
        told_apart = len(set(zip(*(column.cells for column in columns[:last]), strict=True))) == count
        if told_apart and _needed(columns, range(last)) <= min(room // 2, room - widest):
            return list(range(last))
    return [0] if columns else []


def _needed(columns: Sequence[Column], chosen: Sequence[int]) -> int:
    return 1 + sum(columns[k].least + FRAME for k in chosen)
