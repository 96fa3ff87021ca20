"""Charts hold what their rows say, in specs that vega-lite's schema accepts (altair validates on to_dict)."""

from __future__ import annotations

import json
import math
import re
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from radii.errors import InputError
from radii.report._axes import short_rows
from radii.report.charts import draw, live
from radii.tables import ChartSpec, Field, Rule, Span

ROWS = [
    {"r": r, "acc": 1 - r / 2, "lo": 0.9 - r / 2, "hi": 1.0, "model": model, "kind": kind}
    for model in ("a", "b")
    for kind in ("proved", "broken")
    for r in (0.0, 0.5, 1.0)
]
ACCURACY = Field("acc", "accuracy", percent=True, low="lo", high="hi")


def data_of(chart: ChartSpec, layer: int = 0) -> list[dict]:
    spec = draw(chart).to_dict()
    data = spec["layer"][layer].get("data", spec.get("data"))
    return data.get("values") or spec["datasets"][data["name"]]


def marks(chart: ChartSpec) -> list[str]:
    return [layer["mark"]["type"] for layer in draw(chart).to_dict()["layer"]]


def test_curves_draw_band_line_and_rule() -> None:
    chart = ChartSpec("curves", ROWS, Field("r"), ACCURACY, "model", "T", "N", dash="kind", rules=[Rule(0.5, "ε")])
    assert marks(chart) == ["area", "line", "rule", "rule", "text", "text"]
    assert data_of(chart)[1] == {"x": 0.5, "y": 0.75, "low": 0.65, "high": 1.0, "series": "a", "dash": "proved"}
    assert chart.table().headings == ("r", "a, proved", "a, broken", "b, proved", "b, broken")
    assert chart.table().cells[1][1] == "75.0% [65.0, 100.0]"
    assert (chart.title, chart.note) == ("T", "N")


def test_curves_without_interval_or_series() -> None:
    chart = ChartSpec("curves", ROWS[:3], Field("r"), Field("acc"), title="T", step=True)
    assert marks(chart) == ["line", "rule"]
    assert draw(chart).to_dict()["layer"][0]["mark"]["interpolate"] == "step-before"


def test_numpy_values_and_gaps_become_plain_json() -> None:
    rows = [{"x": np.float32(0.5), "y": np.nan}, {"x": np.int64(1), "y": np.float64(2)}]
    text = json.dumps(live(ChartSpec("curves", rows, Field("x"), Field("y"), title="T")), allow_nan=False)
    assert '"values": [{"x": 1, "y": 2.0}]' in text


def test_field_names_are_never_paths() -> None:
    rows = [{"a.b[0]": 1, "c\\d": 2}, {"a.b[0]": 2, "c\\d": 3}]
    chart = ChartSpec("curves", rows, Field("a.b[0]"), Field("c\\d"), title="T")
    assert data_of(chart) == [{"x": 1, "y": 2}, {"x": 2, "y": 3}]


def test_histogram_shares_sum_to_one_per_series() -> None:
    rng = np.random.default_rng(0)
    rows = [{"d": value, "split": "train"} for value in rng.random(100)]
    rows += [{"d": value, "split": "test"} for value in rng.random(30)] + [{"d": float("inf"), "split": "test"}]
    chart = ChartSpec("histogram", rows, Field("d"), series="split", bins=10, rules=[Rule(0.1), Rule(0.2)])
    for split in ("train", "test"):
        assert sum(row["y"] for row in data_of(chart) if row["series"] == split) == pytest.approx(1, abs=1e-4)
    assert [row[1] for row in chart.table().cells] == ["100", "30"]
    assert len(data_of(chart)) == 20
    top = draw(chart).to_dict()["layer"][0]["encoding"]["y"]["scale"]["domain"][1]
    assert top == pytest.approx(1.2 * max(row["y"] for row in data_of(chart)))  # room for the labels of rules


def test_histogram_without_a_finite_value_is_refused() -> None:
    with pytest.raises(InputError, match="finite values of 'd'"):
        draw(ChartSpec("histogram", [{"d": None}], Field("d")))


def test_bars_have_whiskers_and_levels() -> None:
    rows = [row for row in ROWS if row["r"] == 0.5 and row["kind"] == "proved"]
    assert marks(ChartSpec("bars", rows, Field("model"), ACCURACY, levels=[Rule(0.9, "goal")])) == [
        "bar",
        "rule",
        "rule",
        "text",
        "text",
    ]
    grouped = ChartSpec("bars", ROWS[:6:3] + ROWS[6::3], Field("model"), ACCURACY, "kind")
    assert grouped.table().headings == ("model", "proved", "broken")


def test_rows_on_one_mark_are_refused() -> None:
    with pytest.raises(InputError, match="one row for each mark, got 6 for 'a'"):
        draw(ChartSpec("bars", ROWS, Field("model"), Field("acc")))


def test_points_with_a_fit_on_log_axes() -> None:
    law = [{"n": 10**k, "e": 10.0**-k, "lo": 0.5 * 10.0**-k, "hi": 2 * 10.0**-k} for k in range(1, 5)]
    x, y = Field("n", log=True), Field("e", log=True, low="lo", high="hi")
    chart = ChartSpec("points", law, x, y, fit=[{"n": 10, "e": 0.1}, {"n": 10_000, "e": 1e-4}])
    assert marks(chart) == ["line", "rule", "point"]
    code = draw(chart).to_dict()["layer"][0]["encoding"]
    assert code["x"]["scale"]["type"] == code["y"]["scale"]["type"] == "log"
    assert code["x"]["axis"]["values"] == [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]
    assert code["y"]["axis"]["values"] == [1e-4, 1e-3, 1e-2, 1e-1]


