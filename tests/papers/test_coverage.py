"""Coverage of the published figures, and the setup behind a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from radii.runs.component_specs import DataSpec
from radii.runs.planning import train_step
from radii.runs.steps import Certify
from radii.runs.store import Store
from radii_papers.claims.claim import Claim, Figure, all_claims, choose
from radii_papers.claims.coverage import agreement_chart, comparisons, coverage, coverage_table
from radii_papers.claims.judgment import Verdict, ledger
from radii_papers.claims.setup import setup
from radii_papers.nearby_accuracy import NearbyAccuracy
from radii_papers.published import facts, lookup
from radii_papers.steps import Formula


def test_every_table_is_listed_with_what_is_measured(tmp_path: Path) -> None:
    tables = coverage(ledger(all_claims(), Store(tmp_path)))
    numbers = [fact for fact in facts() if isinstance(fact.value, int | float)]
    assert sum(table.published for table in tables) == len(numbers) == 1123
    assert sum(len(table.comparisons) for table in tables) >= 85
    by_name = {(table.paper, table.table): table for table in tables}
    volumes = by_name["Ding et al. 2019", "Table 6"]
    assert (len(volumes.comparisons), volumes.by_value, volumes.budgets) == (16, 16, ("cpu",))
    assert volumes.largest_off == pytest.approx(0.967, abs=1e-3)  # bits
    assert len(by_name["Yang et al. 2020 (slides)", "tab:mnist (p.14)"].comparisons) == 120
    footnote = by_name["Ding et al. 2019", "footnote 1"]
    assert (footnote.comparisons, footnote.typical_off, footnote.largest_off) == ((), None, None)


def test_percentages_are_compared_in_points(tmp_path: Path) -> None:
    known = comparisons(ledger(choose("ding-table2-robust"), Store(tmp_path)))
    ((binarized,),) = [c for fact, c in known.items() if fact.dataset == "MNIST binarized"]
    assert binarized.off == pytest.approx(97.4 - 98.1)
    assert binarized.by_value
    ((smooth,),) = [c for fact, c in known.items() if fact.dataset == "MNIST smooth 8"]
    assert smooth.off == pytest.approx(67.15 - 83.1)
    assert not smooth.by_value


def test_value_and_rank_are_two_things(tmp_path: Path) -> None:
    """Nine figures in the printed order, of which five lie within three points; both are counted, neither for both."""
    order = choose("ding-robust-order")
    known = comparisons(ledger(order, Store(tmp_path)))
    assert len(known) == 9
    assert all(one.in_rank for (one,) in known.values())
    off = [abs(one.off) for (one,) in known.values()]
    (table,) = [one for one in coverage(ledger(order, Store(tmp_path))) if one.comparisons]
    assert table.by_value == sum(value <= 3 for value in off) < table.in_rank == 9


def claimed(values: dict[str, float], relation: str = "=") -> Verdict:
    """A verdict over robust accuracies of Table 2."""
    facts = {name: lookup("003", "Table 2", dataset=name, method="PGD", metric="robust_acc_pct") for name in values}
    figures = tuple(Figure(name, fact.share, relation, 0.0, fact) for name, fact in facts.items())
    return Verdict(Claim("c", "s", "p", "w", "values", figures, "r", "separation"), "holds", values)


def test_what_a_constant_would_reach() -> None:
    """Printed 98.1, 95.9 and 83.1: their median is within three points of two of them."""
    names = {"MNIST binarized": 0.5, "MNIST original": 0.5, "MNIST smooth 8": 0.85}
    (table,) = [one for one in coverage([claimed(names)]) if one.comparisons]
    published = [c.figure.value for c in table.comparisons]
    middle = sorted(published)[1]
    assert table.by_constant == sum(abs(value - middle) <= 0.03 + 1e-9 for value in published) == 2
    assert (table.by_value, table.in_rank) == (1, 0)
    (ranked,) = [one for one in coverage([claimed(names), claimed(names, "rank")]) if one.comparisons]
    assert (ranked.by_value, ranked.in_rank) == (1, 3)


def test_a_setup_names_network_length_and_data(tmp_path: Path) -> None:
    data = DataSpec.of("digits")
    training = train_step(data, "mlp", "natural", {"steps": 1500, "batch_size": 32})
    words = Certify(model=training, data=data, radii=(0.5,), points=2000).setup()
    for word in ("mlp", "natural", "digits", "1,500 steps, batches of 32", "2,000 points"):
        assert word in words
    assert Formula(name="uniform").setup() == "formula: name uniform, seed 0"
    certify = Certify(model=training, data=data, radii=(0.5,), points=2000)
    nearby = NearbyAccuracy(certified=certify, radius=0.5).setup()
    assert nearby == f"nearby-accuracy: certified ({certify.setup()}), radius 0.5, metric angle, groups 5"
    margins = train_step(data, "isometric", "offset-cross-entropy", {"method": {"offset": 0.5, "temperature": 0.25}})
    assert "(offset 0.5, temperature 0.25) on digits" in margins.setup()  # first_temperature is not given
    (verdict,) = ledger(choose("ding-uniform-variance"), Store(tmp_path))
    assert setup(verdict) == "formula: name uniform, seed 0"
    (printed,) = ledger(choose("ding-saturation-16"), Store(tmp_path))
    assert setup(printed) == ""


def test_the_table_and_the_chart(tmp_path: Path) -> None:
    verdicts = ledger(all_claims(), Store(tmp_path))
    *rows, total = coverage_table(verdicts).rows
    assert total["paper"] == "all"
    assert total["measured"] == sum(row["measured"] for row in rows) >= total["by_value"]
    chart = agreement_chart(verdicts)
    assert chart is not None
    assert all(0 <= row["measured"] <= 1 and 0 <= row["published"] <= 1 for row in chart.rows)
    assert len(chart.rows) < total["measured"]  # bits and distances are no shares
    assert agreement_chart([]) is None
