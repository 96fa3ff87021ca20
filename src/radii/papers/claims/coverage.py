"""Coverage: how many published figures are compared with a measurement, at which budget, how far off."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from radii.budget import Budget
from radii.papers.claims.claim import Figure
from radii.papers.claims.judgment import ROUNDING, Verdict, beyond
from radii.papers.published import Fact, facts, paper_name
from radii.tables import ChartSpec, Field, Table

NEAR = 0.05  # of a share: what the title of the chart counts


@dataclass(frozen=True)
class PublishedComparison:
    """A published figure beside the measured one.

    Args:
        figure: the figure of a claim, with the entry of the published table.
        measured: in the same unit; percentages are shares.
        verdict: the claim's verdict.
    """

    figure: Figure
    measured: float
    verdict: Verdict

    @property
    def agrees(self) -> bool:
        """Whether the figure is within its tolerance, or in rank where the claim compares ranks."""
        if self.figure.relation == "rank":
            return self.verdict.status != "fails"
        return beyond(self.figure, self.measured) <= ROUNDING

    @property
    def off(self) -> float:
        """Measured less published; percentages in points."""
        assert self.figure.fact is not None
        return (self.measured - self.figure.value) * (100 if self.figure.fact.metric.endswith("_pct") else 1)


@dataclass(frozen=True)
class TableCoverage:
    """What is measured of one published table.

    Args:
        paper: authors and year.
        table: its number, or the section.
        published: how many numbers it has.
        comparisons: those that a claim compares with a measurement, each number once.
    """

    paper: str
    table: str
    published: int
    comparisons: tuple[PublishedComparison, ...]

    @property
    def agreeing(self) -> int:
        """How many are within tolerance or in rank."""
        return sum(comparison.agrees for comparison in self.comparisons)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets of the measurements."""
        return tuple(dict.fromkeys(c.verdict.budget for c in self.comparisons if c.verdict.budget is not None))

    @property
    def typical_off(self) -> float | None:
        """The median distance between measured and published, in the table's unit; percentages in points."""
        return median(abs(comparison.off) for comparison in self.comparisons) if self.comparisons else None

    @property
    def largest_off(self) -> float | None:
        """The largest distance between measured and published."""
        return max((abs(comparison.off) for comparison in self.comparisons), default=None)


def comparisons(verdicts: Iterable[Verdict]) -> dict[Fact, PublishedComparison]:
    """Every published figure that a claim compares with a measurement; one within tolerance before others.

    Args:
        verdicts: of the ledger; claims that were not run compare nothing.
    """
    known: dict[Fact, PublishedComparison] = {}
    for verdict in verdicts:
        for figure in verdict.claim.figures:
            measured = verdict.measured.get(figure.name, math.nan)
            if figure.fact is None or not math.isfinite(measured):
                continue
            comparison = PublishedComparison(figure, measured, verdict)
            if figure.fact not in known or (comparison.agrees and not known[figure.fact].agrees):
                known[figure.fact] = comparison
    return known


def coverage(verdicts: Iterable[Verdict]) -> tuple[TableCoverage, ...]:
    """The coverage of every table of every paper, in the order of the papers' texts.

    Args:
        verdicts: of the ledger.
    """
    known = comparisons(verdicts)
    tables: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts():
        if isinstance(fact.value, int | float):
            tables.setdefault((fact.paper, fact.table), []).append(fact)
    return tuple(
        TableCoverage(paper_name(paper), table, len(own), tuple(known[fact] for fact in own if fact in known))
        for (paper, table), own in tables.items()
    )


def coverage_table(verdicts: Iterable[Verdict]) -> Table:
    """:func:`coverage` as a table, the sum over all tables in the last row.

    Args:
        verdicts: of the ledger.
    """
    rows: list[dict[str, Any]] = [
        {
            "paper": one.paper,
            "table": one.table,
            "published": one.published,
            "measured": len(one.comparisons),
            "agreeing": one.agreeing,
            "budget": ", ".join(one.budgets) or None,
            "typical_off": one.typical_off,
            "largest_off": one.largest_off,
        }
        for one in coverage(verdicts)
    ]
    total = {key: sum(row[key] for row in rows) for key in ("published", "measured", "agreeing")}
    fields = (
        Field("paper"),
        Field("table"),
        Field("published"),
        Field("measured"),
        Field("agreeing", "agree"),
        Field("budget"),
        Field("typical_off", "off by", digits=2),
        Field("largest_off", "at most", digits=2),
    )
    note = (
        "Agree: within the tolerance of a claim, or in rank. Off by: median and greatest distance between measured "
        "and published, in the unit of the table, percentages in points."
    )
    return Table(fields, (*rows, {"paper": "all", **total}), "Published figures that are measured", note)


def agreement_chart(verdicts: Iterable[Verdict]) -> ChartSpec | None:
    """Measured against published for every published percentage that is measured; None if there is none.

    Args:
        verdicts: of the ledger.
    """
    rows: list[dict[str, Any]] = [
        {
            "published": comparison.figure.value,
            "measured": comparison.measured,
            "paper": paper_name(fact.paper),
        }
        for fact, comparison in comparisons(verdicts).items()
        if fact.metric.endswith("_pct")
    ]
    if not rows:
        return None
    near = sum(abs(row["measured"] - row["published"]) <= NEAR for row in rows)
    return ChartSpec(
        "points",
        rows,
        Field("published", percent=True),
        Field("measured", percent=True),
        "paper",
        f"{near} of {len(rows)} published percentages are measured within {100 * NEAR:.0f} points",
        "On the line measured and published are equal.",
        fit=[{"published": end, "measured": end, "paper": "equal"} for end in (0.0, 1.0)],
    )
