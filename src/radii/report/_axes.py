"""The parts of a drawing: axes, colors, tooltips, rules. Charts are put together from these.

Rows arrive under the short names x, y, low, high, series, dash (see
:func:`short_rows`); colors and fonts come from the theme.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import altair as alt

from radii.errors import InputError, unknown_name
from radii.report._theme import LIGHT
from radii.tables import MISSING, Field, Row, Rule, Span, distinct, plain

Values = list[dict[str, Any]]
Side = Literal["x", "y"]

DASHES = ([1, 0], [6, 4], [2, 3], [10, 3, 2, 3], [14, 5], [8, 2, 2, 2, 2, 2])
HOVER = "hover"  # a layer of this name only carries tooltips; still pictures leave it out


def short_rows(rows: Sequence[Row], fields: Mapping[str, Field], kind: str) -> Values:
    """Rows reduced to the fields that a chart draws, under the chart's own short names.

    The short names keep specs small, and no field name that a user chose
    (``a.b``, ``x[0]``) is ever read as a path into nested data. A row without x
    or y is no mark and is left out. Where another value is missing in some
    rows, all have it as text, too, for tooltips, which would say ``null``.
    """
    shown = dict(fields)
    if "y" in fields:
        ends = (("low", fields["y"].low), ("high", fields["y"].high))
        shown |= {end: replace(fields["y"], name=name) for end, name in ends if name}
    check_names(rows, shown.values(), kind)
    values = [{short: _rounded(plain(row.get(which.name))) for short, which in shown.items()} for row in rows]
    values = [row for row in values if row["x"] is not None and row.get("y", 0) is not None]
    if not values:
        raise InputError(f"{kind} needs a row with a value of each axis, got none.")
    gaps = [short for short in shown if any(row[short] is None for row in values)]
    return [row | {f"{short}_text": _text(row[short], shown[short]) for short in gaps} for row in values]


def check_names(rows: Sequence[Row], fields: Iterable[Field], kind: str) -> None:
    """Refuse a chart without rows, or with a field that is in none of them."""
    if not rows:
        raise InputError(f"{kind} needs at least one row, got none.")
    present = set().union(*(row.keys() for row in rows))
    for which in fields:
        if which.name not in present:
            raise unknown_name(f"field of {kind}'s rows", which.name, present)


def _text(value: Any, which: Field) -> str:
    """A value as tooltips write it."""
    if not isinstance(value, int | float):
        return MISSING if value is None else str(value)
    return f"{value:.1%}" if which.percent else f"{value:.4g}"


def _rounded(value: Any) -> Any:
    """Six significant digits are more than a screen shows, and a third of the bytes."""
    if not isinstance(value, float):
        return value
    return 0.0 if abs(value) < 1e-12 else float(f"{value:.6g}")  # rounding below zero would stretch an axis


def base(values: Values) -> alt.Chart:
    """Rows to draw from, inside the spec."""
    return alt.Chart(alt.Data(values=values))


def axis(which: Field, side: Side, values: Values, binned: bool = False, room: float = 0.0) -> Any:
    """A numeric axis. y starts at zero unless it is logarithmic or its field says so; x is as wide as the data.

    Args:
        side: ``x`` or ``y``.
        room: share of the height to leave free above the highest mark, for labels of rules.
    """
    style: Any = "%" if which.percent else ("~g" if which.log else alt.Undefined)
    lines = alt.Axis(tickCount=6, format=style)
    scale = alt.Scale(zero=side == "y" and which.from_zero, nice=side == "y")
    if which.log:
        drawn = ("y", "low", "high") if side == "y" else ("x", "end")
        ticks = _log_ticks(which, [row[key] for row in values for key in drawn if key in row])
        lines = alt.Axis(values=ticks, format=style, labelOverlap="greedy")
        scale = alt.Scale(type="log", nice=False, padding=10)
    if room:
        scale = alt.Scale(domain=[0, (1 + room) * max(row[side] for row in values)], nice=True)
    if side == "y":
        return alt.Y("y:Q", title=which.heading, scale=scale, axis=lines)
    return alt.X("x:Q", title=which.heading, scale=scale, axis=lines, bin="binned" if binned else alt.Undefined)


def _log_ticks(which: Field, values: Sequence[float | None]) -> list[float]:
    """Powers of ten; with their doubles and quintuples where the axis spans few of them."""
    numbers = [value for value in values if value is not None]
    if not numbers or min(numbers) <= 0:
        raise InputError(f"A logarithmic axis needs positive values of {which.name!r}; use log=False for others.")
    first, last = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if min(numbers) <= tick <= max(numbers)]


def categories(which: Field, values: Values) -> Any:
    """An x axis of names, in the order of the rows.

    Args:
        which: the field of the axis: its name, title and unit.
    """
    order = distinct(row["x"] for row in values)
    return alt.X("x:N", title=which.heading, sort=order, axis=alt.Axis(labelAngle=0))


def ends(which: Field) -> dict[str, Any]:
    """From low to high. Layers that share an axis must agree on its title, or all titles are shown.

    Args:
        which: the field of the axis: its name, title and unit.
    """
    return {"y": alt.Y("low:Q", title=which.heading), "y2": alt.Y2("high:Q")}


def colors(values: Values, symbol: str = "square", first: int = 0) -> dict[str, Any]:
    """One color per series, in the order of the rows; nothing where there are no series.

    Args:
        first: so many colors of the theme are left out; names that no row has take them.
    """
    if "series" not in values[0]:
        return {}
    names = _few(values, "series", len(LIGHT.series) - first, "series")
    left_out = [" " * (number + 1) for number in range(first)]
    legend = _legend(symbol)
    legend.values = names
    return {"color": alt.Color("series:N", scale=alt.Scale(domain=[*left_out, *names]), legend=legend)}


def dashes(values: Values) -> dict[str, Any]:
    """One dash pattern per kind of line."""
    if "dash" not in values[0]:
        return {}
    kinds = _few(values, "dash", len(DASHES), "dash patterns")
    scale = alt.Scale(domain=kinds, range=list(DASHES[: len(kinds)]))
    return {"strokeDash": alt.StrokeDash("dash:N", scale=scale, legend=_legend("stroke"))}


def _few(values: Values, key: str, most: int, what: str) -> list[Any]:
    names = distinct(row[key] for row in values)
    if len(names) > most:
        raise InputError(f"A chart shows at most {most} {what}, got {len(names)}; draw several charts.")
    return names


def _legend(symbol: str) -> alt.Legend:
    """As many columns as the width has room for, so that a phone gets a list."""
    columns = alt.ExprRef("max(1, floor(width / 170))")
    size = 500 if symbol == "stroke" else 120  # long enough to show a dash pattern
    return alt.Legend(title=None, columns=columns, symbolType=symbol, symbolOpacity=1, symbolSize=size)


def tip(short: str, which: Field, values: Values, suffix: str = "") -> alt.Tooltip:
    """What a tooltip shows of one field."""
    title = which.heading + suffix
    if f"{short}_text" in values[0]:
        return alt.Tooltip(f"{short}_text:N", title=title)
    if all(isinstance(row.get(short), int | float | None) for row in values):
        return alt.Tooltip(f"{short}:Q", title=title, format=".1%" if which.percent else ".4~g")
    return alt.Tooltip(f"{short}:N", title=title)


def tips(values: Values, fields: Mapping[str, Field]) -> list[alt.Tooltip]:
    """A tooltip of all fields, and of the interval of y.

    Args:
        fields: the fields of the rows by their role in the chart (``x``, ``y``, ``color`` …).
    """
    tooltips = [tip(short, which, values) for short, which in fields.items()]
    if "low" in values[0]:
        tooltips += [tip("low", fields["y"], values, " from"), tip("high", fields["y"], values, " to")]
    return tooltips


def nearest_layer(values: Values, fields: Mapping[str, Field]) -> alt.Chart:
    """A line at the x nearest to the pointer, wherever it is, which tells the values of the series that have one there.

    Args:
        fields: the fields of the rows by their role in the chart (``x``, ``y``, ``color`` …).
    """
    places: dict[Any, dict[str, Any]] = {}
    names: dict[str, str] = {}
    for row in values:
        label = ", ".join(str(row[key]) for key in ("dash", "series") if row.get(key) is not None)
        short = names.setdefault(label or fields["y"].heading, f"y{len(names)}")
        places.setdefault(row["x"], {"x": row["x"]})[short] = row["y"]
    told = [_told("x", fields["x"].heading, fields["x"]), *(_told(y, name, fields["y"]) for name, y in names.items())]
    tooltip = alt.value(alt.ExprRef(f"merge({', '.join(told)})"))
    pointer = alt.selection_point(name="pointer", on="pointerover", nearest=True, encodings=["x"], empty=False)
    seen = alt.condition(pointer, alt.value(0.6), alt.value(0))
    marks = base(list(places.values())).mark_rule()
    return marks.encode(opacity=seen, tooltip=tooltip).add_params(pointer).properties(name=HOVER)


def _told(short: str, title: str, which: Field) -> str:
    """A line of a tooltip as a vega expression, empty where the row has no value, which vega would write as ``null``.

    The pointer is over the cell around a mark, whose datum is the mark; that of the mark is the row.
    """
    value = f"(datum.datum || datum).{short}"
    style = ".1%" if which.percent else ".4~g"
    return f"isValid({value}) ? {{{json.dumps(title)}: format({value}, '{style}')}} : {{}}"


def rule_layers(rules: Sequence[Rule], side: Side) -> list[alt.Chart]:
    """Dashed lines, then their labels on a halo of the page's color; labels step down one line each.

    Args:
        side: ``x`` for vertical lines, ``y`` for horizontal ones.
    """
    lines, labels = [], []
    for number, rule in enumerate(rules):
        data = base([{"at": plain(rule.at), "label": rule.label}])
        if side == "x":
            at: dict[str, Any] = {"x": alt.X("at:Q")}
            spot = {**at, "y": alt.value(2 + 16 * number)}
            place: dict[str, Any] = {"align": "left", "baseline": "top", "dx": 5}
        else:
            at = {"y": alt.Y("at:Q")}
            spot = {**at, "x": alt.value(4)}
            place = {"align": "left", "baseline": "bottom", "dy": -4}
        lines.append(data.mark_rule(strokeDash=[4, 3]).encode(**at))
        looks = ("rule-halo", "rule-label") if rule.label else ()
        labels += [data.mark_text(style=look, **place).encode(text="label:N", **spot) for look in looks]
    return lines + labels


def span_layers(span: Span, across: dict[str, Any]) -> list[alt.Chart]:
    """A pale band over the whole height with its label at the foot."""
    data = base([{"x": span.start, "end": span.end}])
    band = data.mark_rect(opacity=0.1).encode(x2="end:Q", y=alt.value(0), y2=alt.value("height"), **across)
    place: dict[str, Any] = {"align": "left", "baseline": "bottom", "dx": 6, "dy": -6}
    return [
        band,
        data.mark_text(text=span.label, style="rule-label", **place).encode(y=alt.value("height"), **across),
    ]
