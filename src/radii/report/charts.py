"""Charts from tidy rows: one call, one finding.

Each function takes rows, the fields to draw and a title that states the
finding, and returns a :class:`Chart`: an altair drawing together with its
numbers as a table. How it looks is the business of ``theme``, where it is
written that of ``drawing`` and ``html``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt
import numpy as np

from radii.errors import InputError
from radii.report import encodings as draw
from radii.report.encodings import Rule
from radii.report.rows import Field, Row, distinct, field, picked
from radii.report.table_html import Table, pivot, quantiles, table

__all__ = ["Chart", "Field", "Rule", "bars", "curves", "heatmap", "histogram", "pictures", "points"]

HEIGHT = 280
CROWD = 200  # more points than this are drawn small and pale


@dataclass(frozen=True)
class Chart:
    """A drawing, the finding it shows, how to read it, and its numbers."""

    title: str
    note: str
    drawing: alt.LayerChart
    table: Table


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

    x holds numbers, or names that stand in the order of the rows.

    ``step`` draws stairs that stay at or below a falling curve between its
    points: what is proved at one radius is proved at every smaller one.
    """
    x, y, series, dash = field(x), field(y), _maybe(series), _maybe(dash)
    fields = {"x": x, "y": y, "series": series, "dash": dash}
    values = picked(rows, fields, "curves")
    base = draw.base(values)
    named = isinstance(values[0]["x"], str)  # variants, layers: in the order of the rows
    across = {"x": draw.categories(x, "x", values) if named else draw.axis(x, "x", values)}
    color = draw.colors(values, series, "stroke")
    height = draw.axis(y, "y", values)
    shape: Literal["step-before", "linear"] = "step-before" if step else "linear"
    layers = [base.mark_line(interpolate=shape).encode(y=height, **across, **color, **draw.dashes(values, dash))]
    if y.low:
        apart = {"detail": "dash:N"} if dash else {}
        band = base.mark_area(interpolate=shape, opacity=0.16)
        layers.insert(0, band.encode(**draw.ends(y), **across, **color, **apart))
    spots = base.mark_point(size=120, opacity=0, filled=True).properties(name=draw.HOVER)
    layers.append(spots.encode(y=height, tooltip=draw.tips(values, fields), **across, **color))
    splits = [which for which in (series, dash) if which]
    numbers = pivot(rows, x, splits, y, [rule.at for rule in rules])
    return Chart(title, note, _layered(layers, rules, "x"), numbers)


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
    """How the values of each series are spread: the share of points per bin; the table has the quantiles."""
    value, series = field(value), _maybe(series)
    groups = _groups(picked(rows, {"x": value, "series": series}, "histogram"), value)
    edges = np.histogram_bin_edges(np.concatenate(list(groups.values())), bins)
    binned = [
        {"x": float(f"{start:.6g}"), "end": float(f"{end:.6g}"), "y": round(count / len(numbers), 6), "series": name}
        for name, numbers in groups.items()
        for start, end, count in zip(edges[:-1], edges[1:], np.histogram(numbers, edges)[0], strict=True)
    ]
    share = Field("y", "share of points", percent=True)
    height = draw.axis(share, "y", binned, room=0.2 if rules else 0.0).stack(None)
    tips = [draw.tip("x", value, binned, " from"), draw.tip("end", value, binned, " to"), draw.tip("y", share, binned)]
    boxes = draw.base(binned).mark_bar(opacity=0.45 if len(groups) > 1 else 0.8, binSpacing=0.5)
    drawn = boxes.encode(
        x=draw.axis(value, "x", binned, binned=True),
        x2="end:Q",
        y=height,
        tooltip=tips,
        **draw.colors(binned, series),
    )
    return Chart(title, note, _layered([drawn], rules, "x"), quantiles(groups, value))


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
    x, y, series = field(x), field(y), _maybe(series)
    fields = {"x": x, "y": y, "series": series}
    values = picked(rows, fields, "bars")
    _once(values, ("x", "series"), "bars")
    base = draw.base(values)
    place = {"x": draw.categories(x, "x", values)}
    if series:
        place["xOffset"] = alt.XOffset("series:N", sort=distinct(row["series"] for row in values))
    boxes = base.mark_bar().encode(y=draw.axis(y, "y", values), tooltip=draw.tips(values, fields), **place)
    layers = [boxes.encode(**draw.colors(values, series))]
    if y.low:
        layers.append(base.mark_rule(strokeWidth=1.5).encode(**draw.ends(y), **place))
    return Chart(title, note, _layered(layers, rules, "y"), pivot(rows, x, [series] if series else [], y))


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
    """Points, with whiskers where y has an interval; ``fit`` are rows of the same fields, drawn as lines."""
    x, y, series = field(x), field(y), _maybe(series)
    fields = {"x": x, "y": y, "series": series}
    values = picked(rows, fields, "points")
    base = draw.base(values)
    line = picked(fit, {**fields, "y": Field(y.name)}, "points' fit") if fit else []
    both = [*values, *line]  # a bound may be a line of its own, without points
    over = {"x": draw.axis(x, "x", both), **draw.colors(both, series, "circle")}
    height = draw.axis(y, "y", both)
    layers = []
    if line:
        layers.append(draw.base(line).mark_line(strokeWidth=1.75).encode(y=height, **over))
    if y.low:
        layers.append(base.mark_rule(strokeWidth=1.5).encode(**draw.ends(y), **over))
    crowded = len(values) > CROWD
    dots = base.mark_point(filled=True, size=14 if crowded else 46, opacity=0.5 if crowded else 1)
    layers.append(dots.encode(y=height, tooltip=draw.tips(values, fields), **over))
    columns = [which for which in (series, x, y) if which]
    return Chart(title, note, _layered(layers, rules, "x"), table(rows[:CROWD], columns))


