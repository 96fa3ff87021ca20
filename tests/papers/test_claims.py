"""The ledger: every claim has a source and a reason, and the verdict is the right one on results like the papers'."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import made_results
from made_records import audited, certified, evaluated, split, trained
from radii.attacks.suite import PGD_40
from radii.errors import InputError
from radii.runs.step_results import StepResult
from radii.runs.store import Store
from radii.studies.results import Evidence
from radii.studies.study import STUDIES, Measured, registered_study
from radii.tables import format_radius
from radii_papers.claims import _checks as checks
from radii_papers.claims import _study_cells as study_cells
from radii_papers.claims import judgment
from radii_papers.claims._study_cells import NotMeasured, StudyCells, rank_correlation
from radii_papers.claims.claim import Claim, Figure, all_claims, choose, read_claim
from radii_papers.claims.judgment import counts, is_shipped, judge, ledger, summary
from radii_papers.published import lookup

CLAIMS = {claim.id: claim for claim in all_claims()}
VARIANTS = ("binarized", "original", *(f"smooth {s}" for s in range(2, 9)))


def column(metric: str, method: str) -> dict[str, float]:
    """A column of Table 2 as shares."""
    return {
        v: lookup("003", "Table 2", dataset=f"MNIST {v}", method=method, metric=metric).number / 100 for v in VARIANTS
    }


def band(name: str, metric: str) -> float:
    return lookup("000", "Table 1", method=f"PC {name.replace(',', ' & ')}", metric=metric).number / 100


def table2() -> list[Measured]:
    """Cells of sensitivity-mnist with the figures of Table 2; a stronger attack takes 20 points more."""
    columns = {(metric, method): column(metric, method) for metric, method in (
        ("test_acc_pct", "standard"), ("test_acc_pct", "PGD"), ("robust_acc_pct", "PGD"),
        ("robustness_wrt_predictions_pct", "PGD"))}  # fmt: skip
    stronger = evaluated(columns["robust_acc_pct", "PGD"]["smooth 8"] - 0.2)
    place = {"variant": "smooth 8", "method": "PGD", "width": 1.0, "measure": "standard suite"}
    return [
        Measured(place, stronger, "evaluate-suite"),
        *(
            Measured(
                {"variant": variant, "method": "standard", "width": 1.0, "measure": "training"},
                trained(columns["test_acc_pct", "standard"][variant]),
                "train",
            )
            for variant in VARIANTS
        ),
        *(
            Measured(
                {"variant": variant, "method": method, "width": 1.0, "measure": "PGD-40"},
                evaluated(
                    columns["robust_acc_pct", "PGD"][variant],
                    columns["test_acc_pct", method][variant],
                    kept=columns["robustness_wrt_predictions_pct", "PGD"][variant],
                ),
                f"evaluate-{variant}-{method}",
            )
            for variant in VARIANTS
            for method in ("standard", "PGD")
        ),
    ]


def table1() -> list[Measured]:
    """Cells of subspaces with the figures of Table 1."""
    cells = []
    for name in checks.BANDS:
        standard = trained(band(name, "test_acc_pct"), band(name, "train_acc_pct"))
        test, train = (split(0.9, [band(name, f"{part}_cra_36_255_pct")]) for part in ("test", "train"))
        cells += [
            Measured({"band": name, "model": "standard"}, standard, f"train-{name}"),
            Measured({"band": name, "model": "1-Lipschitz"}, certified([36 / 255], test, train), f"certify-{name}"),
        ]
    fitted = certified([36 / 255], None, split(1.0, [0.97]))
    return [*cells, Measured({"band": "1-16", "model": "no augmentation"}, fitted, "certify-still")]


def scaling() -> list[Measured]:
    """Cells of data-scaling as the figures show them: 5 points per doubling, a saturating standard network."""
    radii = [36 / 255, 72 / 255, 108 / 255, 0.5, 1.0]
    cells = []
    for data, at in (("mnist", 4), ("cifar10", 0)):
        for step in range(6):
            for seed in range(3):
                test = 0.3 + 0.05 * step + 0.001 * seed
                place = {"data": data, "n": 1562 * 2**step, "seed": seed}
                values = [test + 0.02 * (at - k) for k in range(5)]
                train = [min(0.99, value + 0.3 - 0.04 * step) for value in values]
                bounded = certified(radii, split(0.9, values), split(1.0, train))
                standard = trained(0.94 - 0.2 / 2**step)
                cells += [
                    Measured({**place, "model": "1-Lipschitz"}, bounded, f"certify-{data}-{step}-{seed}"),
                    Measured({**place, "model": "standard"}, standard, f"train-{data}-{step}-{seed}"),
                ]
    return cells


def separations() -> list[Measured]:
    cells = []
    for name, title in (("mnist", "MNIST"), ("cifar10", "CIFAR-10"), ("svhn", "SVHN")):
        train, test = (
            lookup("002", "tab:separation", dataset=title, metric=f"min_{part}_train_linf").number
            for part in ("train", "test")
        )
        cells.append(Measured({"data": name}, audited(train, test), f"audit-{name}"))
    return cells


MADE = {
    "sensitivity-mnist": table2,
    "subspaces": table1,
    "data-scaling": scaling,
    "separation": separations,
    **made_results.MADE,
}


def like_the_paper(study: str) -> Evidence:
    """Results as the paper reports them."""
    cells = tuple(MADE[study]())
    return Evidence(study, "paper", len(cells), cells, {}, "made up")


def test_there_are_261_claims_and_their_ids_are_unique() -> None:
    assert len(CLAIMS) == len(all_claims()) == 294
    assert len({claim.statement for claim in CLAIMS.values()}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_has_source_reason_figures_and_study(claim: Claim) -> None:
    assert claim.id == claim.id.lower().replace(" ", "-")
    assert claim.statement.endswith(".")
    assert len(claim.reason) > 5
    assert claim.paper.split()[-1].isdigit()  # "Ding et al. 2019"
    assert claim.where
    assert claim.study in STUDIES or claim.kind == "printed"
    assert claim.figures
    assert all(math.isfinite(figure.value) and figure.tolerance >= 0 for figure in (*claim.figures, *claim.guards))
    assert checks.check_function(claim.check).__doc__
    assert claim.budgets


def test_kinds() -> None:
    """A sentence about a printed table needs no run; findings are ours and not counted among the papers' statements."""
    kinds = [claim.kind for claim in CLAIMS.values()]
    assert (kinds.count("printed"), kinds.count("finding")) == (13, 63)
    printed = ledger([claim for claim in CLAIMS.values() if claim.kind == "printed"])
    assert {verdict.status for verdict in printed} == {"as printed", "fails"}
    assert {verdict.claim.id for verdict in printed if verdict.status == "fails"} == {
        "yang-rough-methods", "yang-dropout-smooths", "ding-box-is-not-the-reason", "ding-saturation-16",
    }  # fmt: skip


