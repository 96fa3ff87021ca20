"""Tables: the numbers beside a chart, written for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from radii.errors import InputError
from radii.report.rows import MISSING, Field, Row, distinct, field, plain


@dataclass(frozen=True)
class Table:
    """Cells already written out. The first column and columns of words read left, numbers align right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(f"A row of a table must have {len(self.columns)} cells, got {len(row)} instead.")

    @property
    def words(self) -> tuple[int, ...]:
        """The columns in which some cell is neither a number nor missing."""
        numeric = re.compile(r"[-−]?\d|" + MISSING)
        columns = range(len(self.columns))
        return tuple(k for k in columns if not all(numeric.match(row[k]) for row in self.rows))


def table(rows: Sequence[Row], columns: Sequence[Field | str], title: str = "", note: str = "") -> Table:
    """One line per row, one column per field."""
    fields = [field(which) for which in columns]
    cells = tuple(tuple(which.text(row) for which in fields) for row in rows)
    return Table(tuple(which.heading for which in fields), cells, title, note)


def pivot(rows: Sequence[Row], index: Field, series: Sequence[Field], value: Field, at: Sequence[float] = ()) -> Table:
    """One line per value of ``index``, one column per series; at most a dozen lines of a long curve.

    ``at`` names index values that must not be thinned away: the nearest one present is kept.
    """
    lines = distinct(plain(row.get(index.name)) for row in rows)
    lines = sorted(lines) if all(isinstance(line, int | float) for line in lines) else lines
    names = distinct(_label(row, series) for row in rows)
    cells = {(plain(row.get(index.name)), _label(row, series)): value.text(row) for row in rows}
    kept = _thinned(lines, at)
    return Table(
        (index.heading, *(name or value.heading for name in names)),
        tuple((index.text({index.name: line}), *(cells.get((line, name), MISSING) for name in names)) for line in kept),
    )


def quantiles(groups: dict[str, np.ndarray], value: Field) -> Table:
    """How the values of each series are spread: what a histogram shows, in numbers."""
    marks = {"min": 0.0, "5%": 0.05, "median": 0.5, "95%": 0.95, "max": 1.0}
    return Table(
        (value.heading, "points", *marks),
        tuple(
            (
                name or "all",
                f"{len(values):,}",
                *(value.text({value.name: float(np.quantile(values, mark))}) for mark in marks.values()),
            )
            for name, values in groups.items()
        ),
    )


def _label(row: Row, series: Sequence[Field]) -> str:
    return ", ".join(str(plain(row[which.name])) for which in series if row.get(which.name) is not None)


def _thinned(lines: list, at: Sequence[float], most: int = 12) -> list:
    if len(lines) <= most:
        return lines
    kept = {round(k * (len(lines) - 1) / (most - 1)) for k in range(most)}
    if all(isinstance(line, int | float) for line in lines):
        kept |= {min(range(len(lines)), key=lambda k: abs(lines[k] - mark)) for mark in at}
    return [lines[k] for k in sorted(kept)]
