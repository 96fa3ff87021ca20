"""Claims as data: one TOML file per paper, read into records.

A record names the statement and its source, the study whose results judge it,
the check that reads figures from these results (:mod:`radii_papers.claims._checks`)
with its keyword arguments, and for every figure the published value, the
relation and the tolerance. ``docs/papers/claims.md`` describes the fields.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from radii.budget import BUDGETS, Budget
from radii.errors import InputError, unknown_name
from radii_papers.published import Fact, lookup

Relation = Literal["=", "≤", "≥", "<", ">", "rank"]
Kind = Literal["paper", "printed", "finding"]
FILES = ("prach_lampert", "yang", "ding", "ding_tables", "bubeck", "vardi", "schmidt")
ADDRESS = ("paper", "table", "dataset", "model", "method", "metric")


@dataclass(frozen=True)
class Figure:
    """One number that a claim compares.

    Args:
        value: the published value, or the threshold that a sentence sets; percentages are shares.
        relation: how the measured value must stand to ``value``.
    """

    name: str
    value: float
    relation: Relation
    tolerance: float
    fact: Fact | None = None


@dataclass(frozen=True)
class Reference:
    """Networks with which a claim compares others: one that has not learned its training points is no reference.

    Args:
        least: the accuracy on training points that each of them must have.
    """

    place: Mapping[str, str | int | float]
    least: float
    path: tuple[str, ...] = ("train_accuracy",)

    @property
    def figure(self) -> Figure:
        """The condition as a figure of the claim."""
        return Figure("least accuracy of the reference network on its training points", self.least, "≥", 0.0)


@dataclass(frozen=True)
class Claim:
    """One statement with everything that is needed to judge it.

    Args:
        kind: ``paper`` (a statement of the paper about measurable things), ``printed`` (a sentence of the paper
            about its own printed table) or ``finding`` (ours).
        study: whose results judge it; empty for ``printed``.
        check: the function that reads the figures; ``arguments`` are its keyword arguments.
        guards: figures without which the comparison says nothing, for example that a network learned at all.
        setting: the data, radius and attack of its study, in words.
    """

    id: str
    statement: str
    paper: str
    where: str
    check: str
    figures: tuple[Figure, ...]
    reason: str
    study: str = ""
    kind: Kind = "paper"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    guards: tuple[Figure, ...] = ()
    needs: Reference | None = None
    least_budget: Budget = "smoke"
    corrects: str = ""
    setting: str = ""

    @property
    def source(self) -> str:
        """Paper and place."""
        return f"{self.paper}, {self.where}"

    @property
    def conditions(self) -> tuple[Figure, ...]:
        """What the results must show before they can judge the statement."""
        return (*((self.needs.figure,) if self.needs else ()), *self.guards)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets whose results can judge the statement, smallest first."""
        return BUDGETS[BUDGETS.index(self.least_budget) :]


def read_claim(record: Mapping[str, Any], paper: str) -> Claim:
    """The claim of one TOML record.

    Args:
        record: the table under ``[[claim]]``.
    """
    content = dict(record)
    name = content.get("id", "a claim without id")
    relation, tolerance = content.pop("relation", "="), float(content.pop("tolerance", 0.0))
    common = {"value": content.pop("value", None), **content.pop("published", {})}
    try:
        shown = _figures(content.pop("figures"), common, relation, tolerance)
        guards = _figures(content.pop("guards", {}), {}, ">", 0.0)
        needs = content.pop("needs", None)
        reference = Reference(**{**needs, "path": tuple(needs.get("path", Reference.path))}) if needs else None
        claim = Claim(**content, paper=paper, figures=shown, guards=guards, needs=reference)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name} is not a claim: {error}.") from error
    _check_words(claim)
    return claim