def test_statements_name_their_radius() -> None:
    """A claim at a radius of its own says which, on every dataset."""
    for claim in CLAIMS.values():
        radii = {**claim.arguments.get("radii", {}), "": claim.arguments.get("radius")}
        for radius in filter(None, radii.values()):
            assert re.search(rf"(L2|at) {format_radius(round(radius, 12))}\b", claim.statement), claim.id


def test_statements_name_the_attack_that_was_used_and_that_of_the_paper() -> None:
    """PGD-40 is the attack of Ding et al. on MNIST, 40 steps of 0.01; on CIFAR-10 theirs has 10 steps of 2/255."""
    attack = PGD_40["pgd-40"]
    assert (attack.steps, attack.step * 0.3) == (40, pytest.approx(0.01))
    attacked = [claim for claim in CLAIMS.values() if "PGD-40" in claim.statement and claim.paper == "Ding et al. 2019"]
    named = {claim.study for claim in attacked if "PGD-10 in the paper" in claim.statement}
    assert named == {"sensitivity-cifar", "capacity-cifar", "gamma"}
    assert not any("PGD-10" not in claim.statement for claim in attacked if claim.study in named)
    assert all("10 steps of 2/255" in registered_study(name).about for name in named)


def test_counts_behind_a_reason_are_read_from_the_results(tmp_path: Path) -> None:
    typed = re.compile(r"\b[\d,]*\d{3} (test |training )?(points|images|networks|queries|training sets)\b")
    assert not [claim.id for claim in CLAIMS.values() if typed.search(claim.reason)]
    (verdict,) = ledger(choose("ding-table2-robust"), Store(tmp_path))
    assert verdict.reason == "seeds, a reimplementation and 2,000 test points"
    (theorem,) = ledger(choose("ding-axis-half-space"), Store(tmp_path))
    assert theorem.reason == "four standard errors of a share of 20,000 points"
    (near,) = ledger(choose("prach-better-near-training-points"), Store(tmp_path))
    assert near.counts["points"] == 2000
    assert judge(CLAIMS["ding-table2-robust"], None).reason == "seeds, a reimplementation and the test points"
    judged = [verdict for verdict in ledger(all_claims(), Store(tmp_path)) if verdict.measured]
    known = {word for verdict in judged for word in re.findall(r"\{(\w+)\}", verdict.claim.reason)}
    assert known == {"points", "samples", "tests", "networks", "queries", "training_sets"}
    assert not [verdict.claim.id for verdict in judged if re.search(r"\bthe (test )?points (have|are)", verdict.reason)]


