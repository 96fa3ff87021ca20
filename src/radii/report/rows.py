"""Tidy rows: a list of dictionaries, and what a field of them means.

Every chart and table of the report is made from rows like
``{"radius": 0.1, "accuracy": 0.93, "low": 0.92, "high": 0.94, "model": "LeNet-5"}``.
A :class:`Field` says how one of these is titled and written; a bare name stands for ``Field(name)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radii.errors import InputError, unknown_name

Row = Mapping[str, Any]
MISSING = "–"


@dataclass(frozen=True)
class Field:
    """One field of tidy rows: its title, whether it is a share, and where its interval stands.

    ``low`` and ``high`` name the fields that hold the ends of an interval.
    ``log`` asks charts for a logarithmic axis; ``digits`` are the significant
    digits of plain numbers (shares always have one decimal).
    """

    name: str
    title: str = ""
    percent: bool = False
    log: bool = False
    low: str = ""
    high: str = ""
    digits: int = 3

    @property
    def heading(self) -> str:
        """The title, or the name with spaces."""
        return self.title or self.name.replace("_", " ")

    def text(self, row: Row) -> str:
        """The value with its interval, as a person reads it.

        >>> Field("a", percent=True, low="l", high="h").text({"a": 0.931, "l": 0.925, "h": 0.936})
        '93.1% [92.5, 93.6]'
        """
        value = plain(row.get(self.name))
        if not isinstance(value, int | float) or isinstance(value, bool):
            return MISSING if value is None else str(value)
        ends = [plain(row.get(end)) for end in (self.low, self.high) if end]
        interval = f" [{', '.join(self._number(end) for end in ends)}]" if ends and None not in ends else ""
        return self._number(value) + ("%" if self.percent else "") + interval

    def _number(self, value: float) -> str:
        if self.percent:
            return f"{100 * value:.1f}"
        if isinstance(value, int):
            return f"{value:,}"
        if value == 0 or 1e-4 <= abs(value) < 10**6:
            decimals = self.digits - 1 - math.floor(math.log10(abs(value))) if value else self.digits - 1
            return f"{value:,.{max(decimals, 0)}f}"
        return f"{value:.{self.digits - 1}e}"


def field(which: Field | str) -> Field:
    """A bare name stands for the field of that name."""
    return which if isinstance(which, Field) else Field(which)


def plain(value: Any) -> Any:
    """A JSON value: numpy and torch scalars unwrapped, numbers that are not finite become None."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def picked(rows: Sequence[Row], fields: Mapping[str, Field | None], chart: str) -> list[dict[str, Any]]:
    """Rows reduced to the fields that a chart draws, under the chart's own short names.

    The short names keep specs small, and no field name that a user chose
    (``a.b``, ``x[0]``) is ever read as a path into nested data.
    """
    if not rows:
        raise InputError(f"{chart} needs at least one row, got none.")
    wanted = {short: which.name for short, which in fields.items() if which is not None}
    for end in ("low", "high"):
        name = getattr(fields.get("y"), end, "")
        if name:
            wanted[end] = name
    present = set().union(*(row.keys() for row in rows))
    for name in wanted.values():
        if name not in present:
            raise unknown_name(f"field of {chart}'s rows", name, present)
    return [{short: _short(plain(row.get(name))) for short, name in wanted.items()} for row in rows]


def _short(value: Any) -> Any:
    """Six significant digits are more than a screen shows, and a third of the bytes."""
    if not isinstance(value, float):
        return value
    return 0.0 if abs(value) < 1e-12 else float(f"{value:.6g}")  # rounding below zero would stretch an axis


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first appearance; None left out."""
    return [value for value in dict.fromkeys(values) if value is not None]
