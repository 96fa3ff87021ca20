"""The ledger: statements of the papers as checks over a study's results, published figures beside them.

A claim reads figures out of the cells of a study and compares each with the
published one. It holds, it fails (and says by how much), or it was not run:
no result of its study at a budget that can judge it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from radii.errors import InputError, unknown_name
from radii.runs.store import Store
from radii.studies.results import Evidence, find
from radii.studies.study import BUDGETS, Budget, Measured

Figures = Mapping[str, float]
Relation = Literal["=", "≤", "≥"]
Status = Literal["holds", "fails", "not run"]
STATUSES: tuple[Status, ...] = get_args(Status)
STATEMENTS = ("prach_lampert", "prach_lampert_training", "yang", "ding", "ding_data", "ding_training", "slides")
ALWAYS: tuple[Budget, ...] = BUDGETS
TRAINED: tuple[Budget, ...] = ("cpu", "paper")  # smoke trainings are too short to say anything
HAIR = 1e-9  # float64 sums of published decimals


class NotMeasured(LookupError):  # noqa: N818
    """A cell that a claim needs is not among the results."""


@dataclass
class Results:
    """The cells of a study as a claim reads them; ``runs`` collects those that were read."""

    measured: Sequence[Measured]
    complete: bool = True
    runs: list[str] = field(default_factory=list)

    def at(self, place: Mapping[str, str | int | float]) -> Mapping[str, Any]:
        """The result of the one cell at ``place`` (as many of its coordinates as tell it from others)."""
        found = self._fitting(place)
        if len(found) > 1:
            raise NotMeasured(f"single cell with {_words(place)}")
        return found[0].result

    def every(self, place: Mapping[str, str | int | float] | None = None) -> list[Measured]:
        """All cells at ``place``; of a study that is not complete it cannot be said which these are."""
        if not self.complete:
            raise NotMeasured("complete set of cells")
        return self._fitting(place or {})

    def _fitting(self, place: Mapping[str, str | int | float]) -> list[Measured]:
        found = [cell for cell in self.measured if place.items() <= dict(cell.place).items()]
        if not found:
            raise NotMeasured(f"cell with {_words(place)}")
        self.runs += [cell.run for cell in found if cell.run not in self.runs]
        return found


def _words(place: Mapping[str, str | int | float]) -> str:
    return ", ".join(f"{key} {value}" for key, value in place.items()) or "any place"


@dataclass(frozen=True)
class Claim:
    """One statement: ``check`` reads figures, each must stand in ``relation`` to the ``published`` one.

    ``because`` is the reason for the ``tolerance``: printed digits, standard
    errors, exactness, the room a qualitative word leaves. ``budgets`` are those
    whose results can judge the statement. ``corrects`` says what the paper's
    text has instead, where it is in error.
    """

    id: str
    statement: str
    paper: str
    where: str
    study: str
    check: Callable[[Results], Figures]
    published: Figures
    tolerance: float
    because: str
    relation: Relation = "="
    budgets: tuple[Budget, ...] = ALWAYS
    corrects: str = ""

    @property
    def source(self) -> str:
        """Paper and place."""
        return f"{self.paper}, {self.where}"


@dataclass(frozen=True)
class Verdict:
    """What the results say of a claim. ``excess``: how far the worst figure lies beyond its tolerance (≤ 0 holds)."""

    claim: Claim
    status: Status
    measured: Figures = field(default_factory=dict)
    excess: float | None = None
    worst: str = ""
    runs: tuple[str, ...] = ()
    budget: Budget | None = None
    origin: str = ""
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; what is not a finite number is null."""
        claim = self.claim
        return {
            "id": claim.id,
            "status": self.status,
            "statement": claim.statement,
            "paper": claim.paper,
            "where": claim.where,
            "corrects": claim.corrects,
            "study": claim.study,
            "budgets": list(claim.budgets),
            "budget": self.budget,
            "relation": claim.relation,
            "figures": [
                {"figure": name, "published": value, "measured": _finite(self.measured.get(name))}
                for name, value in claim.published.items()
            ],
            "tolerance": claim.tolerance,
            "because": claim.because,
            "excess": _finite(self.excess),
            "worst": self.worst,
            "runs": list(self.runs),
            "origin": self.origin,
            "note": self.note,
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def beyond(claim: Claim, name: str, measured: float) -> float:
    """How far a figure lies beyond the tolerance; NaN is infinitely far."""
    off = measured - claim.published[name]
    off = {"=": abs(off), "≤": off, "≥": -off}[claim.relation] - claim.tolerance
    return math.inf if math.isnan(off) else off


def judge(claim: Claim, evidence: Evidence | None) -> Verdict:
    """Hold a claim against the results of its study."""
    if evidence is None:
        return Verdict(claim, "not run", note=f"no result of {claim.study} at budget {' or '.join(claim.budgets)}")
    results = Results(evidence.measured, evidence.complete)
    try:
        measured = claim.check(results)
    except LookupError as missing:  # a partial study, or one that an older version ran
        note = f"{claim.study} at budget {evidence.budget} has no {missing}"
        return Verdict(claim, "not run", budget=evidence.budget, origin=evidence.origin, note=note)
    excess = {name: beyond(claim, name, measured[name]) for name in claim.published}
    worst = max(excess, key=lambda name: excess[name])
    status: Status = "holds" if excess[worst] <= HAIR else "fails"
    return Verdict(claim, status, measured, excess[worst], worst, tuple(results.runs), evidence.budget, evidence.origin)


def ledger(claims: Iterable[Claim], store: Store | None = None, budget: Budget | None = None) -> tuple[Verdict, ...]:
    """The verdict on each claim from the greatest budget that can judge it: the user's own results, then the shipped.

    ``budget`` looks at the results of that budget only.
    """
    store = store or Store.default()

    @cache
    def known(study: str, at: Budget) -> Evidence | None:
        return find(study, store, at)

    def telling(claim: Claim) -> Evidence | None:
        wanted = [at for at in reversed(BUDGETS) if at in claim.budgets and budget in (None, at)]
        return next((found for at in wanted if (found := known(claim.study, at)) is not None), None)

    return tuple(judge(claim, telling(claim)) for claim in claims)


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, paper by paper."""
    modules = [import_module(f"radii.papers.claims.{name}") for name in STATEMENTS]
    return tuple(claim for module in modules for claim in module.CLAIMS)


def choose(what: str | None) -> tuple[Claim, ...]:
    """The claim with that id, or those of a study, or those of a paper whose authors' names contain ``what``."""
    claims = all_claims()
    if what is None:
        return claims
    word = what.lower()
    chosen = [claim for claim in claims if claim.id == word] or [claim for claim in claims if claim.study == word]
    chosen = chosen or [claim for claim in claims if word in claim.paper.lower()]
    if not chosen:
        near = get_close_matches(word, [claim.id for claim in claims], n=1)
        studies = dict.fromkeys(claim.study for claim in claims)
        hint = f"The nearest id is {near[0]!r}." if near else "`radii claims` lists the ids."
        raise unknown_name("claim, study or paper", what, studies, hint)
    return tuple(chosen)


def is_shipped(origin: str) -> bool:
    """Whether a result came with the package."""
    return bool(origin) and Path(origin).parent == Path(__file__).parents[1] / "results"


def check_budget(name: str | None) -> Budget | None:
    """A budget as the user typed it."""
    if name is not None and name not in BUDGETS:
        raise InputError(f"budget must be one of {', '.join(BUDGETS)}, got {name!r} instead.")
    return name  # type: ignore[return-value]
