"""The chart of a law: band up to the limit, points, target, and a shade where nothing is said."""

from __future__ import annotations

import pytest

from radii.forecasting._posterior import LINKS
from radii.randomness import numpy_stream
from radii.report.charts import still
from radii.studies.scaling_forecast import Forecast, forecast
from radii.studies.study import ScalingCurve
from simulated_curves import Truth


@pytest.fixture(scope="module")
def found() -> Forecast:
    seen = Truth(LINKS[0], 0.85).observed([50_000 // 2**k for k in range(5, -1, -1)], numpy_stream(0, "files"))
    rows = tuple({"n": each.n, "seed": each.seed, "value": each.value} for each in seen)
    return forecast(ScalingCurve("cifar10", "AOL", "certified accuracy", 10, 10_000, rows), 0.65)[0]


def test_the_band_ends_where_the_law_does(found: Forecast) -> None:
    layers = still(found.chart())["layer"]
    data = [layer["data"]["values"] for layer in layers]
    band = next(rows for rows in data if "low" in rows[0])
    assert max(row["x"] for row in band) == found.law.limit
    assert all(row["low"] <= row["y"] <= row["high"] for row in band)
    shade = next(rows for rows in data if "end" in rows[0])
    assert shade[0]["x"] == found.law.limit
    assert any(len(rows) == len(found.curve.observations) for rows in data), "a point for every training"


def test_the_title_is_the_finding(found: Forecast) -> None:
    assert found.finding.startswith("Reaching 65.0% takes")
    no_target = Forecast(found.curve, found.law)
    assert no_target.finding.startswith("The last doubling of the data added")
    assert no_target.chart().table().cells[-1][0] == f"{found.law.limit:,}"