@pytest.mark.parametrize("name", ["schmidt-bernoulli-samples", "vardi-perturbation-length", "bubeck-median-step"])
def test_a_constant_that_no_paper_states_is_a_finding(name: str) -> None:
    assert CLAIMS[name].kind == "finding"


def test_the_step_that_flips_is_not_near_1_almost_always(tmp_path: Path) -> None:
    (verdict,) = ledger(choose("bubeck-step-near-1"), Store(tmp_path))
    assert verdict.status == "fails"
    assert max(verdict.measured.values()) < 0.5


def test_the_shipped_results(tmp_path: Path) -> None:
    """Changes of verdicts are deliberate: count them here."""
    verdicts = ledger(all_claims(), Store(tmp_path))
    assert counts(verdicts) == {
        "fails": 28, "holds": 119, "as printed": 9, "finding": 63, "not decided": 36, "not run": 39,
    }  # fmt: skip
    for verdict in verdicts:
        json.dumps(verdict.to_dict(), allow_nan=False)
        assert verdict.runs or verdict.status == "not run" or verdict.claim.kind == "printed"


@pytest.mark.parametrize("claim", [c for c in CLAIMS.values() if c.study in MADE], ids=lambda claim: claim.id)
def test_a_claim_about_trained_networks_holds_on_the_papers_figures(
    claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its figures: with the papers' own 10,000 points some printed columns, within a point, would not be decided."""
    monkeypatch.setattr(judgment, "share_of_resamples", lambda *_: None)
    verdict = judge(claim, like_the_paper(claim.study))
    assert verdict.status == {"paper": "holds", "finding": "finding"}[claim.kind], verdict
    assert verdict.runs


def test_fewer_radii_are_not_a_traceback() -> None:
    """Own results may have other radii than those that the claim is about."""
    results = like_the_paper("data-scaling")
    cells = [replace(cell, result=cell.result.model_copy(update={"radii": (0.1,)})) for cell in results.measured]
    verdict = judge(CLAIMS["prach-certified-grows"], replace(results, measured=tuple(cells)))
    assert verdict.status == "not run"
    assert "certified accuracy at radius 0.1412" in verdict.note
    with pytest.raises(NotMeasured, match="certified accuracy at radius 1 of test points"):
        study_cells.certified(certified([1.0], None), "test", 1.0)
    with pytest.raises(NotMeasured, match="certified accuracy at radius 1"):
        study_cells.certified(certified([1.0], split(0.9, [0.5], estimated=True)), "test", 1.0)


def test_one_seed_has_no_interval() -> None:
    results = like_the_paper("data-scaling")
    cells = tuple(cell for cell in results.measured if cell.place["seed"] == 0)
    verdict = judge(CLAIMS["prach-gap-shrinks-with-data"], replace(results, measured=cells, planned=len(cells)))
    assert (verdict.status, "two seeds" in verdict.note) == ("not run", True)


class TwoFigures(StepResult):
    a: float
    b: float


def made_claim(**changes: Any) -> Claim:
    plain = Claim(
        "a-claim", "It is 2.", "Nobody 2020", "Table 0", "values", (Figure("a", 2.0, "=", 0.5),), "because it is",
        "separation", arguments={"place": {"data": "x"}, "paths": {"a": ["a"], "b": ["b"]}},
    )  # fmt: skip
    return replace(plain, **changes)


def results(a: float, b: float = 2.0) -> Evidence:
    cell = Measured({"data": "x", "seed": 1}, TwoFigures(a=a, b=b), "audit-1")
    return Evidence("separation", "cpu", 1, (cell,), {}, "file")


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
        (">", 1.5, "fails", 0.0),
        (">", 1.6, "holds", -0.1),
        ("<", 2.5, "fails", 0.0),
        ("<", 2.4, "holds", -0.1),
    ],
)
def test_verdicts_both_ways(relation: Any, value: float, status: str, excess: float) -> None:
    verdict = judge(made_claim(figures=(Figure("a", 2.0, relation, 0.5),)), results(value))
    assert verdict.status == status
    assert verdict.excess == pytest.approx(excess, abs=1e-8)
    assert verdict.runs == ("audit-1",)
    assert verdict.budget == "cpu"
    assert verdict.origin == "file"


@pytest.mark.parametrize("value", [2.0, 9.0])
def test_results_that_miss_a_guard_decide_nothing(value: float) -> None:
    """Neither that the claim holds nor that it fails."""
    verdict = judge(made_claim(guards=(Figure("b", 3.0, ">", 0.0),)), results(value))
    assert (verdict.status, verdict.outcome) == ("not decided", "not decided")
    assert verdict.note == "b: 2, where > 3 is needed"
    assert judge(made_claim(guards=(Figure("b", 1.0, ">", 0.0),)), results(2.0)).status == "holds"


