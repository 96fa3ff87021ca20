"""Published figures: all are there, lookups give one number or fail loudly."""

from __future__ import annotations

import pytest

from radii.errors import InputError
from radii_papers.claims._printed_tables import ding_tables, yang_tables
from radii_papers.published import facts, lookup, paper_name, select


def test_every_figure_has_its_source() -> None:
    assert len(facts()) == 1139
    assert {fact.paper for fact in facts()} == {"000", "001", "002", "003"}
    assert all(fact.table and fact.metric for fact in facts())
    assert sum(fact.value is None for fact in facts()) == 2  # blank on the slides
    assert facts()[0].source == "Prach & Lampert 2025, supplement, Table 1"


def test_lookups() -> None:
    assert lookup("003", "Table 6", dataset="MNIST original").number == -1297
    assert lookup("003", "Table 2", dataset="MNIST smooth 8", method="PGD", metric="robust_acc_pct").number == 83.1
    assert lookup("002", "tab:separation", dataset="CIFAR-10", metric="min_test_train_linf").number == 0.22
    assert lookup("000", "Table 3", method="SelfNormalizingCE t=0", metric="test_acc_pct").number == 93.2
    assert len(select("003", "Table 6")) == 16


def test_none_several_blank_and_word_are_errors() -> None:
    with pytest.raises(InputError, match="has 0 figures"):
        _ = lookup("003", "Table 6", dataset="MNIST smooth 99").number
    with pytest.raises(InputError, match="has 16 figures"):
        _ = lookup("003", "Table 6").number
    with pytest.raises(InputError, match="no number"):
        _ = lookup("002", "tab:dropout", dataset="SVHN", method="Natural dropout=True", metric="gap_points").number
    with pytest.raises(InputError, match="'ReLU'"):
        _ = lookup("000", "Table 2", model="SimpleConvNet", metric="activation").number
    with pytest.raises(InputError, match="Papers are"):
        paper_name("007")


def test_printed_tables_are_counted() -> None:
    """Counted by hand on the slides and in the paper."""
    yang, ding = yang_tables(), ding_tables()
    assert yang["columns where Natural, GR and LLR are the three steepest"] == 3
    assert yang["pairs where dropout raises Lipschitzness"] == 3
    assert yang["greatest adversarial gap of Natural, GR and LLR on CIFAR-10"] == 4.5
    assert ding["points lost without the box, binarized MNIST"] == pytest.approx(2.0)
    assert ding["spread of robust accuracy in Table 2"] == pytest.approx(15.0)
