"""A table in a terminal of any width: no figure is cut off.

Words wrap, numbers do not; an interval may stand below its value. Columns that do not fit beside each other stand in
several tables, one below the other; each begins with the columns that name its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.markup import escape
from rich.table import Table as RichTable

from radii.tables import Table

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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RichTable]:
        columns = _columns(self.content, self.clean)
        if len(parts(columns, options.max_width)) > 1:
            columns = [column if column.of_words else column.stacked() for column in columns]
        for number, part in enumerate(parts(columns, options.max_width)):
            title = escape(self.clean(self.content.title)) if number == 0 else None
            shown = RichTable(title=title, title_justify="left", header_style="bold")
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
        columns: all columns.
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
        columns: the columns.
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
