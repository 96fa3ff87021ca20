"""Figures that the papers published, each with its source.

``lookup("003", "Table 6", dataset="MNIST original").number`` is one of them.

They are package data (``published.json``), read when first asked for. Papers go
by the names of their texts: 001 and 000 are Prach & Lampert 2025 and its
supplement, 002 slides on Yang et al. 2020, 003 Ding et al. 2019, 004 slides on
Bubeck et al. 2021, Vardi et al. 2022 and Schmidt et al. 2018.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from radii.errors import InputError


@dataclass(frozen=True)
class Fact:
    """One published figure and where it stands; ``value`` is a word in tables of architectures, None where blank."""

    paper: str
    table: str
    dataset: str | None
    model: str | None
    method: str | None
    metric: str
    value: float | str | None
    epsilon: float | None = None

    @property
    def number(self) -> float:
        """The value in the paper's unit."""
        if not isinstance(self.value, int | float):
            raise InputError(f"{self.source} has {self.value!r} for {self.metric}, which is no number.")
        return float(self.value)

    @property
    def share(self) -> float:
        """The value in the unit of our results: percentages as shares between 0 and 1."""
        return self.number / 100 if self.metric.endswith("_pct") else self.number

    @property
    def source(self) -> str:
        """``Ding et al. 2019, Table 6``."""
        return f"{paper_name(self.paper)}, {self.table}"


@cache
def facts() -> tuple[Fact, ...]:
    """Every published figure."""
    return tuple(
        Fact(table["paper"], table["table"], *fact) for table in _content()["tables"] for fact in table["facts"]
    )


@cache
def _tables() -> Mapping[tuple[str, str], tuple[Fact, ...]]:
    """The entries of every table, by paper and name."""
    tables: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts():
        tables.setdefault((fact.paper, fact.table), []).append(fact)
    return {name: tuple(entries) for name, entries in tables.items()}


def paper_name(paper: str) -> str:
    """Authors and year of a paper's text: ``paper_name("003")``."""
    papers = _content()["papers"]
    if paper not in papers:
        raise InputError(f"Papers are {', '.join(papers)}, got {paper!r} instead.")
    return str(papers[paper]["name"])


def select(
    paper: str,
    table: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    method: str | None = None,
    metric: str | None = None,
) -> tuple[Fact, ...]:
    """All entries of a table that fit.

    Args:
        paper: the name of its text, for example ``003``.
        table: ``Table 2``, ``text 5.1``.
        dataset: as the table names it; what is not given fits anything, here and below.
        metric: what was measured, with its unit at the end.
    """
    given = {"dataset": dataset, "model": model, "method": method, "metric": metric}
    wanted = {name: value for name, value in given.items() if value is not None}
    return tuple(
        fact
        for fact in _tables().get((paper, table), ())
        if all(getattr(fact, name) == value for name, value in wanted.items())
    )


def lookup(
    paper: str,
    table: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    method: str | None = None,
    metric: str | None = None,
) -> Fact:
    """The one entry of a table that fits.

    Args:
        paper: the name of its text, for example ``003``.
        table: ``Table 2``, ``text 5.1``.
        dataset: as the table names it; default: any, here and below.
        metric: what was measured, with its unit at the end.
    """
    fitting = select(paper, table, dataset=dataset, model=model, method=method, metric=metric)
    if len(fitting) != 1:
        asked = (("dataset", dataset), ("model", model), ("method", method), ("metric", metric))
        words = ", ".join(f"{name} {value!r}" for name, value in asked if value is not None)
        count = f"{len(fitting)} figures with {words}" if words else f"{len(fitting)} figures"
        raise InputError(f"{paper_name(paper)}, {table} has {count}; exactly one must fit.")
    return fitting[0]


@cache
def _content() -> dict:
    return json.loads((files("radii_papers") / "published.json").read_text(encoding="utf-8"))
