"""The ledger: every claim has a source and a reason, holds on results like the paper's, and can fail."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radii.errors import InputError
from radii.papers.claims import ding_training, prach_lampert_training
from radii.papers.claims.claim import (
    Claim,
    NotMeasured,
    Results,
    all_claims,
    check_budget,
    choose,
    is_shipped,
    judge,
    ledger,
)
from radii.papers.claims.reading import largest_fall, largest_rise, rank_correlation
from radii.papers.claims.wording import evidence as evidence_words
from radii.papers.claims.wording import expected, measured, outcome, summary
from radii.papers.published import published
from radii.runs.store import Store
from radii.studies import results as stored_results
from radii.studies.results import Evidence
from radii.studies.study import STUDIES, Measured

CLAIMS = {claim.id: claim for claim in all_claims()}
# Sentences of the papers that their own tables or exact recomputation contradict.
CONTRADICTED = {
    "yang-rough-methods",
    "yang-lipschitzness-and-robustness",
    "yang-dropout-smooths",
    "ding-box-is-not-the-reason",
    "ding-saturation-16",
    "ding-interclass-distance",
}


def share(value: float) -> dict[str, Any]:
    return {"value": value, "total": 2000}


def table2() -> list[Measured]:
    """Cells of sensitivity-mnist with the figures of Table 2."""
    columns = {(metric, method): ding_training.printed(metric, method) for metric, method in (
        ("test_acc_pct", "standard"), ("test_acc_pct", "PGD"), ("robust_acc_pct", "PGD"),
        ("robustness_wrt_predictions_pct", "PGD"))}  # fmt: skip
    return [
        Measured(
            {"variant": variant, "method": method},
            {
                "clean": share(columns["test_acc_pct", method][variant]),
                "robust_accuracy_at_most": columns["robust_acc_pct", "PGD"][variant],
                "robust_to_predictions": {"unbroken": share(columns["robustness_wrt_predictions_pct", "PGD"][variant])},
            },
            f"evaluate-{variant}-{method}",
        )
        for variant in ding_training.VARIANTS
        for method in ("standard", "PGD")
    ]


def table1() -> list[Measured]:
    """Cells of subspaces with the figures of Table 1."""
    columns = {
        metric: prach_lampert_training.printed(metric)
        for metric in ("train_acc_pct", "test_acc_pct", "train_cra_36_255_pct", "test_cra_36_255_pct")
    }
    cells = []
    for band in prach_lampert_training.BANDS:
        standard = {f"{s}_accuracy": columns[f"{s}_acc_pct"][band] for s in ("train", "test")}
        bounded = {s: {"certified": [share(columns[f"{s}_cra_36_255_pct"][band])]} for s in ("train", "test")}
        cells += [
            Measured({"band": band, "model": "standard"}, standard, f"train-{band}"),
            Measured({"band": band, "model": "1-Lipschitz"}, bounded, f"certify-{band}"),
        ]
    return cells


def scaling() -> list[Measured]:
    """Cells of data-scaling as the figures show them: 5 points per doubling, a saturating standard network."""
    radii = [36 / 255, 72 / 255, 108 / 255, 0.5, 1.0]
    cells = []
    for data, at in (("mnist", 4), ("cifar10", 0)):
        for step in range(6):
            for seed in range(3):
                test = 0.3 + 0.05 * step + 0.001 * seed
                place = {"data": data, "n": 1562 * 2**step, "seed": seed}
                values = [share(test + 0.02 * (at - k)) for k in range(5)]
                train = [share(min(0.99, s["value"] + 0.3 - 0.04 * step)) for s in values]
                bounded = {
                    "lipschitz": 1.0,
                    "radii": radii,
                    "test": {"clean": share(0.9), "certified": values},
                    "train": {"clean": share(1.0), "certified": train},
                }
                standard = {"train_accuracy": 1.0, "test_accuracy": 0.94 - 0.2 / 2**step}
                cells += [
                    Measured({**place, "model": "1-Lipschitz"}, bounded, f"certify-{data}-{step}-{seed}"),
                    Measured({**place, "model": "standard"}, standard, f"train-{data}-{step}-{seed}"),
                ]
    return cells


def separations() -> list[Measured]:
    cells = []
    for name, title in (("mnist", "MNIST"), ("cifar10", "CIFAR-10"), ("svhn", "SVHN")):
        splits = {
            split: {"minimum": published("002", "tab:separation", dataset=title, metric=f"min_{split}_train_linf")}
            for split in ("train", "test")
        }
        rest = {"contradictory_count": 0, "nearest_neighbor_rule": {"accuracy": 0.2, "astuteness": 0.02}}
        cells.append(Measured({"data": name}, {**splits, **rest}, f"audit-{name}"))
    return cells


MADE = {"sensitivity-mnist": table2, "subspaces": table1, "data-scaling": scaling, "separation": separations}


def like_the_papers(study: str) -> Evidence:
    """Results as the papers report them; those of laboratory studies are the ones we ran."""
    if study in MADE:
        cells = tuple(MADE[study]())
        return Evidence(study, "paper", len(cells), cells, {}, "made up")
    found = stored_results.find(study, Store.default(), "cpu")
    assert found is not None
    assert found.complete
    return found


@pytest.fixture(scope="module")
def papers() -> dict[str, Evidence]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADII_RUNS", "nowhere")
        return {study: like_the_papers(study) for study in {claim.study for claim in CLAIMS.values()}}


def test_there_are_many_claims_and_their_ids_are_unique() -> None:
    assert len(CLAIMS) == len(all_claims()) >= 70
    assert len({claim.statement for claim in CLAIMS.values()}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_has_source_reason_figures_and_study(claim: Claim) -> None:
    assert claim.id == claim.id.lower().replace(" ", "-")
    assert claim.statement.endswith(".")
    assert len(claim.because) > 5
    assert claim.paper.split()[-1].isdigit()  # "Ding et al. 2019"
    assert claim.where
    assert claim.study in STUDIES
    assert claim.published
    assert all(math.isfinite(value) for value in claim.published.values())
    assert claim.tolerance >= 0
    assert claim.budgets


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_holds_on_the_papers_own_figures(claim: Claim, papers: dict[str, Evidence]) -> None:
    verdict = judge(claim, papers[claim.study])
    assert verdict.status == ("fails" if claim.id in CONTRADICTED else "holds"), verdict
    assert verdict.runs
    assert verdict.excess is not None
    assert (verdict.excess > 0) == (claim.id in CONTRADICTED)
    assert set(claim.published) <= set(verdict.measured)
    json.dumps(verdict.to_dict(), allow_nan=False)


KEPT = {"radii", "predicted", "tolerance", "parameters", "seed"}  # what a wrong measurement cannot change


def spoiled(value: Any, change: Callable[[float], float]) -> Any:
    """The same result with every measured number changed."""
    if isinstance(value, Mapping):
        return {key: item if key in KEPT else spoiled(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spoiled(item, change) for item in value]
    return value if isinstance(value, bool | str) or value is None else change(float(value))


def wrong_results(found: Evidence) -> list[Evidence]:
    """Ways of being wrong: shifted, negated, erased, magnified, or each cell in another's place."""
    changes: list[Callable[[float], float]] = [
        lambda v: v + 1000, lambda v: v - 1000, lambda v: -v, lambda v: 0.0, lambda v: 1000 * v,
    ]  # fmt: skip
    made = [[replace(c, result=spoiled(c.result, change)) for c in found.measured] for change in changes]
    kinds: dict[tuple, list[Measured]] = {}
    for cell in found.measured:
        kinds.setdefault(tuple(sorted(cell.result)), []).append(cell)
    swapped = {id(a): b.result for own in kinds.values() for a, b in zip(own, reversed(own), strict=True)}
    made.append([replace(cell, result=swapped[id(cell)]) for cell in found.measured])
    return [replace(found, measured=tuple(cells)) for cells in made]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_can_fail(claim: Claim, papers: dict[str, Evidence]) -> None:
    verdicts = [judge(claim, wrong) for wrong in wrong_results(papers[claim.study])]
    failed = [verdict for verdict in verdicts if verdict.status == "fails"]
    assert failed
    assert all(verdict.excess is not None and verdict.excess > 0 for verdict in failed)


