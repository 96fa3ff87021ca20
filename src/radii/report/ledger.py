"""A ledger in a page: statements with their verdicts, to be read from top to bottom or filtered by a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from radii.report.table_html import Table

Mark = Literal["holds", "fails", "open"]


@dataclass(frozen=True)
class Entry:
    """One statement. ``mark`` colors the verdict, ``figures`` stand below it, ``notes`` in small print."""

    mark: Mark
    verdict: str
    statement: str
    source: str
    notes: tuple[str, ...] = ()
    figures: Table | None = None


@dataclass(frozen=True)
class Ledger:
    """Entries under one another."""

    entries: tuple[Entry, ...]
