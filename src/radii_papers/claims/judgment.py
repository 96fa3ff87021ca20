"""Verdicts: what the results of studies say of the claims, in numbers and in words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from radii.budget import Budget
from radii.runs.store import Store
from radii.studies.results import Evidence, find, shipped_folders
from radii.studies.study import Measured
from radii.tables import Table, listing
from radii_papers.claims import _checks as checks
from radii_papers.claims._resampling import ENOUGH, share_of_resamples
from radii_papers.claims._study_cells import StudyCells, rank_correlation
from radii_papers.claims.claim import Claim, Figure, Kind

Status = Literal["fails", "holds", "as printed", "finding", "not decided", "not run"]
STATUSES: tuple[Status, ...] = get_args(Status)
GOOD: dict[Kind, Status] = {"paper": "holds", "printed": "as printed", "finding": "finding"}
ROUNDING = 1e-9  # float64 sums of published decimals
POINTS = "points"  # a guard of this name asks for a number of points behind every figure


@dataclass(frozen=True)
class Verdict:
    """What the results say of a claim.

    Args:
        status: ``holds``; ``as printed`` or ``finding`` for claims of that kind which hold; ``fails``; ``not decided``
            where the results cannot judge the claim; ``not run``.
        excess: how far the worst figure lies beyond its tolerance; at most 0 where the claim holds.
        power: the share of binomial resamples of the points in which the claim holds; None where nothing was sampled.
    """

    claim: Claim
    status: Status
    measured: Mapping[str, float] = field(default_factory=dict)
    excess: float | None = None
    worst: str = ""
    runs: tuple[str, ...] = ()
    budget: Budget | None = None
    origin: str = ""
    note: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    power: float | None = None

    @property
    def statement(self) -> str:
        """The statement with what it is about: data, radius, attack, and the least number of points behind it."""
        points = self.counts.get(POINTS)
        sample = f"{points:,} points" if points else "" if self.power is None else "all test images"
        about = [words for words in (self.claim.setting, sample) if words]
        return f"{self.claim.statement} [{'; '.join(about)}]" if about else self.claim.statement

    @property
    def certainty(self) -> str:
        """In how many resamples the claim holds, in words; empty where nothing was sampled."""
        return "" if self.power is None else f"holds in {self.power:.0%} of the resamples of its points"

    @property
    def reason(self) -> str:
        """Why the tolerance is what it is; ``{points}`` and other counts are those of the results."""
        return re.sub(r"\{(\w+)\}", lambda name: _counted(self.counts.get(name[1])), self.claim.reason)

    @property
    def outcome(self) -> str:
        """The status in words: ``holds``, ``fails by 0.03``, ``fails: not a number``."""
        if self.status != "fails" or self.excess is None:
            return self.status
        return f"fails by {number(self.excess)}" if math.isfinite(self.excess) else "fails: not a number"

    @property
    def shown(self) -> str:
        """The one measured figure, or the worst of several; the rank correlation where ranks are compared."""
        if self.status == "not run":
            return ""
        if self.claim.figures[0].relation == "rank":
            return f"rank correlation {number(1 - self.claim.figures[0].tolerance - (self.excess or 0.0))}"
        value, count = number(self.measured[self.worst]), len(self.claim.figures)
        return value if count == 1 else f"{value} (worst of {count})"

    @property
    def expected(self) -> str:
        """What is published for the figure that :attr:`shown` shows."""
        figures = {figure.name: figure for figure in self.claim.figures}
        return stated(figures.get(self.worst, self.claim.figures[0]))

    @property
    def evidence(self) -> str:
        """Study, budget and where the result comes from; what it needs if it was not run."""
        if self.claim.kind == "printed":
            return "the paper's own table"
        if self.status == "not run":
            return f"needs {self.claim.study} {'|'.join(self.claim.budgets)}"
        return f"{self.claim.study} {self.budget} {'shipped' if is_shipped(self.origin) else 'own'}"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; what is not a finite number is null."""
        claim = self.claim
        return {
            "id": claim.id,
            "status": self.status,
            "kind": claim.kind,
            "statement": self.statement,
            "paper": claim.paper,
            "where": claim.where,
            "corrects": claim.corrects,
            "study": claim.study,
            "budgets": list(claim.budgets),
            "budget": self.budget,
            "figures": [self._entry(figure) for figure in claim.figures],
            "guards": [self._entry(figure) for figure in claim.conditions],
            "reason": self.reason,
            "excess": _finite(self.excess),
            "worst": self.worst,
            "power": self.power,
            "runs": list(self.runs),
            "origin": self.origin,
            "note": self.note,
        }

    def _entry(self, figure: Figure) -> dict[str, Any]:
        return {
            "figure": figure.name,
            "published": figure.value,
            "relation": figure.relation,
            "tolerance": figure.tolerance,
            "measured": _finite(self.measured.get(figure.name)),
        }