def made_claim(**changes: Any) -> Claim:
    plain = Claim(
        "a-claim",
        "It is 2.",
        "Nobody 2020",
        "Table 0",
        "separation",
        lambda found: {"a": found.at({"data": "x"})["a"], "b": 2.0},
        {"a": 2.0},
        0.5,
        "because it is",
    )
    return replace(plain, **changes)


def results(a: float) -> Evidence:
    return Evidence("separation", "cpu", 1, (Measured({"data": "x", "seed": 1}, {"a": a}, "audit-1"),), {}, "file")


@pytest.mark.parametrize(
    ("relation", "value", "status", "excess"),
    [
        ("=", 2.4, "holds", -0.1),
        ("=", 1.6, "holds", -0.1),
        ("=", 2.6, "fails", 0.1),
        ("=", 1.0, "fails", 0.5),
        ("≤", 2.5, "holds", 0.0),
        ("≤", -99.0, "holds", -101.5),
        ("≤", 3.0, "fails", 0.5),
        ("≥", 1.5, "holds", 0.0),
        ("≥", 1.0, "fails", 0.5),
        ("≥", math.nan, "fails", math.inf),
    ],
)
def test_verdicts_both_ways(relation: Any, value: float, status: str, excess: float) -> None:
    verdict = judge(made_claim(relation=relation), results(value))
    assert verdict.status == status
    assert verdict.excess == pytest.approx(excess)
    assert verdict.runs == ("audit-1",)
    assert verdict.budget == "cpu"
    assert verdict.origin == "file"


