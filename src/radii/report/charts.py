"""A chart is drawn: a :class:`~radii.tables.ChartSpec` becomes vega-lite, and that a page or a still picture.

How it looks is the business of ``theme``. ``vl_convert`` brings the vega
scripts and renders without a browser; nothing is fetched from anywhere.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Literal

import altair as alt
import numpy as np
import vl_convert

from radii.errors import InputError
from radii.files import check_chart, write_sealed
from radii.report import _axes as axes
from radii.report._theme import DARK, LIGHT
from radii.tables import ChartSpec, Field, distinct
from radii.untrusted_text import clean

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
WIDTH, HEIGHT = 680, 280
CROWD = 200  # more points than this are drawn small and pale


def draw(spec: ChartSpec) -> alt.LayerChart:
    """The altair drawing of ``spec``."""
    layers = {"curves": _curves, "points": _points, "bars": _bars, "histogram": _histogram}[spec.kind](spec)
    return alt.LayerChart(layer=[*layers, *axes.rule_layers(spec.rules, "x"), *axes.rule_layers(spec.levels, "y")])


def save(spec: ChartSpec, path: Path | str, dark: bool = False) -> Path:
    """Write a chart as a file.

    Args:
        path: its suffix says the format: ``.png``, ``.svg``, ``.pdf`` or ``.html`` (offline, interactive).
        dark: light on dark; not for ``.html``, which has both.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    check_chart(path)
    if suffix == ".html":
        from radii.report.html import Report, Section, write  # html draws with this module

        return write(Report(title=spec.title, sections=(Section("", (spec,)),)), path)
    picture = still(spec, dark)
    if suffix == ".png":
        content = vl_convert.vegalite_to_png(picture, vl_version=VEGA_LITE, scale=2)
    elif suffix == ".pdf":
        content = vl_convert.vegalite_to_pdf(picture, vl_version=VEGA_LITE)
    else:
        content = vl_convert.vegalite_to_svg(picture, vl_version=VEGA_LITE).encode()
    write_sealed(path, content)
    return path


def still(spec: ChartSpec, dark: bool = False, titled: bool = True, width: int = WIDTH) -> dict[str, Any]:
    """The vega-lite of a picture that stands alone: fixed size, title and background inside.

    Args:
        width: in pixels.
    """
    look = DARK if dark else LIGHT
    drawing = _vega_lite(spec)
    drawing["layer"] = [layer for layer in drawing["layer"] if layer.get("name") != axes.HOVER]
    drawing.pop("params", None)
    drawing["width"] = width
    drawing["config"] = {**look.config(), "background": look.page}
    drawing["padding"] = 16
    if titled:
        title, note = clean(spec.title), clean(spec.note)
        drawing["title"] = {"text": textwrap.wrap(title, 80), "subtitle": textwrap.wrap(note, 100)}
    return drawing


def live(spec: ChartSpec) -> dict[str, Any]:
    """The vega-lite for a page: as wide as its box; the page brings theme and title."""
    fit = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**_vega_lite(spec), "description": clean(spec.title), **fit}


def svg(spec: ChartSpec) -> str:
    """The picture of a page that runs no scripts, and of a printed one: light, without its title."""
    return vl_convert.vegalite_to_svg(still(spec, titled=False), vl_version=VEGA_LITE)


@cache
def vega_scripts() -> str:
    """Vega, vega-lite and vega-embed as one script, from the wheel of vl-convert."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)


def _vega_lite(spec: ChartSpec) -> dict[str, Any]:
    drawing = _cleaned(draw(spec).to_dict())
    drawing.pop("config", None)
    return {**drawing, "height": HEIGHT}


def _cleaned(value: Any) -> Any:
    """JSON data whose texts are cleaned: names of classes and files come from strangers."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value


def _fields(spec: ChartSpec) -> dict[str, Field]:
    """The fields of a chart under its short names."""
    splits = {short: Field(name) for short, name in (("series", spec.series), ("dash", spec.dash)) if name}
    return {"x": spec.x, "y": spec.y, **splits}


def _curves(spec: ChartSpec) -> list[alt.Chart]:
    """Bands, lines, and what the pointer is told: of the nearest x, or of invisible spots over names.

    A line of one row is a dot. Over names a dot shows what was measured: a curve may leave some of them out.
    """
    fields = _fields(spec)
    values = axes.short_rows(spec.rows, fields, "curves")
    base = axes.base(values)
    named = isinstance(values[0]["x"], str)  # variants, layers: in the order of the rows
    across = {"x": axes.categories(spec.x, values) if named else axes.axis(spec.x, "x", values)}
    color = axes.colors(values, "stroke", spec.first_color)
    height = axes.axis(spec.y, "y", values)
    shape: Literal["step-before", "linear"] = "step-before" if spec.step else "linear"
    layers = [base.mark_line(interpolate=shape).encode(y=height, **across, **color, **axes.dashes(values))]
    if spec.y.low:
        apart = {"detail": "dash:N"} if spec.dash else {}
        band = base.mark_area(interpolate=shape, opacity=0.16)
        layers.insert(0, band.encode(**axes.ends(spec.y), **across, **color, **apart))
    if not named:
        if alone := _alone(values):
            dots = axes.base(alone).mark_point(size=46, opacity=1, filled=True)
            layers.append(dots.encode(y=height, **across, **color))
        return [*layers, axes.nearest_layer(values, fields).encode(x=across["x"])]
    layers.append(base.mark_point(size=32, opacity=1, filled=True).encode(y=height, **across, **color))
    spots = base.mark_point(size=120, opacity=0, filled=True).properties(name=axes.HOVER)
    return [*layers, spots.encode(y=height, tooltip=axes.tips(values, fields), **across, **color)]


