"""Coverage of the published figures, and the setup behind a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from radii.papers.claims.claim import all_claims, choose
from radii.papers.claims.coverage import agreement_chart, comparisons, coverage, coverage_table
from radii.papers.claims.judgment import ledger
from radii.papers.claims.setup import setup
from radii.papers.nearby_accuracy import NearbyAccuracy
from radii.papers.paper_steps import Formula
from radii.papers.published import facts
from radii.runs.inputs import DataSpec
from radii.runs.planning import train_step
from radii.runs.steps import Certify
from radii.runs.store import Store
from radii.studies.step_words import describe


def test_every_table_is_listed_with_what_is_measured(tmp_path: Path) -> None:
    tables = coverage(ledger(all_claims(), Store(tmp_path)))
    numbers = [fact for fact in facts() if isinstance(fact.value, int | float)]
    assert sum(table.published for table in tables) == len(numbers) == 1123
    assert sum(len(table.comparisons) for table in tables) >= 85
    by_name = {(table.paper, table.table): table for table in tables}
    volumes = by_name["Ding et al. 2019", "Table 6"]
    assert (len(volumes.comparisons), volumes.agreeing, volumes.budgets) == (16, 16, ("cpu",))
    assert volumes.largest_off == pytest.approx(0.967, abs=1e-3)  # bits
    assert len(by_name["Yang et al. 2020 (slides)", "tab:mnist (p.14)"].comparisons) == 120
    footnote = by_name["Ding et al. 2019", "footnote 1"]
    assert (footnote.comparisons, footnote.typical_off, footnote.largest_off) == ((), None, None)


def test_percentages_are_compared_in_points(tmp_path: Path) -> None:
    known = comparisons(ledger(choose("ding-table2-robust"), Store(tmp_path)))
    (binarized,) = [c for fact, c in known.items() if fact.dataset == "MNIST binarized"]
    assert binarized.off == pytest.approx(97.4 - 98.1)
    assert binarized.agrees
    (smooth,) = [c for fact, c in known.items() if fact.dataset == "MNIST smooth 8"]
    assert smooth.off == pytest.approx(67.15 - 83.1)
    assert not smooth.agrees


def test_ranks_count_as_compared(tmp_path: Path) -> None:
    known = comparisons(ledger(choose("ding-robust-order"), Store(tmp_path)))
    assert len(known) == 9
    assert all(comparison.agrees for comparison in known.values())


def test_a_setup_names_network_length_and_data(tmp_path: Path) -> None:
    data = DataSpec.of("digits")
    training = train_step(data, "mlp", "natural", {"steps": 1500, "batch_size": 32})
    words = describe(Certify(model=training, data=data, radii=(0.5,), points=2000))
    for word in ("mlp", "natural", "digits", "1,500 steps, batches of 32", "2,000 points"):
        assert word in words
    assert describe(Formula(name="uniform")) == "formula: name uniform, seed 0"
    certify = Certify(model=training, data=data, radii=(0.5,), points=2000)
    nearby = describe(NearbyAccuracy(certified=certify, radius=0.5))
    assert nearby == f"nearby-accuracy: certified ({describe(certify)}), radius 0.5, metric angle, groups 5"
    margins = train_step(data, "isometric", "offset-cross-entropy", {"method": {"offset": 0.5, "temperature": 0.25}})
    assert "(offset 0.5, temperature 0.25) on digits" in describe(margins)  # first_temperature is not given
    (verdict,) = ledger(choose("ding-uniform-variance"), Store(tmp_path))
    assert setup(verdict) == "formula: name uniform, seed 0"
    (printed,) = ledger(choose("ding-saturation-16"), Store(tmp_path))
    assert setup(printed) == ""


def test_the_table_and_the_chart(tmp_path: Path) -> None:
    verdicts = ledger(all_claims(), Store(tmp_path))
    *rows, total = coverage_table(verdicts).rows
    assert total["paper"] == "all"
    assert total["measured"] == sum(row["measured"] for row in rows) >= total["agreeing"]
    chart = agreement_chart(verdicts)
    assert chart is not None
    assert all(0 <= row["measured"] <= 1 and 0 <= row["published"] <= 1 for row in chart.rows)
    assert len(chart.rows) < total["measured"]  # bits and distances are no shares
    assert agreement_chart([]) is None
