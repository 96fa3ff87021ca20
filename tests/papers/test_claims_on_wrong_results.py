"""Claims on wrong results: at chance level, shuffled, not numbers, reversed, constant. No claim may hold on them.

Nor may another column of the printed table fit a claim, or another claim say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from radii.runs.store import Store
from radii_papers.claims import judgment
from radii_papers.claims.claim import Claim, all_claims
from radii_papers.claims.judgment import judge, ledger
from radii_papers.published import facts
from wrong_results import changed, right, without_numbers, wrong

COINCIDENCES = 10  # of 15 shuffles: a claim that one number is the greater is right on half of them
# Claims that hold on such results, and why that is right.
ONE_NETWORK = "it compares numbers of the same network or dataset; which one has which is not part of it"
SPREAD = "a spread does not depend on the order"
MIDDLE = "the numbers of its table lie between 0 and 2, so 1 is its own mirror image"
EXCHANGED = "the mirror exchanges the two datasets of the study"
EXCEPTIONS = {
    ("prach-robust-overfitting-mnist", "reversed"): EXCHANGED,
    ("prach-better-near-training-points", "reversed"): EXCHANGED,
    ("ding-provable-clean", "reversed"): "in the mirror the network from random weights is the most accurate",
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
    ("ding-distance-goes-with-robustness", "reversed"): "distances are reversed, too",
    ("ding-pgd-clean-accuracy", "reversed"): SPREAD,
    ("ding-box-is-not-the-reason-measured", "reversed"): "leaving the box costs accuracy; in the mirror it gains some",
    ("vardi-condition-is-strict", "reversed"): "true of every dimension",
}
WAYS = ("chance", "noisy chance", "shuffled", "not numbers", "reversed")
STUDIED = [claim for claim in all_claims() if claim.study]


@pytest.fixture(autouse=True)
def by_figures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong results must be refused by the figures; that few points decide nothing is no help here."""
    monkeypatch.setattr(judgment, "share_of_resamples", lambda *_: None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("claim", STUDIED, ids=lambda claim: claim.id)
def test_no_claim_holds_on_wrong_results(claim: Claim, way: str) -> None:
    """Some random shuffles may be right by coincidence, but not many more than half of them."""
    known = wrong(right(claim).origin, claim.study)[way]
    holds = sum(judge(claim, results).status in ("holds", "finding") for results in known)
    assert (holds > (COINCIDENCES if way == "shuffled" else 0)) == ((claim.id, way) in EXCEPTIONS)


@pytest.mark.parametrize("claim", STUDIED, ids=lambda claim: claim.id)
def test_one_constant_does_not_show_that_figures_differ(claim: Claim) -> None:
    """A claim with figures that differ must fail where all are equal, whatever they are."""
    published = {figure.value for figure in claim.figures}
    if len(published) == 1:
        return  # it says that one figure, or each of several, stands so to one number
    for value in {*published, (min(published) + max(published)) / 2}:
        constant = changed(right(claim), lambda numbers, value=value: [value] * len(numbers))
        assert judge(claim, constant).status not in ("holds", "finding"), value


@pytest.mark.parametrize("claim", STUDIED, ids=lambda claim: claim.id)
def test_a_cell_that_is_no_number_is_never_overlooked(claim: Claim) -> None:
    """Where the figures of one cell are NaN, the claim does not hold, or nothing of it depends on that cell."""
    results = right(claim)
    known = judge(claim, results)
    for number in [at for at, cell in enumerate(results.measured) if cell.run in known.runs]:
        cells = list(results.measured)
        cells[number] = without_numbers(cells[number])
        verdict = judge(claim, replace(results, measured=tuple(cells)))
        names = [figure.name for figure in (*claim.figures, *claim.conditions)]
        same = [verdict.measured.get(name) for name in names] == [known.measured[name] for name in names]
        assert verdict.status not in ("holds", "finding") or same


# Claims that another printed column fits, too, and which.
FITTING = {
    **{
        f"ding-table4-{width}-{what}": "networks twice and four times as wide have almost the same printed figures"
        for width in ("double", "fourfold")
        for what in ("standard", "clean", "robust")
    },
    **{
        f"ding-table2-{what}": "robust accuracy and robustness with respect to predictions are almost the same"
        for what in ("robust", "stable")
    },
}
BY_VALUE = [
    claim
    for claim in STUDIED
    if len(claim.figures) > 1 and all(figure.fact and figure.relation == "=" for figure in claim.figures)
]


@pytest.mark.parametrize("claim", BY_VALUE, ids=lambda claim: claim.id)
def test_no_other_column_of_the_printed_table_fits(claim: Claim) -> None:
    fitting = [
        column
        for column in other_columns(claim)
        if all(
            abs(value - figure.value) <= figure.tolerance for value, figure in zip(column, claim.figures, strict=True)
        )
    ]
    assert bool(fitting) == (claim.id in FITTING)


def other_columns(claim: Claim) -> Iterator[list[float]]:
    """The same rows of the same table, of another model, method or metric."""
    known = [figure.fact for figure in claim.figures if figure.fact is not None]
    table = [fact for fact in facts() if (fact.paper, fact.table) == (known[0].paper, known[0].table)]
    for key in ("model", "method", "metric"):
        for other in dict.fromkeys(getattr(fact, key) for fact in table):
            if any(getattr(fact, key) == other for fact in known):
                continue
            column = [replace(fact, **{key: other}, value=0) for fact in known]
            values = {replace(fact, value=0): fact for fact in table if isinstance(fact.value, int | float)}
            if all(address in values for address in column):
                yield [values[address].share for address in column]


def test_no_claim_twice(tmp_path: Path) -> None:
    """No published figure is held against the shipped measurements of two claims in the same way."""
    measured = [verdict.claim for verdict in ledger(STUDIED, Store(tmp_path)) if verdict.measured]
    seen: dict[object, str] = {}
    for claim in measured:
        for figure in claim.figures:
            if figure.fact is not None:
                assert seen.setdefault((figure.fact, figure.relation), claim.id) == claim.id


def test_every_exception_is_a_claim() -> None:
    assert {name for name, _ in EXCEPTIONS} <= {claim.id for claim in all_claims()}


def test_claims_of_the_shipped_results_survive_a_rebuild() -> None:
    """The mutations change nothing but the numbers: with the same numbers every verdict is the same."""
    for claim in STUDIED:
        same = changed(right(claim), lambda numbers: numbers)
        assert judge(claim, same).status == judge(claim, right(claim)).status
