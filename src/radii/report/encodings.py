"""The parts of a drawing: axes, colors, tooltips, rules. Charts are put together from these.

Rows arrive under the short names x, y, low, high, series, dash, value (see
:func:`radii.report.rows.picked`); colors and fonts come from the theme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt

from radii.errors import InputError
from radii.report.rows import Field, distinct, plain
from radii.report.theme import LIGHT

Values = list[dict[str, Any]]
Side = Literal["x", "y"]

DASHES = ([1, 0], [6, 4], [2, 3], [10, 3, 2, 3])
HOVER = "hover"  # a layer of this name only carries tooltips; still pictures leave it out


@dataclass(frozen=True)
class Rule:
    """A labeled line across a chart: an epsilon, a published figure, a goal."""

    at: float
    label: str = ""


def base(values: Values) -> alt.Chart:
    """Rows to draw from, inside the spec."""
    return alt.Chart(alt.Data(values=values))


def axis(which: Field, side: Side, values: Values, binned: bool = False, room: float = 0.0) -> Any:
    """A numeric axis. y starts at zero unless it is logarithmic; x is as wide as the data.

    ``room`` is the share of the height to leave free above the highest mark, for labels of rules.
    """
    style: Any = "%" if which.percent else ("~g" if which.log else alt.Undefined)
    lines = alt.Axis(tickCount=6, format=style)
    scale = alt.Scale(zero=side == "y", nice=side == "y")
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


def categories(which: Field, side: Side, values: Values) -> Any:
    """An axis of names, in the order of the rows."""
    order = distinct(row[side] for row in values)
    if side == "y":
        return alt.Y("y:N", title=which.heading, sort=order)
    return alt.X("x:N", title=which.heading, sort=order, axis=alt.Axis(labelAngle=0))


def ends(which: Field) -> dict[str, Any]:
    """From low to high. Layers that share an axis must agree on its title, or all titles are shown."""
    return {"y": alt.Y("low:Q", title=which.heading), "y2": alt.Y2("high:Q")}


def colors(values: Values, series: Field | None, symbol: str = "square") -> dict[str, Any]:
    """One color per series, in the order of the rows; nothing where there are no series."""
    if series is None:
        return {}
    names = _few(values, "series", len(LIGHT.series), "series")
    return {"color": alt.Color("series:N", scale=alt.Scale(domain=names), legend=_legend(symbol))}


def dashes(values: Values, dash: Field | None) -> dict[str, Any]:
    """One dash pattern per kind of line."""
    if dash is None:
        return {}
    kinds = _few(values, "dash", len(DASHES), "dash patterns")
    scale = alt.Scale(domain=kinds, range=list(DASHES[: len(kinds)]))
    return {"strokeDash": alt.StrokeDash("dash:N", scale=scale, legend=_legend("stroke"))}


def _few(values: Values, key: str, most: int, what: str) -> list[Any]:
    names = distinct(row[key] for row in values)
    if len(names) > most:
        raise InputError(f"A chart shows at most {most} {what}, got {len(names)}; draw a heatmap or several charts.")
    return names


def _legend(symbol: str) -> alt.Legend:
    """As many columns as the width has room for, so that a phone gets a list."""
    columns = alt.ExprRef("max(1, floor(width / 170))")
    size = 500 if symbol == "stroke" else 120  # long enough to show a dash pattern
    return alt.Legend(title=None, columns=columns, symbolType=symbol, symbolOpacity=1, symbolSize=size)


def tip(short: str, which: Field, values: Values, suffix: str = "") -> alt.Tooltip:
    """What a pointer resting on a mark is told about one field."""
    title = which.heading + suffix
    if all(isinstance(row.get(short), int | float | None) for row in values):
        return alt.Tooltip(f"{short}:Q", title=title, format=".1%" if which.percent else ".4~g")
    return alt.Tooltip(f"{short}:N", title=title)


def tips(values: Values, fields: Mapping[str, Field | None]) -> list[alt.Tooltip]:
    """A tooltip of all fields, and of the interval of y."""
    made = [tip(short, which, values) for short, which in fields.items() if which is not None]
    y = fields.get("y")
    if y is not None and "low" in values[0]:
        made += [tip("low", y, values, " from"), tip("high", y, values, " to")]
    return made


def rule_layers(rules: Sequence[Rule], side: Side) -> list[alt.Chart]:
    """Dashed lines, then their labels on a halo of the page's color; labels step down one line each."""
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
