"""Results that are wrong in a stated way, made from right ones: at chance level, shuffled, not numbers, reversed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from made_results import MADE, made_evidence
from radii.runs.step_results import StepResult
from radii.runs.store import Store
from radii.studies.results import Evidence, find, read
from radii.studies.study import Measured
from radii_papers.claims.claim import Claim
from radii_papers.claims.judgment import judge

KEPT = {"radii", "predicted", "tolerance", "parameters", "seed", "epsilon", "relation", "quantity", "total", "n"}
CHANCE = 0.1  # of ten classes
SEEDS = range(5)
SHUFFLES = range(15)
Keys = tuple[str | int, ...]


class AnyNumbers(SimpleNamespace):
    """A result whose figures are any numbers, under the names of its record; no record would allow them."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content
        super().__init__(**{"bound": None} | {key: _named(value) for key, value in content.items()})


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return AnyNumbers(value)
    return [_named(item) for item in value] if isinstance(value, list) else value


_CONTENTS: dict[int, tuple[StepResult, dict[str, Any]]] = {}  # the results themselves, so that no id is used again


def content(result: Any) -> Mapping[str, Any]:
    """A result as JSON data, made once."""
    if isinstance(result, AnyNumbers):
        return result.content
    if id(result) not in _CONTENTS:
        _CONTENTS[id(result)] = result, result.to_json()
    return _CONTENTS[id(result)][1]


def leaves(result: Any) -> Iterator[tuple[Keys, float]]:
    """The measured numbers of a result with their paths."""
    return _leaves(content(result), ())


def _leaves(value: Any, path: Keys) -> Iterator[tuple[Keys, float]]:
    if isinstance(value, Mapping):
        for key, item in sorted(value.items()):
            if key not in KEPT:
                yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def rebuilt(result: Any, numbers: Mapping[Keys, float]) -> Any:
    """The same result with its measured numbers taken from ``numbers``."""
    return AnyNumbers(_rebuilt(content(result), numbers, ()))


def _rebuilt(value: Any, numbers: Mapping[Keys, float], path: Keys) -> Any:
    if isinstance(value, Mapping):
        return {k: v if k in KEPT else _rebuilt(v, numbers, (*path, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_rebuilt(item, numbers, (*path, index)) for index, item in enumerate(value)]
    return numbers.get(path, value)


def changed(results: Evidence, change: Callable[[list[float]], list[float]]) -> Evidence:
    """All measured numbers of a study through ``change``."""
    known = [dict(leaves(cell.result)) for cell in results.measured]
    numbers = iter(change([number for own in known for number in own.values()]))
    cells = [
        replace(cell, result=rebuilt(cell.result, {path: next(numbers) for path in own}))
        for cell, own in zip(results.measured, known, strict=True)
    ]
    return replace(results, measured=tuple(cells))


def at_chance(results: Evidence) -> Evidence:
    """Every number is the accuracy of guessing."""
    return changed(results, lambda numbers: [CHANCE] * len(numbers))


def noisy_chance(results: Evidence, seed: int) -> Evidence:
    """Every number is the accuracy of guessing on 2,000 points."""
    draw = np.random.default_rng(seed)
    return changed(results, lambda numbers: list(draw.binomial(2000, CHANCE, len(numbers)) / 2000))


def shuffled(results: Evidence, seed: int) -> Evidence:
    """Every number stands in another's place."""
    draw = np.random.default_rng(seed)
    return changed(results, lambda numbers: list(draw.permutation(numbers)))


def not_numbers(results: Evidence) -> Evidence:
    """Every number is NaN."""
    return changed(results, lambda numbers: [math.nan] * len(numbers))


def without_numbers(cell: Measured) -> Measured:
    """The cell with NaN instead of every number."""
    return replace(cell, result=rebuilt(cell.result, {path: math.nan for path, _ in leaves(cell.result)}))


def mirrored(results: Evidence) -> Evidence:
    """Every order is reversed: greatest and least of the cells of one kind change places, and so on between them.

    A cell that has no other of its kind is mirrored in itself.
    """
    groups: dict[Any, list[float]] = {}
    known = [dict(leaves(cell.result)) for cell in results.measured]
    kinds = [
        tuple(cell.place.get(key) for key in ("model", "method", "measure", "result", "formula"))
        for cell in results.measured
    ]

    def group(kind: Any, path: Keys) -> Any:
        return (kind, path) if kinds.count(kind) > 1 else kind

    for kind, own in zip(kinds, known, strict=True):
        for path, number in own.items():
            groups.setdefault(group(kind, path), []).append(number)
    cells = []
    for cell, kind, own in zip(results.measured, kinds, known, strict=True):
        ends = {path: groups[group(kind, path)] for path in own}
        turned = {path: min(ends[path]) + max(ends[path]) - number for path, number in own.items()}
        cells.append(replace(cell, result=rebuilt(cell.result, turned)))
    return replace(results, measured=tuple(cells))


def wrong_results(results: Evidence) -> dict[str, tuple[Evidence, ...]]:
    """Ways of being wrong, by name; several shuffles, because one may be right by coincidence."""
    return {
        "chance": (at_chance(results),),
        "noisy chance": tuple(noisy_chance(results, seed) for seed in SEEDS),
        "shuffled": tuple(shuffled(results, seed) for seed in SHUFFLES),
        "not numbers": (not_numbers(results),),
        "reversed": (mirrored(results),),
    }


@cache
def saved(study: str) -> Evidence | None:
    return find(study, Store(Path("nowhere")), "cpu")


def right(claim: Claim) -> Evidence:
    """The shipped results, or results made from the paper's tables where the shipped ones do not judge the claim."""
    shipped = saved(claim.study)
    if shipped is not None and (claim.study not in MADE or judge(claim, shipped).status != "not run"):
        return shipped
    return made_evidence(claim.study)


@cache
def wrong(origin: str, study: str) -> dict[str, tuple[Evidence, ...]]:
    """Wrong results of a study, made from the shipped results or from those of the paper."""
    return wrong_results(made_evidence(study) if origin == "made up" else read(Path(origin)))