@pytest.mark.parametrize("from_zero", [True, False])
def test_an_axis_begins_at_zero_unless_its_field_says_so(from_zero: bool) -> None:
    rows = [{"clean": 0.97, "proved": 0.94}, {"clean": 0.98, "proved": 0.95}]
    proved = Field("proved", percent=True, from_zero=from_zero)
    layers = draw(ChartSpec("points", rows, Field("clean", percent=True), proved)).to_dict()["layer"]
    assert layers[0]["encoding"]["y"]["scale"]["zero"] is from_zero


def test_a_log_axis_refuses_zero() -> None:
    with pytest.raises(InputError, match="positive values of 'r'"):
        draw(ChartSpec("curves", ROWS, Field("r", log=True), Field("acc"), "model", dash="kind"))


def test_a_fit_with_an_interval_is_a_band_over_a_shade() -> None:
    seen = [{"n": 1.0, "a": 0.5}, {"n": 2.0, "a": 0.6}]
    law = [{**row, "lo": row["a"] - 0.1, "hi": row["a"] + 0.1} for row in seen]
    y = Field("a", low="lo", high="hi")
    chart = ChartSpec("points", seen, Field("n", log=True), y, fit=law, levels=[Rule(0.7)], shade=Span(2, 4, "unknown"))
    assert marks(chart) == ["rect", "text", "area", "point", "line", "point", "rule"]
    assert data_of(chart) == [{"x": 2, "end": 4}]
    assert [row[1] for row in chart.table().cells] == ["0.500", "0.600"]


def test_too_many_series_or_dashes_are_refused() -> None:
    rows = [{"x": k, "y": k, "s": f"model {k}"} for k in range(7)]
    with pytest.raises(InputError, match="at most 6 series, got 7"):
        draw(ChartSpec("curves", rows, Field("x"), Field("y"), "s"))
    with pytest.raises(InputError, match="at most 6 dash patterns, got 7"):
        draw(ChartSpec("curves", rows, Field("x"), Field("y"), dash="s"))


def test_unknown_fields_are_named() -> None:
    with pytest.raises(InputError, match="Did you mean 'acc'"):
        draw(ChartSpec("curves", ROWS, Field("r"), Field("ac")))


def test_short_rows_renames_rounds_and_leaves_gaps_out() -> None:
    rows = [{"a.b": 1 / 3, "y": -1e-19, "lo": 0.1, "hi": np.nan, "unused": object()}, {"a.b": 2, "y": None}]
    made = short_rows(rows, {"x": Field("a.b"), "y": Field("y", low="lo", high="hi")}, "curves")
    assert made == [{"x": 0.333333, "y": 0.0, "low": 0.1, "high": None, "high_text": "–"}]


VALUE = st.sampled_from([0.25, 0.5, 0.75, 1.0, None, math.nan, math.inf])
NAME = st.sampled_from(["a", "b", None])
TIDY = st.fixed_dictionaries({"x": VALUE, "y": VALUE, "lo": VALUE, "hi": VALUE, "s": NAME, "d": NAME})


@pytest.mark.parametrize(
    ("kind", "named"),
    [("curves", False), ("curves", True), ("points", False), ("bars", True), ("histogram", False)],
)
@settings(max_examples=60, deadline=None)
@given(st.lists(TIDY, min_size=1, max_size=12), st.booleans())
def test_no_tooltip_is_ever_null(kind: Literal["curves"], named: bool, rows: list[dict], split: bool) -> None:
    """Whatever is missing: every row that carries a tooltip has a value for each of its lines."""
    if named:
        rows = [row | {"x": f"{row['x']:.1f} of it" if row["x"] in (0.5, 1.0) else None} for row in rows]
    y = Field("y", percent=True, low="lo", high="hi")
    splits = {"series": "s", "dash": "d"} if split else {}
    try:
        spec = draw(ChartSpec(kind, rows, Field("x"), y, **splits)).to_dict()  # type: ignore[arg-type]
    except InputError:
        assume(False)  # nothing to draw, or two rows on one bar
    for layer in spec["layer"]:
        told = layer["encoding"].get("tooltip", [])
        if isinstance(told, dict):  # an expression of the lines at the pointer, in Chromium tested by test_browser
            told = []
        for row in layer.get("data", spec.get("data"))["values"]:
            for line in told:
                value = row.get(line["field"])
                assert value is not None, (line, row)
                assert value == value, (line, row)
                assert not re.search("nan|none|null", str(value), re.IGNORECASE)


def test_a_line_of_one_row_is_seen() -> None:
    rows = [{"n": k, "a": 0.5 + k / 10, "s": "train"} for k in range(3)] + [{"n": 2, "a": 0.6, "s": "test"}]
    chart = ChartSpec("curves", rows, Field("n"), Field("a"), "s")
    assert marks(chart) == ["line", "point", "rule"]
    assert data_of(chart, 1) == [{"x": 2, "y": 0.6, "series": "test"}]
