"""Results that are wrong in a stated way, made from right ones: at chance level, shuffled, not numbers, reversed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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


class AnyNumbers:
    """A result with other figures, any numbers, under the names of its record; no record would allow them.

    Args:
        content: the right result, or a part of it, as JSON data.
        numbers: the figures to show instead, by their paths in the whole result.
        path: where the part stands.
    """

    def __init__(self, content: Mapping[str, Any], numbers: Mapping[Keys, float], path: Keys = ()) -> None:
        self._content, self._numbers, self._path = content, numbers, path

    def other(self, numbers: Mapping[Keys, float]) -> AnyNumbers:
        """The same with more figures replaced."""
        return AnyNumbers(self._content, {**self._numbers, **numbers}, self._path)

    def __getattr__(self, name: str) -> Any:
        if name not in self._content:
            if name == "bound":
                return None
            raise AttributeError(name)
        return _with_numbers(self._content[name], {} if name in KEPT else self._numbers, (*self._path, name))


def _with_numbers(value: Any, numbers: Mapping[Keys, float], path: Keys) -> Any:
    if isinstance(value, Mapping):
        return AnyNumbers(value, numbers, path)
    if isinstance(value, list):
        return [_with_numbers(item, numbers, (*path, index)) for index, item in enumerate(value)]
    return numbers.get(path, value)


class Content(NamedTuple):
    """A result as JSON data, and the measured numbers in it by their paths."""

    result: StepResult  # itself, so that no id is used again
    data: Mapping[str, Any]
    numbers: Mapping[Keys, float]


_CONTENTS: dict[int, Content] = {}


def content(result: StepResult) -> Content:
    """What stands in a result, read once."""
    if id(result) not in _CONTENTS:
        data = result.to_json()
        _CONTENTS[id(result)] = Content(result, data, dict(_leaves(data, ())))
    return _CONTENTS[id(result)]


def leaves(result: StepResult) -> Mapping[Keys, float]:
    """The measured numbers of a result with their paths."""
    return content(result).numbers


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


def rebuilt(result: StepResult | AnyNumbers, numbers: Mapping[Keys, float]) -> AnyNumbers:
    """The same result with its measured numbers taken from ``numbers``."""
    return result.other(numbers) if isinstance(result, AnyNumbers) else AnyNumbers(content(result).data, numbers)


def changed(results: Evidence, change: Callable[[list[float]], list[float]]) -> Evidence:
    """All measured numbers of a study through ``change``."""
    known = [leaves(cell.result) for cell in results.measured]
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
    return replace(cell, result=rebuilt(cell.result, dict.fromkeys(leaves(cell.result), math.nan)))


def mirrored(results: Evidence) -> Evidence:
    """Every order is reversed: greatest and least of the cells of one kind change places, and so on between them.

    A cell that has no other of its kind is mirrored in itself.
    """
    groups: dict[Any, list[float]] = {}
    known = [leaves(cell.result) for cell in results.measured]
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