def heatmap(
    rows: Sequence[Row], x: Field | str, y: Field | str, value: Field | str, *, title: str, note: str = ""
) -> Chart:
    """One colored cell per pair (x, y); the value is written in the cell where cells are few."""
    x, y, value = field(x), field(y), field(value)
    values = picked(rows, {"x": x, "y": y, "value": value}, "heatmap")
    _once(values, ("x", "y"), "heatmap")
    base = draw.base(values)
    place = {"x": draw.categories(x, "x", values), "y": draw.categories(y, "y", values)}
    style = ".0%" if value.percent else ".3~g"
    legend = alt.Legend(title=None, format=style, gradientLength=160)
    color = alt.Color("value:Q", scale=alt.Scale(range="ramp"), legend=legend)
    told = draw.tips(values, {"x": x, "y": y, "value": value})
    layers = [base.mark_rect(cornerRadius=2).encode(color=color, tooltip=told, **place)]
    width, lines = (len(distinct(row[side] for row in values)) for side in "xy")
    numbers = [row["value"] for row in values if row["value"] is not None]
    if width <= 12 and lines <= 20 and numbers:
        middle = (min(numbers) + max(numbers)) / 2
        for look, side in (("cell-strong", ">"), ("cell-pale", "<=")):  # text that stands out on its cell
            words = base.transform_filter(f"datum.value {side} {middle}").mark_text(style=look, fontSize=11)
            layers.append(words.encode(text=alt.Text("value:Q", format=style), **place))
    drawing = _layered(layers).properties(height=max(120, min(30 * lines, 520)))
    return Chart(title, note, drawing, pivot(rows, y, [x], value))


def pictures(rows: Sequence[Row], image: str, x: Field | str, y: Field | str, *, title: str, note: str = "") -> Chart:
    """A gallery of pictures (data URIs of ``report.pictures.data_uri``) in columns x and lines y."""
    x, y = field(x), field(y)
    values = picked(rows, {"x": x, "y": y, "image": Field(image)}, "pictures")
    _once(values, ("x", "y"), "pictures")
    across, down = (distinct(row[side] for row in values) for side in "xy")
    above = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False)
    stamps = draw.base(values).mark_image(width=66, height=66, smooth=False)
    drawn = stamps.encode(
        url="image:N",
        x=alt.X("x:N", sort=across, axis=above, title=x.heading),
        y=alt.Y("y:N", sort=down, title=None),
        tooltip=[draw.tip("x", x, values), draw.tip("y", y, values)],
    )
    drawing = _layered([drawn]).properties(width=72 * len(across), height=72 * len(down))
    return Chart(title, note, drawing, Table((), ()))


def _maybe(which: Field | str | None) -> Field | None:
    return None if which is None else field(which)


def _layered(layers: list[alt.Chart], rules: Sequence[Rule] = (), side: draw.Side = "x") -> alt.LayerChart:
    return alt.LayerChart(layer=[*layers, *draw.rule_layers(rules, side)])


def _groups(values: draw.Values, value: Field) -> dict[str, np.ndarray]:
    """The finite values of each series, under its name; of all points under no name."""
    groups: dict[str, list[float]] = {}
    for row in values:
        if row["x"] is not None:
            groups.setdefault(str(row.get("series", "")), []).append(row["x"])
    if not groups:
        raise InputError(f"histogram needs finite values of {value.name!r}, got none.")
    return {name: np.array(numbers, dtype=float) for name, numbers in groups.items()}


def _once(values: draw.Values, keys: tuple[str, ...], chart: str) -> None:
    """Rows that fall on one mark would be drawn over each other and read as one."""
    place, times = Counter(tuple(row.get(key) for key in keys) for row in values).most_common(1)[0]
    if times > 1:
        where = ", ".join(str(part) for part in place if part is not None)
        raise InputError(f"{chart} needs one row for each mark, got {times} for {where!r}; aggregate them first.")
