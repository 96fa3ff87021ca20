"""Tables beside charts: pivoted, thinned, never misaligned."""

from __future__ import annotations

import numpy as np
import pytest

from radii.errors import InputError
from radii.report.rows import Field
from radii.report.table_html import Table, pivot, quantiles, table

ACCURACY = Field("accuracy", percent=True, low="low", high="high")


def test_one_line_per_row() -> None:
    made = table([{"class": "cat", "n": 1000}, {"class": "dog", "n": None}], ["class", Field("n", "points")], "Classes")
    assert made == Table(("class", "points"), (("cat", "1,000"), ("dog", "–")), "Classes")


def test_columns_of_words_are_known() -> None:
    cells = (("cat", "lenet5", "93.1% [92, 94]", "–"), ("dog", "3 layers", "-1.5", "1,000"))
    assert Table(("a", "b", "c", "d"), cells).words == (0, 1)


def test_pivot_has_a_column_per_series_and_a_dash_where_there_is_nothing() -> None:
    rows = [
        {"r": 0.5, "accuracy": 0.25, "low": 0.2, "high": 0.3, "model": "b", "bound": "proved"},
        {"r": 0.0, "accuracy": 1.0, "low": 0.9, "high": 1.0, "model": "a", "bound": "proved"},
    ]
    made = pivot(rows, Field("r", "radius"), [Field("model"), Field("bound")], ACCURACY)
    assert made.columns == ("radius", "b, proved", "a, proved")
    assert made.rows == (("0.00", "–", "100.0% [90.0, 100.0]"), ("0.500", "25.0% [20.0, 30.0]", "–"))


def test_pivot_thins_long_curves_but_keeps_the_ends_and_the_rules() -> None:
    rows = [{"r": k / 1000, "accuracy": 1 - k / 1000} for k in range(1001)]
    made = pivot(rows, Field("r"), [], Field("accuracy", percent=True), at=[0.333])
    assert 12 <= len(made.rows) <= 13
    assert made.rows[0] == ("0.00", "100.0%")
    assert made.rows[-1] == ("1.00", "0.0%")
    assert ("0.333", "66.7%") in made.rows
    assert made.columns == ("r", "accuracy")


def test_pivot_of_names_keeps_their_order() -> None:
    rows = [{"c": name, "v": 1} for name in "zyx"]
    assert [row[0] for row in pivot(rows, Field("c"), [], Field("v")).rows] == ["z", "y", "x"]


def test_quantiles_are_numpys() -> None:
    values = np.arange(101.0)
    made = quantiles({"": values, "b": values[:1]}, Field("radius"))
    assert made.columns == ("radius", "points", "min", "5%", "median", "95%", "max")
    assert made.rows == (
        ("all", "101", "0.00", "5.00", "50.0", "95.0", "100"),
        ("b", "1", "0.00", "0.00", "0.00", "0.00", "0.00"),
    )


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(InputError, match="2 cells, got 1"):
        Table(("a", "b"), (("1",),))
