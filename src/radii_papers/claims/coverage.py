"""Coverage: how many published figures are measured, how many agree by value, how many in rank, how far off they are.

By value is the headline. A percentage agrees by value within :data:`NEAR`, whatever the tolerance of a claim is, a gap
between percentages within :data:`GAP`; any other figure within the tolerance of its claim. In rank agrees what stands
in a column whose order is the printed one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from radii.budget import Budget
from radii.tables import ChartSpec, Field, Table
from radii_papers.claims.claim import Figure
from radii_papers.claims.judgment import GOOD, ROUNDING, Verdict, beyond
from radii_papers.published import Fact, facts, paper_name

NEAR = 0.03  # three points of a percentage: agreement by value
COUNTED = ("published", "measured", "by_value", "by_constant", "in_rank")
GAP = 0.01  # a point of a gap between percentages


def points(fact: Fact) -> float | None:
    """Within how many points a measured percentage, or gap between percentages, agrees; None for other figures."""
    return 100 * NEAR if fact.metric.endswith("_pct") else 100 * GAP if fact.metric.endswith("gap_points") else None


@dataclass(frozen=True)
class PublishedComparison:
    """A published figure beside the measured one.

    Args:
        measured: in the same unit; percentages are shares.
    """

    figure: Figure
    measured: float
    verdict: Verdict

    @property
    def by_value(self) -> bool:
        """Whether the measured value is the published one: within three points, or within the claim's tolerance."""
        assert self.figure.fact is not None
        within = points(self.figure.fact)
        if within is not None:
            return abs(self.off) <= within + ROUNDING
        return self.figure.relation != "rank" and beyond(self.figure, self.measured) <= ROUNDING

    @property
    def in_rank(self) -> bool:
        """Whether the figure stands in a column whose order is shown to be the printed one."""
        return self.figure.relation == "rank" and self.verdict.status in GOOD.values()

    @property
    def off(self) -> float:
        """Measured less published; percentages in points."""
        assert self.figure.fact is not None
        return (self.measured - self.figure.value) * (100 if self.figure.fact.metric.endswith("_pct") else 1)


@dataclass(frozen=True)
class TableCoverage:
    """What is measured of one published table."""

    paper: str
    table: str
    published: int
    comparisons: tuple[PublishedComparison, ...]
    in_rank: int = 0

    @property
    def by_value(self) -> int:
        """How many agree by value."""
        return sum(comparison.by_value for comparison in self.comparisons)

    @property
    def by_constant(self) -> int:
        """How many of them would agree by value if the median of their printed column were measured throughout."""
        columns: dict[str, list[Fact]] = {}
        for comparison in self.comparisons:
            fact = comparison.figure.fact
            if fact is not None and points(fact) is not None:
                columns.setdefault(fact.metric, []).append(fact)
        middle = {metric: median(fact.number for fact in column) for metric, column in columns.items()}
        return sum(
            abs(fact.number - middle[metric]) <= (points(fact) or 0.0) + ROUNDING
            for metric, column in columns.items()
            for fact in column[: len(column) if len(column) > 2 else 0]
        )

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


def comparisons(verdicts: Iterable[Verdict]) -> dict[Fact, tuple[PublishedComparison, ...]]:
    """Every published figure that claims compare with a measurement, with all these comparisons, the nearest first.

    Args:
        verdicts: of the ledger; claims that were not run compare nothing.
    """
    known: dict[Fact, list[PublishedComparison]] = {}
    for verdict in verdicts:
        for figure in verdict.claim.figures:
            measured = verdict.measured.get(figure.name, math.nan)
            if figure.fact is not None and math.isfinite(measured):
                known.setdefault(figure.fact, []).append(PublishedComparison(figure, measured, verdict))
    return {fact: tuple(sorted(own, key=lambda one: (not one.by_value, abs(one.off)))) for fact, own in known.items()}


def coverage(verdicts: Iterable[Verdict]) -> tuple[TableCoverage, ...]:
    """The coverage of every table of every paper, in the order of the papers' texts."""
    known = comparisons(verdicts)
    tables: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts():
        if isinstance(fact.value, int | float):
            tables.setdefault((fact.paper, fact.table), []).append(fact)
    return tuple(
        TableCoverage(
            paper_name(paper),
            table,
            len(own),
            tuple(known[fact][0] for fact in own if fact in known),
            sum(any(one.in_rank for one in known.get(fact, ())) for fact in own),
        )
        for (paper, table), own in tables.items()
    )


def coverage_table(verdicts: Iterable[Verdict]) -> Table:
    """:func:`coverage` as a table, the sum over all tables in the last row."""
    rows: list[dict[str, Any]] = [
        {
            "paper": one.paper,
            "table": one.table,
            "published": one.published,
            "measured": len(one.comparisons),
            "by_value": one.by_value,
            "by_constant": one.by_constant,
            "in_rank": one.in_rank,
            "budget": ", ".join(one.budgets) or None,
            "typical_off": one.typical_off,
            "largest_off": one.largest_off,
        }
        for one in coverage(verdicts)
    ]
    total = {key: sum(row[key] for row in rows) for key in COUNTED}
    fields = (
        Field("paper"),
        Field("table"),
        Field("published"),
        Field("measured"),
        Field("by_value", "by value"),
        Field("by_constant", "by a constant"),
        Field("in_rank", "in rank"),
        Field("budget"),
        Field("typical_off", "off by", digits=2),
        Field("largest_off", "at most", digits=2),
    )
    note = (
        f"By value: within {100 * NEAR:.0f} points of a percentage, {100 * GAP:.0f} of a gap, else within a claim's "
        "tolerance. By a constant: what would agree so if the median of its column were measured everywhere. In rank: "
        "in a column whose order is the printed one. Off by: median and greatest distance between measured and "
        "published, in the unit of the table, percentages in points."
    )
    return Table(fields, (*rows, {"paper": "all", **total}), "Published figures that are measured", note)


def agreement_chart(verdicts: Iterable[Verdict]) -> ChartSpec | None:
    """Measured against published for every published percentage that is measured; None if there is none."""
    rows: list[dict[str, Any]] = [
        {
            "published": nearest.figure.value,
            "measured": nearest.measured,
            "paper": paper_name(fact.paper),
        }
        for fact, (nearest, *_) in comparisons(verdicts).items()
        if fact.metric.endswith("_pct")
    ]
    if not rows:
        return None
    near = sum(abs(row["measured"] - row["published"]) <= NEAR + ROUNDING for row in rows)
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
