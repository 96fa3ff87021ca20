"""How claims read results: rows of theorems, figures of formulas, orders of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from radii.papers.claims.claim import Figures, NotMeasured, Results

Check = Callable[[Results], Figures]


def theorem(result: str, quantities: Iterable[str]) -> Check:
    """What the simulation of ``result`` measured for each of the ``quantities``, which name rows of its table."""

    def check(found: Results) -> Figures:
        rows = {row["quantity"]: row["measured"] for row in found.at({"result": result})["rows"]}
        missing = [name for name in quantities if rows.get(name) is None]
        if missing:
            raise NotMeasured(f"{result}, {missing[0]}")
        return {name: float(rows[name]) for name in quantities}

    return check


FAILING = "predictions that fail"


def predictions(result: str, word: str = "") -> Check:
    """How many predictions of ``result`` whose quantity contains ``word`` disagree with their measurement."""

    def check(found: Results) -> Figures:
        rows = [row for row in found.at({"result": result})["rows"] if word in row["quantity"]]
        judged = [row for row in rows if row["predicted"] is not None]
        if not judged:
            raise NotMeasured(f"{result}, {word}")
        return {FAILING: float(sum(not _agrees(row) for row in judged))}

    return check


def _agrees(row: Mapping[str, Any]) -> bool:
    if row["measured"] is None:
        return False
    off, tolerance = row["measured"] - row["predicted"], row["tolerance"]
    return bool({"=": abs(off) <= tolerance, "≤": off <= tolerance, "≥": off >= -tolerance}[row["relation"]])


def formula(name: str, figures: Iterable[str]) -> Check:
    """Figures of a formula by name."""

    def check(found: Results) -> Figures:
        known = found.at({"formula": name})["figures"]
        return {figure: float(known[figure]) for figure in figures}

    return check


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks, ties sharing theirs; NaN where one side is constant."""
    ranked = [_ranks(values) for values in (a, b)]
    middle = (len(a) - 1) / 2
    x, y = ([rank - middle for rank in ranks] for ranks in ranked)
    spread = (sum(v * v for v in x) * sum(v * v for v in y)) ** 0.5
    return sum(v * w for v, w in zip(x, y, strict=True)) / spread if spread else float("nan")


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(other < v for other in values) + (sum(other == v for other in values) - 1) / 2 for v in values]


def largest_rise(values: Sequence[float]) -> float:
    """The greatest step up from one value to the next; negative where all fall."""
    return max(b - a for a, b in pairwise(values))


def largest_fall(values: Sequence[float]) -> float:
    """The greatest step down."""
    return largest_rise([-value for value in values])


def average(values: Sequence[float]) -> float:
    """The mean, of at least one value."""
    return sum(values) / len(values)


def ratio(part: float, whole: float) -> float:
    """``part / whole``; NaN, which no claim accepts, where there is no positive whole to compare with."""
    return part / whole if whole > 0 else float("nan")
