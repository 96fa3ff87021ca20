"""The page of `radii claims`: every statement with its verdict, paper by paper."""

from __future__ import annotations

from collections.abc import Sequence

from radii.papers.claims.claim import Status, Verdict
from radii.papers.claims.wording import counts, evidence, expected, measured, number, outcome, runs, stated, summary
from radii.report.html import Card, Cards, Report, Section
from radii.report.ledger import Entry, Ledger, Mark
from radii.report.table_html import Table

MARKS: dict[Status, Mark] = {"holds": "holds", "fails": "fails", "not run": "open"}


def page(verdicts: Sequence[Verdict]) -> Report:
    """Counts at the top, then one section per paper."""
    found = counts(verdicts)
    cards = (
        Card("hold", str(found["holds"]), "measured figures within the tolerance", "possible"),
        Card("fail", str(found["fails"]), "with how far they are beyond it", "broken"),
        Card("not run", str(found["not run"]), "no result at a budget that can judge them", "true"),
    )
    papers = dict.fromkeys(verdict.claim.paper for verdict in verdicts)
    sections = tuple(
        Section(
            paper,
            (Ledger(tuple(entry(verdict) for verdict in own)),),
            summary(own),
        )
        for paper in papers
        if (own := [verdict for verdict in verdicts if verdict.claim.paper == paper])
    )
    return Report(
        title="Which claims of the papers hold?",
        subtitle="Statements as checks over results of studies, published figures beside measured ones",
        verdict=summary(verdicts),
        headline=(Cards(cards),),
        sections=sections,
    )


def entry(verdict: Verdict) -> Entry:
    """A claim as the page shows it."""
    claim = verdict.claim
    notes = [f"Tolerance {number(claim.tolerance)}: {claim.because}."]
    if claim.corrects:
        notes.insert(0, f"In the text: {claim.corrects}")
    if verdict.runs:
        notes.append(f"Read from {runs(verdict)}.")
    seen = f"measured {measured(verdict)}, " if verdict.measured else ""
    rows = tuple((name, number(verdict.measured.get(name)), stated(claim, name)) for name in claim.published)
    return Entry(
        MARKS[verdict.status],
        outcome(verdict),
        claim.statement,
        f"{claim.where} · {seen}published {expected(verdict)} · {evidence(verdict)} · {claim.id}",
        tuple(notes),
        Table(("figure", "measured", "published"), rows),
    )