def _counted(count: int | None) -> str:
    return "the" if count is None else f"{count:,}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def beyond(figure: Figure, measured: float) -> float:
    """How far a measured figure lies beyond its tolerance; at most 0 where it agrees.

    NaN is infinitely far. A strict relation fails at equality.

    Args:
        measured: in the same unit.
    """
    off = measured - figure.value
    sign = {"=": abs(off), "≤": off, "<": off, "≥": -off, ">": -off}[figure.relation]
    excess = sign - figure.tolerance
    if math.isnan(excess):
        return math.inf
    if figure.relation in ("<", ">"):
        return excess if excess < 0 else max(excess, 2 * ROUNDING)
    return excess


def judge(claim: Claim, evidence: Evidence | None) -> Verdict:
    """Hold a claim against the results of its study.

    Args:
        evidence: the results; a claim about a printed table needs none.
    """
    if evidence is None and claim.kind != "printed":
        return Verdict(claim, "not run", note=f"no result of {claim.study} at budget {' or '.join(claim.budgets)}")
    cells = StudyCells(evidence.measured, evidence.complete) if evidence else StudyCells(())
    budget, origin = (evidence.budget, evidence.origin) if evidence else (None, "")
    try:
        measured = _figures(claim, cells)
    except LookupError as missing:  # a partial study, or one that an older version ran
        note = f"{claim.study} at budget {budget} has no {missing.args[0]}"
        return Verdict(claim, "not run", budget=budget, origin=origin, note=note)
    excess, worst = _worst(claim.figures, measured)
    note, power = _unmet(claim, measured), None
    if not note and math.isfinite(excess):
        power = _power(claim, cells)
        note = _undecided(power)
    status: Status = "not decided" if note else GOOD[claim.kind] if excess <= ROUNDING else "fails"
    runs, counted = tuple(cells.runs), cells.counts()
    return Verdict(claim, status, measured, excess, worst, runs, budget, origin, note, counted, power)


def _figures(claim: Claim, cells: StudyCells) -> dict[str, float]:
    """Every figure of the claim and of its conditions."""
    names = list(dict.fromkeys(figure.name for figure in (*claim.figures, *claim.guards) if figure.name != POINTS))
    measured = checks.figures(claim.check, cells, names, claim.arguments)
    if any(guard.name == POINTS for guard in claim.guards):
        measured[POINTS] = cells.counts().get(POINTS, math.nan)
    if claim.needs is not None:
        measured[claim.needs.figure.name] = cells.least(claim.needs.place, claim.needs.path)
    return measured


def _power(claim: Claim, cells: StudyCells) -> float | None:
    """The share of resamples in which the figures agree with what is published."""

    def holds(resample: Sequence[Measured]) -> bool:
        return _worst(claim.figures, _figures(claim, StudyCells(resample, cells.complete)))[0] <= ROUNDING

    return share_of_resamples([cell for cell in cells.measured if cell.run in cells.runs], holds)


