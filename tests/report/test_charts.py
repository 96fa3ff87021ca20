"""Charts hold what their rows say, in specs that vega-lite's schema accepts (altair validates on to_dict)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from radii.errors import InputError
from radii.report import drawing
from radii.report.charts import Chart, Field, Rule, bars, curves, heatmap, histogram, pictures, points
from radii.report.pictures import data_uri

ROWS = [
    {"r": r, "acc": 1 - r / 2, "lo": 0.9 - r / 2, "hi": 1.0, "model": model, "kind": kind}
    for model in ("a", "b")
    for kind in ("proved", "broken")
    for r in (0.0, 0.5, 1.0)
]
ACCURACY = Field("acc", "accuracy", percent=True, low="lo", high="hi")


def data_of(chart: Chart, layer: int = 0) -> list[dict]:
    spec = chart.drawing.to_dict()
    data = spec["layer"][layer].get("data", spec.get("data"))
    return data.get("values") or spec["datasets"][data["name"]]


def marks(chart: Chart) -> list[str]:
    return [layer["mark"]["type"] for layer in chart.drawing.to_dict()["layer"]]


def test_curves_draw_band_line_and_rule() -> None:
    chart = curves(ROWS, "r", ACCURACY, "model", dash="kind", title="T", note="N", rules=[Rule(0.5, "ε")])
    assert marks(chart) == ["area", "line", "point", "rule", "text", "text"]
    assert data_of(chart)[1] == {"x": 0.5, "y": 0.75, "low": 0.65, "high": 1.0, "series": "a", "dash": "proved"}
    assert chart.table.columns == ("r", "a, proved", "a, broken", "b, proved", "b, broken")
    assert chart.table.rows[1][1] == "75.0% [65.0, 100.0]"
    assert (chart.title, chart.note) == ("T", "N")


def test_curves_without_interval_or_series() -> None:
    chart = curves(ROWS[:3], "r", "acc", title="T", step=True)
    assert marks(chart) == ["line", "point"]
    assert chart.drawing.to_dict()["layer"][0]["mark"]["interpolate"] == "step-before"


def test_numpy_values_and_gaps_become_plain_json() -> None:
    rows = [{"x": np.float32(0.5), "y": np.nan}, {"x": np.int64(1), "y": np.float64(2)}]
    text = json.dumps(drawing.live(curves(rows, "x", "y", title="T")), allow_nan=False)
    assert '"y": null' in text


def test_field_names_are_never_paths() -> None:
    chart = curves([{"a.b[0]": 1, "c\\d": 2}, {"a.b[0]": 2, "c\\d": 3}], "a.b[0]", "c\\d", title="T")
    assert data_of(chart) == [{"x": 1, "y": 2}, {"x": 2, "y": 3}]


def test_histogram_shares_sum_to_one_per_series() -> None:
    rng = np.random.default_rng(0)
    rows = [{"d": value, "split": "train"} for value in rng.random(100)]
    rows += [{"d": value, "split": "test"} for value in rng.random(30)] + [{"d": float("inf"), "split": "test"}]
    chart = histogram(rows, "d", "split", title="T", bins=10, rules=[Rule(0.1), Rule(0.2)])
    for split in ("train", "test"):
        assert sum(row["y"] for row in data_of(chart) if row["series"] == split) == pytest.approx(1, abs=1e-4)
    assert [row[1] for row in chart.table.rows] == ["100", "30"]
    assert len(data_of(chart)) == 20
    top = chart.drawing.to_dict()["layer"][0]["encoding"]["y"]["scale"]["domain"][1]
    assert top == pytest.approx(1.2 * max(row["y"] for row in data_of(chart)))  # room for the labels of rules


def test_histogram_without_a_finite_value_is_refused() -> None:
    with pytest.raises(InputError, match="finite values of 'd'"):
        histogram([{"d": None}], "d", title="T")


def test_bars_have_whiskers_and_levels() -> None:
    rows = [row for row in ROWS if row["r"] == 0.5 and row["kind"] == "proved"]
    assert marks(bars(rows, "model", ACCURACY, title="T", rules=[Rule(0.9, "goal")])) == [
        "bar",
        "rule",
        "rule",
        "text",
        "text",
    ]
    grouped = bars(ROWS[:6:3] + ROWS[6::3], "model", ACCURACY, "kind", title="T")
    assert grouped.table.columns == ("model", "proved", "broken")


def test_rows_on_one_mark_are_refused() -> None:
    with pytest.raises(InputError, match="one row for each mark, got 6 for 'a'"):
        bars(ROWS, "model", "acc", title="T")
    with pytest.raises(InputError, match="aggregate"):
        heatmap(ROWS, "model", "kind", "acc", title="T")


def test_points_with_a_fit_on_log_axes() -> None:
    law = [{"n": 10**k, "e": 10.0**-k, "lo": 0.5 * 10.0**-k, "hi": 2 * 10.0**-k} for k in range(1, 5)]
    x, y = Field("n", log=True), Field("e", log=True, low="lo", high="hi")
    chart = points(law, x, y, title="T", fit=[{"n": 10, "e": 0.1}, {"n": 10_000, "e": 1e-4}])
    assert marks(chart) == ["line", "rule", "point"]
    code = chart.drawing.to_dict()["layer"][0]["encoding"]
    assert code["x"]["scale"]["type"] == code["y"]["scale"]["type"] == "log"
    assert code["x"]["axis"]["values"] == [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]
    assert code["y"]["axis"]["values"] == [1e-4, 1e-3, 1e-2, 1e-1]


def test_a_log_axis_refuses_zero() -> None:
    with pytest.raises(InputError, match="positive values of 'r'"):
        curves(ROWS, Field("r", log=True), "acc", "model", dash="kind", title="T")


def test_heatmap_writes_values_only_where_cells_are_few() -> None:
    few = heatmap([{"a": i, "b": j, "v": i + j} for i in range(3) for j in range(3)], "a", "b", "v", title="T")
    many = heatmap([{"a": i, "b": j, "v": i + j} for i in range(40) for j in range(3)], "a", "b", "v", title="T")
    assert marks(few) == ["rect", "text", "text"]
    assert marks(many) == ["rect"]
    assert few.table.columns == ("b", "0", "1", "2")


def test_pictures_are_images_in_a_grid() -> None:
    rows = [{"image": data_uri(np.zeros((4, 4))), "s": s, "class": c} for s in (1, 2) for c in "xy"]
    chart = pictures(rows, "image", "s", "class", title="T")
    spec = chart.drawing.to_dict()
    assert marks(chart) == ["image"]
    assert (spec["width"], spec["height"]) == (144, 144)


def test_too_many_series_or_dashes_are_refused() -> None:
    rows = [{"x": k, "y": k, "s": f"model {k}"} for k in range(7)]
    with pytest.raises(InputError, match="at most 6 series, got 7"):
        curves(rows, "x", "y", "s", title="T")
    with pytest.raises(InputError, match="at most 4 dash patterns, got 7"):
        curves(rows, "x", "y", dash="s", title="T")


def test_unknown_fields_are_named() -> None:
    with pytest.raises(InputError, match="Did you mean 'acc'"):
        curves(ROWS, "r", "ac", title="T")