def family(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The records that a record with ``each`` stands for: one for every table of its list.

    ``{key}`` in a text is replaced by the table's value; a text that is nothing else becomes the value
    itself, of whatever type. A record without ``each`` stands for itself.

    Args:
        record: the table under ``[[claim]]``.

    >>> family({"id": "a-{n}", "value": "{n}", "each": [{"n": 1}, {"n": 2}]})
    ({'id': 'a-1', 'value': 1}, {'id': 'a-2', 'value': 2})
    """
    if "each" not in record:
        return (record,)
    plain = {key: value for key, value in record.items() if key != "each"}
    return tuple(_filled(plain, values) for values in record["each"])


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {str(_filled(key, values)): _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if not isinstance(value, str):
        return value
    for key, own in values.items():
        if value == f"{{{key}}}":
            return own
        value = value.replace(f"{{{key}}}", str(own))
    return value


def _check_words(claim: Claim) -> None:
    relations = {figure.relation for figure in (*claim.figures, *claim.conditions)}
    for word, allowed in (
        (claim.kind, get_args(Kind)),
        (claim.least_budget, BUDGETS),
        *((relation, get_args(Relation)) for relation in relations),
    ):
        if word not in allowed:
            raise InputError(f"{claim.id} has {word!r}, where one of {', '.join(allowed)} is allowed.")
    if (claim.kind == "printed") == bool(claim.study):
        raise InputError(f"{claim.id} must name a study, unless its kind is printed.")


def _figures(
    content: Mapping[str, Any] | list[str], common: Mapping[str, Any], relation: Relation, tolerance: float
) -> tuple[Figure, ...]:
    """Figures from names alone, from numbers by name, or from tables by name."""
    entries = {name: {} for name in content} if isinstance(content, list) else content
    figures = []
    for name, entry in entries.items():
        own = {**common, **(entry if isinstance(entry, Mapping) else {"value": entry})}
        address = {key: _of_figure(own.pop(key), name) for key in ADDRESS if key in own}
        fact = lookup(**address) if address else None
        value = own.pop("value")
        figures.append(
            Figure(
                name,
                float(value) if value is not None else fact.share if fact else float("nan"),
                own.pop("relation", relation),
                float(own.pop("tolerance", tolerance)),
                fact,
            )
        )
        if own:
            raise ValueError(f"{name} has no field {next(iter(own))}")
    return tuple(figures)


def _of_figure(text: str, name: str) -> str:
    """An address with ``{0}`` and ``{1}``, the parts of the figure's name: ``MNIST {0}`` of ``smooth 3, test``."""
    for number, part in enumerate(name.split(", ")):
        text = text.replace(f"{{{number}}}", part)
    return text


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, paper by paper."""
    claims: list[Claim] = []
    for name in FILES:
        content = tomllib.loads((files("radii_papers.claims") / f"{name}.toml").read_text(encoding="utf-8"))
        settings = tomllib.loads((files("radii_papers.claims") / "settings.toml").read_text(encoding="utf-8"))
        claims += [
            read_claim({"setting": settings.get(one.get("study", ""), ""), **one}, content["paper"])
            for record in content["claim"]
            for one in family(record)
        ]
    return tuple(claims)


def choose(what: str | None) -> tuple[Claim, ...]:
    """The claims that a word of the user means.

    Args:
        what: a claim's id, a study, or a part of the authors' names; None for all claims.
    """
    claims = all_claims()
    if what is None:
        return claims
    word = what.lower()
    chosen = [claim for claim in claims if claim.id == word] or [claim for claim in claims if claim.study == word]
    chosen = chosen or [claim for claim in claims if word in claim.paper.lower()]
    if not chosen:
        near = get_close_matches(word, [claim.id for claim in claims], n=1)
        studies = dict.fromkeys(claim.study for claim in claims if claim.study)
        hint = f"The nearest id is {near[0]!r}." if near else "`radii claims` lists the ids."
        raise unknown_name("claim, study or paper", what, studies, hint)
    return tuple(chosen)
