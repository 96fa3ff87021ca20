"""A scaling law drawn: what was measured, the curve with its band, the target, and where nothing is said."""

from __future__ import annotations

import altair as alt
import numpy as np

from radii.report import encodings as draw
from radii.report.charts import Chart
from radii.report.encodings import Rule
from radii.report.rows import Field, picked
from radii.report.table_html import table
from radii.studies.scaling_forecast import Forecast

SIZE = Field("n", "training points", log=True)
SHOWN = 2.0  # the axis ends at so many times the last size that the law speaks of


def chart(found: Forecast) -> Chart:
    """The curve up to the validated limit; beyond it the page is shaded."""
    law = found.law
    accuracy = Field("accuracy", found.curve.metric or "accuracy", percent=True, low="low", high="high")
    band = [
        {"n": n, "accuracy": at.median, "low": at.low, "high": at.high}
        for n in np.geomspace(law.smallest, law.limit, 49)
        for at in (law.predict(min(n, law.limit)),)
    ]
    measured = [{"n": each["n"], "accuracy": each["value"]} for each in found.curve.observations]
    curve = picked(band, {"x": SIZE, "y": accuracy}, "the law")
    dots = picked(measured, {"x": SIZE, "y": Field("accuracy")}, "the measurements")
    edge = SHOWN * law.limit
    places = [*curve, *dots, {"x": edge}]
    across = {"x": draw.axis(SIZE, "x", places)}
    height = draw.axis(accuracy, "y", [*curve, *dots])
    base = draw.base(curve)
    refused = draw.base([{"x": law.limit, "end": edge}])
    shade = refused.mark_rect(opacity=0.1).encode(x2="end:Q", y=alt.value(0), y2=alt.value("height"), **across)
    words = "not forecast"
    label = refused.mark_text(text=words, align="left", baseline="bottom", dx=6, dy=-6, style="rule-label")
    spots = base.mark_point(size=120, opacity=0, filled=True).properties(name=draw.HOVER)
    layers = [
        shade,
        label.encode(y=alt.value("height"), **across),
        base.mark_area(opacity=0.16).encode(**draw.ends(accuracy), **across),
        base.mark_line().encode(y=height, **across),
        spots.encode(y=height, tooltip=draw.tips(curve, {"x": SIZE, "y": accuracy}), **across),
        draw.base(dots).mark_point(filled=True, size=40).encode(y=height, **across),
        *draw.rule_layers([Rule(found.target, f"target {found.target:.1%}")] if found.target else [], "y"),
    ]
    shown = [row for row in _numbers(found) if row["accuracy"] is not None]
    return Chart(
        title(found),
        f"Points: measured, one for each seed. Band: 90% interval of the law. Shaded: beyond {law.limit:,} points "
        "these data say nothing.",
        alt.LayerChart(layer=layers),
        table(shown, [SIZE, accuracy]),
    )


def title(found: Forecast) -> str:
    """The finding: the gain of the last doubling, and what the target needs."""
    law, needed = found.law, found.needed
    if needed is not None:
        return f"{needed.target:.1%} needs {needed.words}"
    if 2 * law.smallest > law.largest:
        return f"{found.title} over the number of training points"
    gain = law.doubling(law.largest / 2)
    return f"The last doubling of the data added {100 * gain.low:.1f} to {100 * gain.high:.1f} points"


def _numbers(found: Forecast) -> list[dict[str, float | int | None]]:
    """The law at every size measured and asked for."""
    sizes = sorted({*(float(n) for n in found.law.sizes.n), *found.at, float(found.law.limit)})
    rows: list[dict[str, float | int | None]] = []
    for n in sizes:
        if found.law.refusal(n) is None:
            at = found.law.predict(n)
            rows.append({"n": round(n), "accuracy": at.median, "low": at.low, "high": at.high})
    return rows
