"""The power of verdicts: resamples have the binomial law, keep what must be nested, and decide what they should."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from made_records import certified, evaluated, split, trained
from radii.evaluation.accuracy import Accuracy
from radii.runs.step_results import CertifyResult, EvaluateResult, ProveResult
from radii.runs.store import Store
from radii.studies.results import Evidence
from radii.studies.study import Measured
from radii_papers.claims import _resampling
from radii_papers.claims._resampling import resampled
from radii_papers.claims.claim import Claim, Figure, all_claims
from radii_papers.claims.judgment import judge, ledger
from radii_papers.measurements import FormulaResult


def draws(result: object, count: int = 2000, **place: int) -> list:
    generator = np.random.default_rng(1)
    cell = Measured(place, result, "run")  # type: ignore[arg-type]
    return [resampled(cell, generator).result for _ in range(count)]


def test_an_evaluation_keeps_its_means_its_spread_and_its_order() -> None:
    results: list[EvaluateResult] = draws(evaluated(0.6, 0.9, proved=0.3, kept=0.65))
    for path, share in (("clean", 0.9), ("robust", 0.6), ("robust_to_predictions", 0.65)):
        found = [getattr(one, path) for one in results]
        values = np.array([(one if path == "clean" else one.unbroken).value for one in found])
        deviation = np.sqrt(share * (1 - share) / 10_000)
        assert values.mean() == pytest.approx(share, abs=4 * deviation / np.sqrt(2000))
        assert values.std() == pytest.approx(deviation, rel=0.1)
    for one in results:
        assert one.robust.unbroken.correct <= min(one.clean.correct, one.robust_to_predictions.unbroken.correct)
        kept_wrong = one.robust_to_predictions.unbroken.correct - one.robust.unbroken.correct
        assert kept_wrong <= one.clean.total - one.clean.correct


def test_certified_shares_stay_nested() -> None:
    results: list[CertifyResult] = draws(certified((0.1, 0.2, 0.5), split(0.7, (0.5, 0.45, 0.1))), 300)
    for one in results:
        assert one.test is not None
        line = [one.test.clean.correct, *(share.correct for share in one.test.shares)]
        assert line == sorted(line, reverse=True)
    last = np.array([one.test.shares[2].value for one in results])  # type: ignore[union-attr]
    assert last.mean() == pytest.approx(0.1, abs=4 * 0.003 / np.sqrt(300))


def test_proofs_and_trainings() -> None:
    proofs = draws(ProveResult(clean=Accuracy(90, 100), proved=Accuracy(30, 100), unbroken=Accuracy(60, 100)), 300)
    assert all(one.proved.correct <= one.unbroken.correct <= one.clean.correct for one in proofs)
    small = np.array([one.train_accuracy for one in draws(trained(0.9, 0.5), 500, n=100)])
    assert small.std() == pytest.approx(0.05, rel=0.15)  # of the hundred images it was trained on
    assert np.std([one.test_accuracy for one in draws(trained(0.9, 0.5), 500)]) == pytest.approx(0.003, rel=0.15)


def claim(relation: str, value: float) -> Claim:
    figures = (Figure("it", value, relation, 0.0),)  # type: ignore[arg-type]
    return Claim("c", "It is.", "p", "w", "values", figures, "r", "separation", arguments={"path": ["clean", "value"]})


@pytest.mark.parametrize(("threshold", "status"), [(0.89, "holds"), (0.9, "not decided"), (0.91, "fails")])
def test_the_share_is_the_tail_of_the_binomial(threshold: float, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_resampling, "DRAWS", 2000)
    cells = (Measured({}, evaluated(0.9), "run"),)
    verdict = judge(claim("≥", threshold), Evidence("separation", "cpu", 1, cells, {}))
    exact = binom.sf(int(threshold * 10_000) - 1, 10_000, 0.9)
    assert verdict.power == pytest.approx(exact, abs=0.04)
    assert verdict.status == status
    assert ("resamples" in verdict.note) == (status == "not decided")


def test_what_was_not_sampled_has_no_share() -> None:
    cells = (Measured({}, FormulaResult(figures={"it": 1.0}), "run"),)
    found = replace(claim("=", 1.0), arguments={"path": ["figures", "it"]})
    verdict = judge(found, Evidence("separation", "cpu", 1, cells, {}))
    assert (verdict.status, verdict.power, verdict.certainty) == ("holds", None, "")


def test_no_shipped_verdict_is_weaker_than_nine_of_ten(tmp_path: Path) -> None:
    """What holds does so in 90% of its resamples, what fails in at most 10%."""
    for verdict in ledger(all_claims(), Store(tmp_path)):
        if verdict.power is not None and verdict.status in ("holds", "finding"):
            assert verdict.power >= 0.9, verdict.claim.id
        if verdict.power is not None and verdict.status == "fails":
            assert verdict.power <= 0.1, verdict.claim.id


def test_every_measured_statement_names_data_radius_and_points(tmp_path: Path) -> None:
    for verdict in ledger(all_claims(), Store(tmp_path)):
        if verdict.power is None or verdict.claim.study == "overfitting":
            continue
        words = verdict.statement.rpartition("[")[2]
        assert "MNIST" in words or "CIFAR-10" in words, verdict.claim.id
        assert "PGD-40 at Linf" in words or "certified at L2" in words or "bounds at Linf" in words, verdict.claim.id
        assert "points]" in words or "all test images]" in words, words


def test_mnist_is_judged_at_the_radius_of_the_paper() -> None:
    """A statement of Prach & Lampert about MNIST is about L2 36/255; another radius makes it a finding."""
    for one in all_claims():
        radii = one.arguments.get("radii", {})
        if isinstance(radii, dict) and "mnist" in radii:
            assert radii["mnist"] == pytest.approx(36 / 255), one.id
        if one.kind == "paper" and one.study in ("data-scaling", "extra-data", "nearby-points"):
            assert "L2 1 " not in one.statement
            assert "at 1 on MNIST" not in one.statement
