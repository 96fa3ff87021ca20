"""Verdicts in words: what stands beside what, for the terminal and for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from radii.papers.claims.claim import STATUSES, Claim, Verdict, is_shipped


def number(value: float | None) -> str:
    """Four significant digits; whole numbers in full."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e7 else f"{value:.4g}"


def measured(verdict: Verdict) -> str:
    """The one figure, or the worst of several."""
    if verdict.status == "not run":
        return ""
    shown = number(verdict.measured[verdict.worst])
    count = len(verdict.claim.published)
    return shown if count == 1 else f"{shown} (worst of {count})"


def stated(claim: Claim, name: str) -> str:
    """``≤ 0.51 ± 0.0055``: a published figure with its relation and tolerance."""
    tolerance = f" ± {number(claim.tolerance)}" if claim.tolerance else ""
    return f"{claim.relation} {number(claim.published[name])}{tolerance}"


def expected(verdict: Verdict) -> str:
    """What is published for the figure that :func:`measured` shows."""
    name = verdict.worst or next(iter(verdict.claim.published))
    return stated(verdict.claim, name)


def outcome(verdict: Verdict) -> str:
    """``holds``, ``fails by 0.03``, ``not run``."""
    return f"fails by {number(verdict.excess)}" if verdict.status == "fails" else verdict.status


def evidence(verdict: Verdict) -> str:
    """Study, budget and where the result comes from; what it needs if it was not run."""
    if verdict.status == "not run":
        return f"needs {verdict.claim.study} {'|'.join(verdict.claim.budgets)}"
    return f"{verdict.claim.study} {verdict.budget} {'shipped' if is_shipped(verdict.origin) else 'own'}"


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many claims hold, fail and were not run."""
    found = Counter(verdict.status for verdict in verdicts)
    return {status: found[status] for status in STATUSES}


def summary(verdicts: Iterable[Verdict]) -> str:
    """``134 claims: 90 hold, 6 fail, 38 not run.``"""
    found = counts(verdicts)
    words = {"holds": "hold", "fails": "fail", "not run": "not run"}
    return f"{sum(found.values())} claims: " + ", ".join(f"{n} {words[status]}" for status, n in found.items()) + "."


def runs(verdict: Verdict) -> str:
    """The first run that was read, and how many more."""
    more = f" and {len(verdict.runs) - 1} more" if verdict.runs[1:] else ""
    return "".join(verdict.runs[:1]) + more