def _undecided(power: float | None) -> str:
    """Why so few points decide nothing; empty where nine of ten resamples agree."""
    if power is None or not 1 - ENOUGH < power < ENOUGH:
        return ""
    return f"it holds in {power:.0%} of the resamples of its points, neither in {ENOUGH:.0%} nor in {1 - ENOUGH:.0%}"


def _worst(figures: tuple[Figure, ...], measured: Mapping[str, float]) -> tuple[float, str]:
    """The greatest excess and its figure; where ranks are compared, by how much the correlation falls short."""
    if figures[0].relation == "rank":
        correlation = rank_correlation([measured[f.name] for f in figures], [f.value for f in figures])
        short = 1 - figures[0].tolerance - correlation
        return (math.inf if math.isnan(short) else short), figures[0].name
    excess = {figure.name: beyond(figure, measured[figure.name]) for figure in figures}
    worst = max(excess, key=lambda name: excess[name])
    return excess[worst], worst


def _unmet(claim: Claim, measured: Mapping[str, float]) -> str:
    """The first condition that the results do not meet, in words."""
    for condition in claim.conditions:
        if beyond(condition, measured[condition.name]) > ROUNDING:
            return f"{condition.name}: {number(measured[condition.name])}, where {stated(condition)} is needed"
    return ""


def ledger(claims: Iterable[Claim], store: Store | None = None, budget: Budget | None = None) -> tuple[Verdict, ...]:
    """The verdict on each claim from the greatest budget that can judge it: the user's own results, then the shipped.

    Args:
        store: where the user's results are; default: the store of the environment.
    """
    store = store or Store.default()

    @cache
    def known(study: str, at: Budget) -> Evidence | None:
        return find(study, store, at)

    def verdict(claim: Claim) -> Verdict:
        wanted = [at for at in reversed(claim.budgets) if claim.study and budget in (None, at)]
        results = [found for at in wanted if (found := known(claim.study, at)) is not None]
        verdicts = [judge(claim, found) for found in results] or [judge(claim, None)]
        return next((one for one in verdicts if one.status != "not run"), verdicts[0])

    return tuple(verdict(claim) for claim in claims)


def is_shipped(origin: str) -> bool:
    """Whether a result came with the package."""
    return bool(origin) and Path(origin).parent in shipped_folders()


def number(value: float | None) -> str:
    """Four significant digits; whole numbers in full.

    Args:
        value: the figure; None where there is none.

    Returns:
        Its text; a dash where there is no figure.
    """
    if value is None:
        return "–"
    whole = math.isfinite(value) and value == round(value) and abs(value) < 1e7
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def figure_table(verdict: Verdict, figures: Sequence[Figure], heading: str = "figure") -> Table:
    """Figures of a claim, measured beside published."""
    lines = [(figure.name, number(verdict.measured.get(figure.name)), stated(figure)) for figure in figures]
    return listing("", (heading, "measured", "published"), lines)


def stated(figure: Figure) -> str:
    """A published figure with its relation and tolerance: ``≤ 0.51 ± 0.0055``."""
    if figure.relation == "rank":
        return f"ranks as printed, correlation ≥ {number(1 - figure.tolerance)}"
    tolerance = f" ± {number(figure.tolerance)}" if figure.tolerance else ""
    return f"{figure.relation} {number(figure.value)}{tolerance}"


def counts(verdicts: Iterable[Verdict]) -> dict[Status, int]:
    """How many claims have each status.

    Returns:
        The number of claims by status; statuses that do not occur have 0.
    """
    by_status = Counter(verdict.status for verdict in verdicts)
    return {status: by_status[status] for status in STATUSES}


def summary(verdicts: Iterable[Verdict]) -> str:
    """``143 claims: 12 fail, 80 hold, 5 as printed, 40 findings, 2 not decided, 4 not run.``"""
    by_status = counts(verdicts)
    words = {"fails": "fail", "holds": "hold", "finding": "findings"}
    parts = [f"{count} {words.get(status, status)}" for status, count in by_status.items()]
    return f"{sum(by_status.values())} claims: {', '.join(parts)}."
