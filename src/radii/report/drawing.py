"""A chart becomes bytes: vega-lite for a page, or a still picture for a paper.

``vl_convert`` brings the vega scripts and renders without a browser; nothing
is fetched from anywhere.
"""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from radii.atomic import check_chart, write_whole
from radii.report.charts import HEIGHT, Chart
from radii.report.encodings import HOVER
from radii.report.theme import theme

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
WIDTH = 680


def save(chart: Chart, path: Path | str, dark: bool = False) -> Path:
    """Write ``chart`` as its suffix says: ``.png``, ``.svg``, ``.pdf`` or ``.html`` (offline, interactive)."""
    path = Path(path)
    suffix = path.suffix.lower()
    check_chart(path)
    if suffix == ".html":
        from radii.report.html import Report, Section, write  # html draws with this module

        return write(Report(title=chart.title, sections=(Section("", (chart,)),)), path)
    spec = still(chart, dark)
    if suffix == ".png":
        content = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2)
    elif suffix == ".pdf":
        content = vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE)
    else:
        content = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    write_whole(path, content)
    return path


def still(chart: Chart, dark: bool = False, titled: bool = True, width: int = WIDTH) -> dict[str, Any]:
    """The vega-lite spec of a picture that stands alone: fixed size, title and background inside."""
    look = theme(dark)
    spec = _spec(chart)
    spec["layer"] = [layer for layer in spec["layer"] if layer.get("name") != HOVER]
    spec.setdefault("width", width)
    spec["config"] = {**look.config(), "background": look.page}
    spec["padding"] = 16
    if titled:
        spec["title"] = {"text": textwrap.wrap(chart.title, 80), "subtitle": textwrap.wrap(chart.note, 100)}
    return spec


def live(chart: Chart) -> dict[str, Any]:
    """The vega-lite spec for a page: as wide as its box; the page brings theme and title."""
    spec = _spec(chart)
    spec.setdefault("width", "container")
    if spec["width"] == "container":
        spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec


def svg(chart: Chart) -> str:
    """The picture of a page that runs no scripts, and of a printed one: light, without its title."""
    return vl_convert.vegalite_to_svg(still(chart, titled=False), vl_version=VEGA_LITE)


@cache
def vega_scripts() -> str:
    """Vega, vega-lite and vega-embed as one script, from the wheel of vl-convert."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)


def _spec(chart: Chart) -> dict[str, Any]:
    spec = chart.drawing.to_dict()
    spec.pop("config", None)
    spec.setdefault("height", HEIGHT)
    return spec
