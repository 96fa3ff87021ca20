"""The page of `radii claims`: measured against published, then every statement with its verdict, failures first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from radii.report.html import Card, Cards, Entry, Ledger, Report, Section
from radii_papers.claims.coverage import agreement_chart, coverage_table
from radii_papers.claims.judgment import STATUSES, Status, Verdict, counts, figure_table, summary
from radii_papers.claims.setup import setup

MARKS: dict[Status, Literal["holds", "fails", "open"]] = {
    "fails": "fails",
    "holds": "holds",
    "as printed": "open",
    "finding": "holds",
    "not decided": "open",
    "not run": "open",
}


def page(verdicts: Sequence[Verdict]) -> Report:
    """Counts at the top, measured against published, then every claim under one filter, failures first."""
    count = counts(verdicts)
    cards = (
        Card("fail", str(count["fails"]), "with how far they are beyond the tolerance", "broken", choice="fails"),
        Card("hold", str(count["holds"]), "measured figures within the tolerance", "possible", choice="holds"),
        Card(
            "as printed",
            str(count["as printed"]),
            "sentences that a paper's own table supports",
            "true",
            choice="as printed",
        ),
        Card("findings", str(count["finding"]), "of this project, not of a paper", "possible", choice="finding"),
        Card("not decided", str(count["not decided"]), "results that cannot judge them", "true", choice="not decided"),
        Card("not run", str(count["not run"]), "no result at a budget that can judge them", "true", choice="not run"),
    )
    picture = agreement_chart(verdicts)
    compared = (picture, coverage_table(verdicts)) if picture is not None else ()
    ordered = sorted(verdicts, key=lambda verdict: STATUSES.index(verdict.status))
    return Report(
        title="Which claims of the papers hold?",
        subtitle="Statements as checks over results of studies, published figures beside measured ones",
        verdict=summary(verdicts),
        headline=(Cards(cards),),
        sections=(
            *((Section("Measured against published", compared),) if compared else ()),
            Section("Claims", (Ledger(tuple(_entry(verdict) for verdict in ordered)),)),
        ),
    )


def _entry(verdict: Verdict) -> Entry:
    """A claim as the page shows it."""
    claim = verdict.claim
    notes = [f"Tolerance: {verdict.reason}."]
    if claim.corrects:
        notes.insert(0, f"In the text: {claim.corrects}")
    if verdict.note:
        notes.insert(0, f"{verdict.note}.")
    if verdict.certainty:
        notes.append(f"It {verdict.certainty}.")
    if words := setup(verdict):
        notes.append(f"Setup: {words}.")
    if verdict.runs:
        more = f" and {len(verdict.runs) - 1} more" if verdict.runs[1:] else ""
        notes.append(f"Read from {verdict.runs[0]}{more}.")
    seen = f"measured {verdict.shown}, " if verdict.measured else ""
    return Entry(
        MARKS[verdict.status],
        verdict.outcome,
        verdict.statement,
        f"{claim.source} · {seen}published {verdict.expected} · {verdict.evidence} · {claim.id}",
        tuple(notes),
        figure_table(verdict, (*claim.figures, *claim.conditions)),
        verdict.status,
    )
