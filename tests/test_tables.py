"""The vocabulary of results: fields write numbers as people read them; tables are listed, pivoted and thinned."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from radii.errors import InputError
from radii.tables import ChartSpec, Estimate, Field, Table, distinct, field, listing, pivot, plain, quantiles, table

ACCURACY = Field("accuracy", percent=True, low="low", high="high")


def test_one_line_per_row() -> None:
    made = table([{"class": "cat", "n": 1000}, {"class": "dog", "n": None}], ["class", Field("n", "points")], "Classes")
    assert (made.headings, made.cells, made.title) == (("class", "points"), (("cat", "1,000"), ("dog", "–")), "Classes")


def test_columns_of_words_are_known() -> None:
    cells = (("cat", "lenet5", "93.1% [92, 94]", "–"), ("dog", "3 layers", "-1.5", "1,000"))
    assert listing("", ("a", "b", "c", "d"), cells).words == (0, 1)


def test_pivot_has_a_column_per_series_and_a_dash_where_there_is_nothing() -> None:
    rows = [
        {"r": 0.5, "accuracy": 0.25, "low": 0.2, "high": 0.3, "model": "b", "bound": "proved"},
        {"r": 0.0, "accuracy": 1.0, "low": 0.9, "high": 1.0, "model": "a", "bound": "proved"},
    ]
    made = pivot(rows, Field("r", "radius"), [Field("model"), Field("bound")], ACCURACY)
    assert made.headings == ("radius", "b, proved", "a, proved")
    assert made.cells == (("0.00", "–", "100.0% [90.0, 100.0]"), ("0.500", "25.0% [20.0, 30.0]", "–"))


def test_pivot_thins_long_curves_but_keeps_the_ends_and_the_rules() -> None:
    rows = [{"r": k / 1000, "accuracy": 1 - k / 1000} for k in range(1001)]
    made = pivot(rows, Field("r"), [], Field("accuracy", percent=True), at=[0.333])
    assert 12 <= len(made.cells) <= 13
    assert made.cells[0] == ("0.00", "100.0%")
    assert made.cells[-1] == ("1.00", "0.0%")
    assert ("0.333", "66.7%") in made.cells
    assert made.headings == ("r", "accuracy")


def test_pivot_of_names_keeps_their_order() -> None:
    rows = [{"c": name, "v": 1} for name in "zyx"]
    assert [row[0] for row in pivot(rows, Field("c"), [], Field("v")).cells] == ["z", "y", "x"]


def test_quantiles_are_numpys() -> None:
    values = np.arange(101.0)
    made = quantiles({"": values, "b": values[:1]}, Field("radius"))
    assert made.headings == ("radius", "points", "min", "5%", "median", "95%", "max")
    assert made.cells == (
        ("all", "101", "0.00", "5.00", "50.0", "95.0", "100"),
        ("b", "1", "0.00", "0.00", "0.00", "0.00", "0.00"),
    )


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(InputError, match="2 cells, got 1"):
        listing("", ("a", "b"), [("1",)])


def test_a_listing_keeps_equal_and_empty_headings_apart() -> None:
    made = listing("T", ("", "x", "x"), [("a", 1, 2.5)])
    assert (made.headings, made.cells) == (("", "x", "x"), (("a", "1", "2.5"),))


def test_a_table_leaves_as_json_markdown_and_a_frame() -> None:
    rows = [{"name": "a|b", "share": np.float64(0.25)}, {"name": "c", "share": float("nan")}]
    made = table(rows, ["name", Field("share", "accuracy", percent=True)], "T")
    assert json.loads(json.dumps(made.to_dict()))["rows"] == [
        {"name": "a|b", "share": 0.25},
        {"name": "c", "share": None},
    ]
    assert made.to_markdown().splitlines() == [
        "| name | accuracy |",
        "| --- | --- |",
        "| a\\|b | 25.0% |",
        "| c | – |",
    ]
    assert made.select("share", title="S").headings == ("accuracy",)
    frame = pytest.importorskip("pandas") and made.to_frame()
    assert frame["share"][0] == 0.25
    assert list(frame.columns) == ["name", "share"]


def test_a_table_as_latex_prints_names_of_strangers_as_they_are() -> None:
    rows = [{"name": r"50%_\input{x}", "share": 0.25}, {"name": "ε ≤ 8/255", "share": float("nan")}]
    made = table(rows, ["name", Field("share", "accuracy & more", percent=True)], "T")
    assert made.to_latex().splitlines() == [
        "% T",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"name & accuracy \& more \\",
        r"\midrule",
        r"50\%\_\textbackslash{}input\{x\} & 25.0\% \\",
        r"$\varepsilon$ $\le$ 8/255 & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_frame_without_pandas_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="needs pandas"):
        table([{"a": 1}], ["a"]).to_frame()


def test_the_vocabulary_loads_neither_torch_nor_altair() -> None:
    code = "import sys, radii.tables; print(sorted({'torch', 'altair', 'numpy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_bootstrap_covers_the_mean_as_the_normal_law_does() -> None:
    sample = np.random.default_rng(0).normal(size=(4000, 1))
    found = Estimate.bootstrap(lambda rows: float(rows.mean()), sample, np.random.default_rng(1))
    error = sample.std() / np.sqrt(len(sample))
    assert found.value == pytest.approx(sample.mean())
    assert (found.high - found.low) / error == pytest.approx(2 * 1.96, rel=0.2)


def test_a_chart_s_table_follows_its_kind() -> None:
    rows = [{"x": k, "y": k / 10, "s": "a"} for k in range(3)]
    x, y = Field("x"), Field("y")
    assert ChartSpec("curves", rows, x, y, "s").table().headings == ("x", "a")
    assert ChartSpec("points", rows, x, y, "s").table().headings == ("s", "x", "y")
    assert ChartSpec("histogram", rows, x, series="s").table().cells[0][:3] == ("a", "3", "0.00")
    own = Table((x,), ({"x": 7},))
    assert ChartSpec("curves", rows, x, y, numbers=own).table() is own


@pytest.mark.parametrize(
    ("which", "row", "text"),
    [
        (Field("a", percent=True, low="l", high="h"), {"a": 0.931, "l": 0.925, "h": 0.936}, "93.1% [92.5, 93.6]"),
        (Field("a", percent=True), {"a": 1}, "100.0%"),
        (Field("a", low="l", high="h"), {"a": 0.4125, "l": 0.4, "h": 0.43}, "0.412 [0.400, 0.430]"),
        (Field("a", low="l", high="h"), {"a": 0.5, "l": None, "h": 0.6}, "0.500"),
        (Field("a"), {"a": 61706}, "61,706"),
        (Field("a"), {"a": 0.0}, "0.00"),
        (Field("a"), {"a": -12.345}, "-12.3"),
        (Field("a"), {"a": 123456.7}, "123,457"),
        (Field("a", digits=2), {"a": 3.2e-9}, "3.2e-09"),
        (Field("a"), {"a": float("nan")}, "–"),
        (Field("a", radius=True), {"a": 8 / 255}, "8/255"),
        (Field("a"), {}, "–"),
        (Field("a"), {"a": True}, "yes"),
        (Field("a"), {"a": np.float32(0.25)}, "0.250"),
        (Field("a"), {"a": "cat"}, "cat"),
        (Field("a", toward="down"), {"a": 0.046999}, "0.0469"),
        (Field("a", toward="up"), {"a": 0.046901}, "0.0470"),
        (Field("a", toward="down"), {"a": 1.2999}, "1.29"),
        (Field("a", toward="up"), {"a": 0.0}, "0.00"),
    ],
)
def test_text(which: Field, row: dict, text: str) -> None:
    assert which.text(row) == text


def test_heading_is_the_title_or_the_name_with_spaces() -> None:
    assert field("clean_accuracy").heading == "clean accuracy"
    assert Field("a", "Accuracy").heading == "Accuracy"


def test_plain_unwraps_numpy_and_drops_what_is_not_finite() -> None:
    assert plain(np.int64(3)) == 3
    assert type(plain(np.float32(0.5))) is float
    assert plain(float("inf")) is None


def test_distinct_keeps_the_order_of_first_appearance() -> None:
    assert distinct(["b", "a", None, "b"]) == ["b", "a"]