def _alone(values: axes.Values) -> axes.Values:
    """The rows that are the only one of their line, which would not be seen."""
    lines = Counter((row.get("series"), row.get("dash")) for row in values)
    return [row for row in values if lines[row.get("series"), row.get("dash")] == 1]


def _points(spec: ChartSpec) -> list[alt.Chart]:
    """Points with whiskers over the lines of the fit, over the shade where nothing is said."""
    fields, plain_y = _fields(spec), Field(spec.y.name)
    ends = {spec.y.low, spec.y.high} - {""}
    whiskers, band = (any(ends <= row.keys() for row in rows) if ends else False for rows in (spec.rows, spec.fit))
    values = axes.short_rows(spec.rows, fields if whiskers else {**fields, "y": plain_y}, "points")
    line = axes.short_rows(spec.fit, fields if band else {**fields, "y": plain_y}, "points' fit") if spec.fit else []
    both = [*values, *line]  # a bound may be a line of its own, without points
    edge = [{"x": spec.shade.end}] if spec.shade else []
    over = {"x": axes.axis(spec.x, "x", [*both, *edge]), **axes.colors(both, "circle", spec.first_color)}
    height = axes.axis(spec.y, "y", both)
    layers = axes.span_layers(spec.shade, {"x": over["x"]}) if spec.shade else []
    if band:
        layers.append(axes.base(line).mark_area(opacity=0.16).encode(**axes.ends(spec.y), **over))
        spots = axes.base(line).mark_point(size=120, opacity=0, filled=True).properties(name=axes.HOVER)
        layers.append(spots.encode(y=height, tooltip=axes.tips(line, fields), **over))
    if line:
        layers.append(axes.base(line).mark_line(strokeWidth=1.75).encode(y=height, **over))
    base, crowded = axes.base(values), len(values) > CROWD
    if whiskers:
        layers.append(base.mark_rule(strokeWidth=1.5).encode(**axes.ends(spec.y), **over))
    dots = base.mark_point(filled=True, size=14 if crowded else 46, opacity=0.5 if crowded else 1)
    return [*layers, dots.encode(y=height, tooltip=axes.tips(values, fields), **over)]


def _bars(spec: ChartSpec) -> list[alt.Chart]:
    """Grouped bars with whiskers."""
    fields = _fields(spec)
    values = axes.short_rows(spec.rows, fields, "bars")
    _check_once(values)
    base = axes.base(values)
    place = {"x": axes.categories(spec.x, values)}
    if spec.series:
        place["xOffset"] = alt.XOffset("series:N", sort=distinct(row["series"] for row in values))
    boxes = base.mark_bar().encode(y=axes.axis(spec.y, "y", values), tooltip=axes.tips(values, fields), **place)
    layers = [boxes.encode(**axes.colors(values, first=spec.first_color))]
    if spec.y.low:
        layers.append(base.mark_rule(strokeWidth=1.5).encode(**axes.ends(spec.y), **place))
    return layers


def _histogram(spec: ChartSpec) -> list[alt.Chart]:
    """The share of points per bin; the shares of each series sum to one."""
    fields = _fields(spec)
    del fields["y"]
    axes.check_names(spec.rows, fields.values(), "histogram")
    groups = spec.groups
    if not groups:
        raise InputError(f"histogram needs finite values of {spec.x.name!r}, got none.")
    edges = np.histogram_bin_edges(np.concatenate(list(groups.values())), spec.bins)
    values = [
        {"x": float(f"{start:.6g}"), "end": float(f"{end:.6g}"), "y": round(count / len(numbers), 6), **own}
        for name, numbers in groups.items()
        for own in [{"series": name} if spec.series else {}]
        for start, end, count in zip(edges[:-1], edges[1:], np.histogram(numbers, edges)[0], strict=True)
    ]
    height = axes.axis(spec.y, "y", values, room=0.2 if spec.rules else 0.0).stack(None)
    tips = [axes.tip("x", spec.x, values, " from"), axes.tip("end", spec.x, values, " to")]
    boxes = axes.base(values).mark_bar(opacity=0.45 if len(groups) > 1 else 0.8, binSpacing=0.5)
    return [
        boxes.encode(
            x=axes.axis(spec.x, "x", values, binned=True),
            x2="end:Q",
            y=height,
            tooltip=[*tips, axes.tip("y", spec.y, values)],
            **axes.colors(values, first=spec.first_color),
        )
    ]


def _check_once(values: axes.Values) -> None:
    """Rows that fall on one bar would be drawn over each other and read as one."""
    place, times = Counter((row["x"], row.get("series")) for row in values).most_common(1)[0]
    if times > 1:
        where = ", ".join(str(part) for part in place if part is not None)
        raise InputError(f"bars needs one row for each mark, got {times} for {where!r}; aggregate them first.")
