"""A claim that compares robust networks with standard ones is judged only where the standard ones are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from radii.studies.results import Evidence
from radii.studies.study import Measured
from radii_papers.claims import judgment
from radii_papers.claims.claim import Claim, Reference, all_claims
from radii_papers.claims.judgment import judge
from wrong_results import leaves, rebuilt, right

STANDARD = {"standard", "Natural"}  # trained on clean points only, without a bound
CLAIMS = {claim.id: claim for claim in all_claims()}


def is_standard(cell: Measured) -> bool:
    return bool(STANDARD & {str(value) for value in cell.place.values()})


def at_other_numbers(results: Evidence, chosen: Callable[[Measured], bool]) -> Evidence:
    """Every number of the chosen cells is another one."""
    draw = np.random.default_rng(0)
    cells = [
        replace(cell, result=rebuilt(cell.result, {path: draw.uniform() for path in leaves(cell.result)}))
        if chosen(cell)
        else cell
        for cell in results.measured
    ]
    return replace(results, measured=tuple(cells))


def figures(claim: Claim, results: Evidence) -> list[float]:
    measured = judge(claim, results).measured
    return [measured[figure.name] for figure in claim.figures]


def compares_networks(claim: Claim) -> bool:
    """Whether its figures depend on a standard network and on another one, too."""
    results = right(claim)
    known = figures(claim, results)
    return known != figures(claim, at_other_numbers(results, is_standard)) and known != figures(
        claim, at_other_numbers(results, lambda cell: not is_standard(cell))
    )


def with_training_accuracy(results: Evidence, reference: Reference, value: float) -> Evidence:
    """The reference networks have this accuracy on their training points."""
    cells = [
        replace(cell, result=rebuilt(cell.result, {reference.path: value}))
        if reference.place.items() <= dict(cell.place).items()
        else cell
        for cell in results.measured
    ]
    return replace(results, measured=tuple(cells))


def trained_networks() -> list[Claim]:
    """Claims over studies that have a standard network."""
    return [claim for claim in CLAIMS.values() if claim.study and any(map(is_standard, right(claim).measured))]


def test_every_comparison_has_a_trained_reference() -> None:
    compared = {claim.id for claim in trained_networks() if compares_networks(claim)}
    assert {"prach-robust-learning-is-hungrier", "prach-accuracy-above-certified", "ding-gamma"} <= compared
    assert compared == {claim.id for claim in CLAIMS.values() if claim.needs is not None}


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS.values() if claim.needs], ids=lambda claim: claim.id)
def test_a_starved_reference_decides_nothing(claim: Claim) -> None:
    assert claim.needs is not None
    results = with_training_accuracy(right(claim), claim.needs, claim.needs.least - 0.01)
    verdict = judge(claim, results)
    assert verdict.status == "not decided"
    assert claim.needs.figure.name in verdict.note
    trained = judge(claim, with_training_accuracy(results, claim.needs, claim.needs.least))
    assert claim.needs.figure.name not in trained.note


def test_a_single_starved_network_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgment, "share_of_resamples", lambda *_: None)  # the guard alone is asked
    claim = CLAIMS["prach-robust-learning-is-hungrier"]
    assert claim.needs is not None
    results = with_training_accuracy(right(claim), claim.needs, 1.0)
    assert judge(claim, results).status == "holds"
    one = next(cell for cell in results.measured if is_standard(cell))
    starved = replace(one, result=rebuilt(one.result, {("train_accuracy",): 0.5}))
    cells = tuple(starved if cell is one else cell for cell in results.measured)
    assert judge(claim, replace(results, measured=cells)).status == "not decided"
