"""Draws certified accuracy over core-minutes from the figures of ``certified_training.py``.

``python benchmarks/certified_training_chart.py [RESULTS.json] [CHART.png]``
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from radii.report.charts import save
from radii.tables import ChartSpec, Field, Row

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "certified_training.json"
CHART = ROOT / "docs" / "pictures" / "certified-training.png"
CERTIFIED, MINUTES = ": certified", ": core-minutes"


def points(figures: dict[str, float]) -> list[Row]:
    """One point for each network whose time was measured: what it is, core-minutes, certified accuracy."""
    rows: list[Row] = []
    for name, value in figures.items():
        subject = name.removesuffix(CERTIFIED)
        if name.endswith(CERTIFIED) and subject + MINUTES in figures:
            task, _, rest = subject.partition(", budget ")
            peer = rest.partition(", ")[2].removesuffix(" instead")
            series = f"{task}, {peer}" if peer else task
            rows.append({"network": series, "minutes": figures[subject + MINUTES], "certified": value})
    return sorted(rows, key=lambda row: (row["network"], row["minutes"]))


def chart(rows: list[Row]) -> ChartSpec:
    """Certified accuracy over core-minutes, a color for each dataset, threat and network."""
    return ChartSpec(
        "points",
        rows,
        Field("minutes", "core-minutes of training"),
        Field("certified", "certified accuracy", percent=True),
        "network",
        "What a core can certify, by minutes of training",
        "All 10,000 test images, proved with float32 rounding; CPU time of one thread.",
    )


if __name__ == "__main__":
    results, target = (Path(given) for given in (*sys.argv[1:3], *(RESULTS, CHART)[len(sys.argv) - 1 :]))
    measured = {figure["name"]: figure["value"] for figure in json.loads(results.read_text())["figures"]}
    print(save(chart(points(measured)), target))
