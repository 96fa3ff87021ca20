"""Charts from tidy rows: one call, one finding.

Each function takes rows, the fields to draw and a title that states the
finding, and returns a :class:`Chart`: an altair drawing together with its
numbers as a table. How it looks is the business of ``theme``, where it is
written that of ``save`` and ``html``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from radii.errors import InputError
from radii.report.rows import Field, Row, distinct, field, picked, plain
from radii.report.tables import Table, pivot, quantiles, table
from radii.report.theme import LIGHT

HEIGHT = 280
DASHES = ([1, 0], [6, 4], [2, 3], [10, 3, 2, 3])
HOVER = "hover"  # layers of this name only carry tooltips; still pictures leave them out


@dataclass(frozen=True)
class Chart:
    """A drawing, the finding it shows, how to read it, and its numbers."""

    title: str
    note: str
    drawing: alt.LayerChart
    table: Table


@dataclass(frozen=True)
class Rule:
    """A labelled line across a chart: an epsilon, a published figure, a goal."""

    at: float
    label: str = ""


def curves(
    rows: Sequence[Row],
    x: Field | str,
    y: Field | str,
    series: Field | str | None = None,
    *,
    title: str,
    note: str = "",
    dash: Field | str | None = None,
    step: bool = False,
    rules: Sequence[Rule] = (),
) -> Chart:
    """Lines over x, one color per series and one dash pattern per ``dash``, with bands where y has an interval.

    ``step`` draws stairs that stay at or below a falling curve between its
    points: what is proved at one radius is proved at every smaller one.
    """
    fields = {"x": field(x), "y": field(y), "series": _maybe(series), "dash": _maybe(dash)}
    values = picked(rows, fields, "curves")
    over: dict[str, Any] = {"x": _axis(fields["x"], "x"), **_colors(values, fields)}
    if fields["dash"]:
        kinds = distinct(row["dash"] for row in values)
        _few(kinds, len(DASHES), "dash patterns")
        scale = alt.Scale(domain=kinds, range=list(DASHES[: len(kinds)]))
        over["strokeDash"] = alt.StrokeDash("dash:N", scale=scale, legend=_legend())
    shape = "step-before" if step else "linear"
    base = _base(values)
    layers = [base.mark_line(interpolate=shape).encode(y=_axis(fields["y"], "y"), **over)]
    if "low" in values[0]:
        band = {key: code for key, code in over.items() if key != "strokeDash"}
        detail = {"detail": "dash:N"} if fields["dash"] else {}
        ends = {"y": alt.Y("low:Q", title=_y_title(fields["y"])), "y2": "high:Q"}
        layers.insert(0, base.mark_area(interpolate=shape, opacity=0.16).encode(**ends, **band, **detail))
    layers.append(_hover(base, fields, {key: over[key] for key in over if key != "strokeDash"}))
    splits = [which for which in (fields["series"], fields["dash"]) if which]
    numbers = pivot(rows, field(x), splits, field(y), [rule.at for rule in rules])
    return Chart(title, note, alt.layer(*layers, *_rules(rules, "x")), numbers)


def histogram(
    rows: Sequence[Row],
    value: Field | str,
    series: Field | str | None = None,
    *,
    title: str,
    note: str = "",
    bins: int = 40,
    rules: Sequence[Rule] = (),
) -> Chart:
    """How many points have each value: shares per bin, one outline per series; the table has the quantiles."""
    fields = {"x": field(value), "series": _maybe(series)}
    values = [row for row in picked(rows, fields, "histogram") if row["x"] is not None]
    if not values:
        raise InputError(f"histogram needs finite values of {field(value).name!r}, got none.")
    groups = {
        str(name): np.array([row["x"] for row in values if row.get("series") == name], dtype=float)
        for name in (distinct(row.get("series") for row in values) or [None])
    }
    groups = {("" if name == "None" else name): numbers for name, numbers in groups.items()}
    edges = np.histogram_bin_edges(np.concatenate(list(groups.values())), bins)
    binned = [
        {"x": float(f"{start:.6g}"), "end": float(f"{end:.6g}"), "y": round(count / len(numbers), 6), "series": name}
        for name, numbers in groups.items()
        for start, end, count in zip(edges, edges[1:], np.histogram(numbers, edges)[0], strict=False)
    ]
    base = _base(binned)
    over = {"x": _axis(field(value), "x"), **(_colors(binned, fields) if series else {})}
    share = Field("y", "share of points", percent=True)
    tips = [_tip("x", field(value), " from"), _tip("end", field(value), " to"), _tip("y", share)]
    bars = base.mark_bar(opacity=0.45 if len(groups) > 1 else 0.75, binSpacing=0.5).encode(
        x=_axis(field(value), "x"), x2="end:Q", y=_axis(share, "y").stack(None), tooltip=tips, **_only(over, "color")
    )
    return Chart(title, note, alt.layer(bars, *_rules(rules, "x")), quantiles(groups, field(value)))


def bars(
    rows: Sequence[Row],
    x: Field | str,
    y: Field | str,
    series: Field | str | None = None,
    *,
    title: str,
    note: str = "",
    rules: Sequence[Rule] = (),
) -> Chart:
    """Grouped bars, with whiskers where y has an interval; ``rules`` are levels of y."""
    fields = {"x": field(x), "y": field(y), "series": _maybe(series)}
    values = picked(rows, fields, "bars")
    base = _base(values)
    order = distinct(row["x"] for row in values)
    place: dict[str, Any] = {"x": alt.X("x:N", title=fields["x"].heading, sort=order, axis=alt.Axis(labelAngle=0))}
    if fields["series"]:
        place["xOffset"] = alt.XOffset("series:N", sort=distinct(row["series"] for row in values))
    tips = _tips(fields, values[0])
    drawn = [base.mark_bar().encode(y=_axis(fields["y"], "y"), tooltip=tips, **place, **_colors(values, fields))]
    if "low" in values[0]:
        ends = {"y": alt.Y("low:Q", title=_y_title(fields["y"])), "y2": "high:Q"}
        drawn.append(base.mark_rule(strokeWidth=1.5).encode(**ends, **place))
    splits = [fields["series"]] if fields["series"] else []
    numbers = pivot(rows, field(x), splits, field(y))
    return Chart(title, note, alt.layer(*drawn, *_rules(rules, "y")), numbers)


def points(
    rows: Sequence[Row],
    x: Field | str,
    y: Field | str,
    series: Field | str | None = None,
    *,
    title: str,
    note: str = "",
    fit: Sequence[Row] = (),
    rules: Sequence[Rule] = (),
) -> Chart:
    """Points with whiskers where y has an interval; ``fit`` are rows of the same fields, drawn as lines."""
    fields = {"x": field(x), "y": field(y), "series": _maybe(series)}
    values = picked(rows, fields, "points")
    over = {"x": _axis(fields["x"], "x"), **_colors(values, fields)}
    base = _base(values)
    layers = []
    if fit:
        bare = {**fields, "y": Field(field(y).name)}
        line = _base(picked(fit, bare, "points' fit")).mark_line(strokeWidth=1.75)
        layers.append(line.encode(y=_axis(fields["y"], "y"), **over))
    if "low" in values[0]:
        ends = {"y": alt.Y("low:Q", title=_y_title(fields["y"])), "y2": "high:Q"}
        layers.append(base.mark_rule(strokeWidth=1.5).encode(**ends, **over))
    dots = base.mark_point(filled=True, size=46 if len(values) <= 200 else 14, opacity=1 if len(values) <= 200 else 0.5)
    layers.append(dots.encode(y=_axis(fields["y"], "y"), tooltip=_tips(fields, values[0]), **over))
    columns = [which for which in (fields["series"], fields["x"], fields["y"]) if which]
    return Chart(title, note, alt.layer(*layers, *_rules(rules, "x")), table(rows[:200], columns))


def heatmap(
    rows: Sequence[Row],
    x: Field | str,
    y: Field | str,
    value: Field | str,
    *,
    title: str,
    note: str = "",
) -> Chart:
    """One colored cell per pair (x, y); the value is written in the cell where cells are few."""
    fields = {"x": field(x), "y": field(y), "value": field(value)}
    values = picked(rows, fields, "heatmap")
    across, down = (distinct(row[side] for row in values) for side in "xy")
    place = {
        "x": alt.X("x:N", title=fields["x"].heading, sort=across, axis=alt.Axis(labelAngle=0)),
        "y": alt.Y("y:N", title=fields["y"].heading, sort=down),
    }
    style = ".0%" if fields["value"].percent else ".3~g"
    legend = alt.Legend(title=None, format=style, gradientLength=160)
    color = alt.Color("value:Q", scale=alt.Scale(range="ramp"), legend=legend)
    base = _base(values)
    tips = [_tip("x", fields["x"]), _tip("y", fields["y"]), _tip("value", fields["value"])]
    layers = [base.mark_rect(cornerRadius=2).encode(color=color, tooltip=tips, **place)]
    if len(across) <= 12 and len(down) <= 20:
        numbers = [row["value"] for row in values if row["value"] is not None]
        middle = (min(numbers) + max(numbers)) / 2
        layers += [_cell_text(base, place, style, f"datum.value > {middle}", True)]
        layers += [_cell_text(base, place, style, f"datum.value <= {middle}", False)]
    drawing = alt.layer(*layers).properties(height=max(120, min(30 * len(down), 520)))
    return Chart(title, note, drawing, pivot(rows, field(y), [field(x)], field(value)))


def pictures(rows: Sequence[Row], image: str, x: Field | str, y: Field | str, *, title: str, note: str = "") -> Chart:
    """A strip or gallery of pictures (data URIs of ``report.pictures.data_uri``) in columns x and lines y."""
    fields = {"x": field(x), "y": field(y), "image": Field(image)}
    values = picked(rows, fields, "pictures")
    across, down = (distinct(row[side] for row in values) for side in "xy")
    axis = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False, title=fields["x"].heading)
    drawn = (
        _base(values)
        .mark_image(width=64, height=64)
        .encode(
            url="image:N",
            x=alt.X("x:N", sort=across, axis=axis, scale=alt.Scale(paddingInner=0.05)),
            y=alt.Y("y:N", sort=down, title=None),
            tooltip=[_tip("x", fields["x"]), _tip("y", fields["y"])],
        )
    )
    drawing = alt.layer(drawn).properties(width=72 * len(across), height=72 * len(down))
    listed = table(rows, [fields["x"], fields["y"]])
    return Chart(title, note, drawing, listed)


def _maybe(which: Field | str | None) -> Field | None:
    return None if which is None else field(which)


def _base(values: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.Data(values=values))


def _axis(which: Field, side: str) -> Any:
    channel = alt.X if side == "x" else alt.Y
    style = {"format": "%"} if which.percent else ({"format": "~g"} if which.log else {})
    scale = alt.Scale(type="log") if which.log else alt.Scale(zero=side == "y", nice=side == "y")
    return channel(f"{side}:Q", title=which.heading, scale=scale, axis=alt.Axis(tickCount=6, **style))


def _y_title(which: Field) -> str:
    """Layers that share an axis must agree on its title, or all titles are shown."""
    return which.heading


def _legend() -> alt.Legend:
    """As many columns as the width has room for, so that a phone gets a list."""
    return alt.Legend(title=None, columns=alt.ExprRef("max(1, floor(width / 170))"))


def _colors(values: list[dict[str, Any]], fields: dict[str, Field | None]) -> dict[str, Any]:
    if not fields.get("series"):
        return {}
    names = distinct(row["series"] for row in values)
    _few(names, len(LIGHT.series), "series")
    return {"color": alt.Color("series:N", scale=alt.Scale(domain=names), legend=_legend())}


def _few(names: list, most: int, what: str) -> None:
    if len(names) > most:
        raise InputError(f"A chart shows at most {most} {what}, got {len(names)}; draw a heatmap or several charts.")


def _only(codes: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: codes[key] for key in keys if key in codes}


def _tip(short: str, which: Field, suffix: str = "") -> alt.Tooltip:
    kind = "Q" if short in {"end", "value", "low", "high"} else ""
    style = ".1%" if which.percent else ""
    return alt.Tooltip(f"{short}:{kind or 'Q'}", title=which.heading + suffix, format=style or ".4~g")


def _tips(fields: dict[str, Field | None], row: dict[str, Any]) -> list[alt.Tooltip]:
    made = []
    for short, which in fields.items():
        if which is None:
            continue
        if isinstance(row[short], int | float):
            made.append(_tip(short, which))
        else:
            made.append(alt.Tooltip(f"{short}:N", title=which.heading))
    y = fields.get("y")
    if y and "low" in row:
        made += [_tip("low", y, " from"), _tip("high", y, " to")]
    return made


def _hover(base: alt.Chart, fields: dict[str, Field | None], over: dict[str, Any]) -> alt.Chart:
    first = {short: 0 if short in "xy" else "" for short in fields}
    y = fields["y"]
    if y and y.low and y.high:
        first |= {"low": 0, "high": 0}
    dots = base.mark_point(size=120, opacity=0, filled=True)
    return dots.encode(y=_axis(y, "y"), tooltip=_tips(fields, first), **over).properties(name=HOVER)  # type: ignore[arg-type]


def _rules(rules: Sequence[Rule], side: str) -> list[alt.Chart]:
    """Dashed lines; labels step down one line each, so that near neighbors do not overprint."""
    layers = []
    for number, rule in enumerate(rules):
        base = _base([{"at": plain(rule.at), "label": rule.label}])
        layers.append(base.mark_rule(strokeDash=[4, 3]).encode(**{side: "at:Q"}))
        if side == "x":
            text = base.mark_text(align="left", baseline="top", dx=5, style="rule-label").encode(
                x="at:Q", y=alt.value(2 + 16 * number), text="label:N"
            )
        else:
            text = base.mark_text(align="left", baseline="bottom", dy=-4, style="rule-label").encode(
                x=alt.value(4), y="at:Q", text="label:N"
            )
        layers.append(text)
    return layers


def _cell_text(base: alt.Chart, place: dict[str, Any], style: str, test: str, strong: bool) -> alt.Chart:
    """Values in cells; strong cells take the page's color, pale ones the ink, whatever the theme."""
    text = base.transform_filter(test).mark_text(style="cell-strong" if strong else "cell-pale", fontSize=11)
    return text.encode(text=alt.Text("value:Q", format=style), **place)
