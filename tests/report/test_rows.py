"""Fields write numbers as people read them; rows are reduced to what a chart draws."""

from __future__ import annotations

import numpy as np
import pytest

from radii.errors import InputError
from radii.report.rows import Field, distinct, field, picked, plain


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
        (Field("a"), {}, "–"),
        (Field("a"), {"a": True}, "True"),
        (Field("a"), {"a": np.float32(0.25)}, "0.250"),
        (Field("a"), {"a": "cat"}, "cat"),
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


def test_picked_renames_rounds_and_keeps_gaps() -> None:
    rows = [{"a.b": 1 / 3, "y": -1e-19, "lo": 0.1, "hi": np.nan, "unused": object()}, {"a.b": 2, "y": None}]
    made = picked(rows, {"x": Field("a.b"), "y": Field("y", low="lo", high="hi"), "series": None}, "curves")
    assert made == [
        {"x": 0.333333, "y": 0.0, "low": 0.1, "high": None},
        {"x": 2, "y": None, "low": None, "high": None},
    ]


def test_picked_refuses_no_rows_and_unknown_fields() -> None:
    with pytest.raises(InputError, match="curves needs at least one row"):
        picked([], {"x": Field("a")}, "curves")
    with pytest.raises(InputError, match="Did you mean 'radius'"):
        picked([{"radius": 1}], {"x": Field("radious")}, "curves")
    with pytest.raises(InputError, match="'hgh'"):
        picked([{"radius": 1, "high": 2}], {"y": Field("radius", high="hgh")}, "curves")


def test_distinct_keeps_the_order_of_first_appearance() -> None:
    assert distinct(["b", "a", None, "b"]) == ["b", "a"]