def test_ranks() -> None:
    figures = tuple(Figure(name, value, "rank", 0.1) for name, value in (("a", 10.0), ("b", 20.0)))
    claim = made_claim(figures=figures)
    assert judge(claim, results(1.0, 2.0)).status == "holds"
    assert judge(claim, results(1.0, 2.0)).shown == "rank correlation 1"
    assert judge(claim, results(3.0, 2.0)).status == "fails"
    assert judge(claim, results(2.0, 2.0)).excess == math.inf
    assert judge(claim, results(math.nan, 2.0)).outcome == "fails: not a number"


def test_the_worst_figure_decides() -> None:
    claim = made_claim(figures=(Figure("a", 2.0, "=", 0.5), Figure("b", 1.0, "=", 0.5)))
    verdict = judge(claim, results(2.1))
    assert (verdict.status, verdict.worst, verdict.excess) == ("fails", "b", pytest.approx(0.5))
    assert verdict.shown == "2 (worst of 2)"
    assert verdict.expected == "= 1 ± 0.5"
    assert verdict.outcome == "fails by 0.5"
    entry = {"figure": "b", "published": 1.0, "relation": "=", "tolerance": 0.5, "measured": 2.0}
    assert verdict.to_dict()["figures"][1] == entry


def test_what_was_not_measured_is_not_run() -> None:
    assert judge(made_claim(), None).status == "not run"
    missing = judge(made_claim(arguments={"place": {"data": "y"}, "path": ["a"]}), results(2.0))
    assert missing.status == "not run"
    assert "data y" in missing.note
    assert missing.outcome == "not run"
    assert missing.shown == ""
    assert missing.evidence == "needs separation smoke|cpu|night|paper"
    with pytest.raises(NotMeasured, match="any place"):
        StudyCells(()).every({})


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
        StudyCells(some).at({"method": "PGD"})


def test_a_budget_that_cannot_judge_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "radii_papers.claims.judgment.find", lambda study, store, at: results(2.0) if at == "cpu" else None
    )
    assert ledger([made_claim()])[0].status == "holds"
    assert ledger([made_claim(least_budget="paper")])[0].status == "not run"
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
    assert own.evidence == "formulas cpu own"
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


RECORD = {"id": "a", "statement": "It is.", "where": "Table 0", "study": "theory", "check": "values", "reason": "so"}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({}, "'figures'"),
        ({"figures": {"a": 1.0}, "colour": "red"}, "colour"),
        ({"figures": {"a": {"value": 1.0, "unit": "m"}}}, "a has no field unit"),
        ({"figures": {"a": 1.0}, "kind": "guess"}, "'guess'.*paper, printed, finding"),
        ({"figures": {"a": 1.0}, "relation": "~"}, "'~'"),
        ({"figures": {"a": 1.0}, "least_budget": "huge"}, "'huge'"),
        ({"figures": {"a": 1.0}, "kind": "printed"}, "must name a study"),
        ({"figures": ["a"], "published": {"paper": "003", "table": "Table 6"}}, "exactly one must fit"),
    ],
)
def test_a_wrong_record_is_named(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_claim({**RECORD, **changes}, "Nobody 2020")


def test_figures_of_a_record() -> None:
    """From names with one value, from numbers, and from published tables, percentages as shares."""
    one = read_claim({**RECORD, "figures": ["a", "b"], "value": 3.0, "relation": "≤", "tolerance": 1}, "Nobody 2020")
    assert one.figures == (Figure("a", 3.0, "≤", 1.0), Figure("b", 3.0, "≤", 1.0))
    address = {"paper": "003", "table": "Table 2", "method": "PGD", "metric": "robust_acc_pct"}
    two = read_claim({**RECORD, "published": address, "figures": {"a": {"dataset": "MNIST smooth 8"}}}, "Nobody 2020")
    assert two.figures[0].value == pytest.approx(0.831)
    assert two.figures[0].fact is not None
    assert two.figures[0].fact.source == "Ding et al. 2019, Table 2"
    with pytest.raises(InputError, match="check"):
        checks.check_function("valuse")


def test_summary_counts() -> None:
    verdicts = [judge(made_claim(), results(2.0)), judge(made_claim(), results(9.0)), judge(made_claim(), None)]
    assert summary(verdicts) == "3 claims: 1 fail, 1 hold, 0 as printed, 0 findings, 0 not decided, 1 not run."


def test_rank_correlation_of_constants_is_no_number() -> None:
    assert rank_correlation([3.0, 1.0, 2.0], [30.0, 10.0, 20.0]) == pytest.approx(1.0)
    assert math.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0]))
    assert math.isnan(rank_correlation([1.0, math.nan], [1.0, 2.0]))
