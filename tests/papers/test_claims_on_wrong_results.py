"""Claims on wrong results: at chance level, shuffled, not numbers, reversed. No claim may hold on any of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_results import MADE, made_evidence
from radii.papers.claims.claim import Claim, all_claims
from radii.papers.claims.judgment import judge
from radii.runs.store import Store
from radii.studies.results import Evidence, find, read

KEPT = {"radii", "predicted", "tolerance", "parameters", "seed", "epsilon", "relation", "quantity", "total", "n"}
CHANCE = 0.1  # of ten classes
SEEDS = range(5)
SHUFFLES, COINCIDENCES = range(15), 10  # a claim that one number is the greater is right on half of all shuffles
Keys = tuple[str | int, ...]


def leaves(value: Any, path: Keys = ()) -> Iterator[tuple[Keys, float]]:
    """The measured numbers of a result with their paths."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in KEPT:
                yield from leaves(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def rebuilt(value: Any, numbers: Mapping[Keys, float], path: Keys = ()) -> Any:
    """The same result with its measured numbers taken from ``numbers``."""
    if isinstance(value, Mapping):
        return {k: v if k in KEPT else rebuilt(v, numbers, (*path, k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rebuilt(item, numbers, (*path, index)) for index, item in enumerate(value)]
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


# Claims that hold on such results, and why that is right.
ONE_NETWORK = "it compares numbers of the same network or dataset; which one has which is not part of it"
SPREAD = "a spread does not depend on the order"
MIDDLE = "the numbers of its table lie between 0 and 2, so 1 is its own mirror image"
ALIKE = "the printed accuracies differ by less than the tolerance"
OPPOSITE = "the measured order is the opposite of the printed one"
EXCEPTIONS = {
    ("yang-separated-beyond-2-epsilon", "reversed"): "true of every dataset of the study",
    ("yang-no-exact-contradiction", "reversed"): "zero for every dataset of the study",
    ("yang-sample-is-not-support", "reversed"): ONE_NETWORK,
    ("yang-lipschitz-1-over-r", "reversed"): MIDDLE,
    ("yang-r-is-the-limit", "reversed"): MIDDLE,
    ("ding-uniform-variance", "reversed"): "one number has no order",
    ("ding-robustness-is-sensitive", "reversed"): SPREAD,
    ("ding-clean-accuracy-is-not-sensitive", "reversed"): SPREAD,
    ("ding-sensitivity-is-of-robustness", "reversed"): SPREAD,
    ("ding-predictions-are-kept-longer", "reversed"): ONE_NETWORK,
    ("ding-errors-are-vulnerability", "reversed"): ONE_NETWORK,
    ("ding-table2-clean-standard", "reversed"): ALIKE,
    **{
        (f"ding-table4-{width}-standard{rest}", "reversed"): ALIKE
        for width in ("eighth", "quarter", "half", "whole", "double", "fourfold")
        for rest in ("", "-smoother")
    },
    ("ding-table4-by-table2-standard", "reversed"): ALIKE,
    ("ding-distance-goes-with-robustness", "reversed"): "distances are reversed, too",
    ("yang-mnist-cnn2-test", "reversed"): OPPOSITE,
    ("yang-dropout-gap", "reversed"): OPPOSITE,
    ("yang-cifar-gap", "reversed"): OPPOSITE,
    ("ding-pgd-clean-accuracy", "reversed"): SPREAD,
    ("ding-box-is-not-the-reason-measured", "reversed"): "leaving the box costs accuracy; in the mirror it gains some",
    ("vardi-condition-is-strict", "reversed"): "true of every dimension",
}
WAYS = ("chance", "noisy chance", "shuffled", "not numbers", "reversed")
STUDIED = [claim for claim in all_claims() if claim.study]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("claim", STUDIED, ids=lambda claim: claim.id)
def test_no_claim_holds_on_wrong_results(claim: Claim, way: str) -> None:
    """Some random shuffles may be right by coincidence, but not many more than half of them."""
    known = wrong(right(claim).origin, claim.study)[way]
    holds = sum(judge(claim, results).status in ("holds", "finding") for results in known)
    assert (holds > (COINCIDENCES if way == "shuffled" else 0)) == ((claim.id, way) in EXCEPTIONS)


def test_every_exception_is_a_claim() -> None:
    assert {name for name, _ in EXCEPTIONS} <= {claim.id for claim in all_claims()}


def test_claims_of_the_shipped_results_survive_a_rebuild() -> None:
    """The mutations change nothing but the numbers: with the same numbers every verdict is the same."""
    for claim in STUDIED:
        same = changed(right(claim), lambda numbers: numbers)
        assert judge(claim, same).status == judge(claim, right(claim)).status
