"""How charts look: one theme for light, one for dark, both safe for color-blind readers.

The six series colors of each theme were searched so that every pair differs
by at least 15 (CIEDE2000) for full color vision and under protanopia,
deuteranopia and tritanopia, and each stands at least 3:1 against the page.
The tests hold them to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Theme:
    """Colors of the page and of the series drawn on it."""

    page: str
    ink: str
    muted: str
    line: str
    series: tuple[str, ...]

    def config(self) -> dict[str, Any]:
        """The vega-lite configuration of this theme."""
        text = {"labelColor": self.muted, "titleColor": self.muted, "labelFontSize": 12, "titleFontSize": 12}
        axis = {
            **text,
            "titleFontWeight": 500,
            "domainColor": self.line,
            "tickColor": self.line,
            "gridColor": self.line,
            "gridOpacity": 0.7,
            "labelPadding": 6,
            "titlePadding": 10,
            "labelLimit": 220,
            "labelOverlap": True,
        }
        # The y title stands above the axis and reads like text; rotated titles do not.
        upright = {"titleAngle": 0, "titleAlign": "left", "titleBaseline": "bottom", "titleX": 0, "titleY": -10}
        return {
            "background": "transparent",
            "font": FONT,
            "view": {"stroke": None},
            "range": {"category": list(self.series)},
            "title": {
                "color": self.ink,
                "subtitleColor": self.muted,
                "fontSize": 16,
                "subtitleFontSize": 12,
                "subtitlePadding": 6,
                "anchor": "start",
                "frame": "group",
                "offset": 16,
            },
            "axis": axis,
            "axisX": {"grid": False, "tickSize": 4},
            "axisY": {**upright, "domain": False, "ticks": False},
            "legend": {
                **text,
                "labelColor": self.ink,
                "labelLimit": 320,
                "orient": "top",
                "direction": "horizontal",
                "offset": 30,
                "columnPadding": 18,
                "symbolStrokeWidth": 2.5,
                "layout": {"top": {"margin": 18, "bounds": "full"}},
            },
            "mark": {"color": self.series[0]},
            "line": {"strokeWidth": 2.25},
            "rule": {"color": self.muted},
            "text": {"color": self.ink, "fontSize": 12},
            "style": {
                "rule-halo": {"color": self.page, "stroke": self.page, "strokeWidth": 4, "strokeJoin": "round"},
                "rule-label": {"color": self.muted},
            },
        }


LIGHT = Theme(
    page="#ffffff",
    ink="#1b2430",
    muted="#566271",
    line="#dfe4ea",
    series=("#2148b8", "#de6c06", "#2f9e88", "#a578e8", "#961503", "#40333c"),
)
DARK = Theme(
    page="#12161c",
    ink="#e9edf2",
    muted="#a3afbd",
    line="#2e3742",
    series=("#6aa5ff", "#f26a30", "#5aeec4", "#a5689a", "#e6de58", "#d8e0fa"),
)