def test_the_worst_figure_decides() -> None:
    claim = made_claim(published={"a": 2.0, "b": 1.0})
    verdict = judge(claim, results(2.1))
    assert (verdict.status, verdict.worst, verdict.excess) == ("fails", "b", pytest.approx(0.5))
    assert measured(verdict) == "2 (worst of 2)"
    assert expected(verdict) == "= 1 ± 0.5"
    assert outcome(verdict) == "fails by 0.5"
    assert verdict.to_dict()["figures"][1] == {"figure": "b", "published": 1.0, "measured": 2.0}


def test_what_was_not_measured_is_not_run() -> None:
    assert judge(made_claim(), None).status == "not run"
    missing = judge(made_claim(check=lambda found: found.at({"data": "y"})), results(2.0))
    assert missing.status == "not run"
    assert "data y" in missing.note
    assert outcome(missing) == "not run"
    assert measured(missing) == ""
    assert evidence_words(missing) == "needs separation smoke|cpu|paper"
    with pytest.raises(NotMeasured, match="any place"):
        Results(()).every()


def test_a_part_of_a_study_is_not_taken_for_the_whole() -> None:
    """Means over seeds and steps from size to size need every cell; single cells do not."""
    cells = tuple(scaling()[:-1])
    part = Evidence("data-scaling", "cpu", len(cells) + 1, cells, {}, "file")
    verdict = judge(CLAIMS["prach-certified-grows"], part)
    assert verdict.status == "not run"
    assert "complete set of cells" in verdict.note
    some = table2()
    part = Evidence("sensitivity-mnist", "cpu", len(some) + 1, tuple(some), {}, "file")
    assert judge(CLAIMS["ding-robust-order"], part).status == "holds"
    with pytest.raises(NotMeasured, match="single cell"):
        Results(some).at({"method": "PGD"})


def test_a_budget_that_cannot_judge_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "radii.papers.claims.claim.find", lambda study, store, at: results(2.0) if at == "cpu" else None
    )
    assert ledger([made_claim()])[0].status == "holds"
    assert ledger([made_claim(budgets=("paper",))])[0].status == "not run"
    assert ledger([made_claim()], budget="paper")[0].status == "not run"
    assert ledger([made_claim()], budget="cpu")[0].status == "holds"


def test_paper_claims_are_not_judged_by_small_trainings() -> None:
    """What a shrunken network cannot show is not run at the cpu budget."""
    assert CLAIMS["prach-table1-certified-test"].budgets == ("paper",)
    assert all("smoke" not in CLAIMS[name].budgets for name in CLAIMS if CLAIMS[name].study == "subspaces")


def test_own_results_come_before_shipped_ones(tmp_path: Path) -> None:
    store = Store(tmp_path)
    shipped = ledger(choose("formulas"), store)
    assert all(is_shipped(verdict.origin) for verdict in shipped)
    path = tmp_path / "studies" / "formulas-cpu.json"
    path.parent.mkdir()
    content = json.loads(Path(shipped[0].origin).read_text())
    for cell in content["cells"]:
        if cell["place"]["formula"] == "uniform":
            cell["result"]["figures"]["variance"] = 0.25
    path.write_text(json.dumps(content))
    (own,) = ledger(choose("ding-uniform-variance"), store)
    assert (own.status, own.origin) == ("fails", str(path))
    assert evidence_words(own) == "formulas cpu own"
    assert own.excess == pytest.approx(0.25 - 1 / 12 - 0.0003)


def test_choosing() -> None:
    assert [claim.id for claim in choose("ding-facets")] == ["ding-facets"]
    assert {claim.study for claim in choose("geometry")} == {"geometry"}
    assert {claim.paper for claim in choose("vardi")} == {"Vardi et al. 2022"}
    assert choose(None) == all_claims()
    with pytest.raises(InputError, match="nearest id is 'ding-facets'"):
        choose("ding-facet")
    with pytest.raises(InputError, match="lists the ids"):
        choose("xyzzy")
    with pytest.raises(InputError, match="smoke, cpu, paper"):
        check_budget("huge")
    assert check_budget(None) is None


def test_summary_counts() -> None:
    verdicts = [judge(made_claim(), results(2.0)), judge(made_claim(), results(9.0)), judge(made_claim(), None)]
    assert summary(verdicts) == "3 claims: 1 hold, 1 fail, 1 not run."


def test_rank_correlation_agrees_with_scipy() -> None:
    from scipy.stats import spearmanr

    a, b = [3.0, 1.0, 2.0, 2.0, 5.0], [2.0, 2.0, 7.0, 1.0, 9.0]
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert math.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0]))
    assert largest_rise([3.0, 2.0, 2.5]) == 0.5
    assert largest_fall([3.0, 2.0, 2.5]) == 1.0
