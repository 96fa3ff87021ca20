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
TASK = "cifar10 at l2:36/255"  # what all networks were trained for


def points(figures: dict[str, float]) -> list[Row]:
    """One point for each network whose time was measured: what it is, core-minutes, certified accuracy."""
    rows: list[Row] = []
    for name, value in figures.items():
        subject = name.removesuffix(CERTIFIED)
        if name.endswith(CERTIFIED) and subject + MINUTES in figures:
            task, _, rest = subject.partition(", budget ")
            peer = rest.partition(", ")[2].removesuffix(" instead")
            if task == TASK:
                network = peer or "isometric network"
                rows.append({"network": network, "minutes": figures[subject + MINUTES], "certified": value})
    return sorted(rows, key=lambda row: (row["network"], row["minutes"]))


def chart(rows: list[Row]) -> ChartSpec:
    """Certified accuracy over core-minutes, a color for each network."""
    return ChartSpec(
        "points",
        rows,
        Field("minutes", "core-minutes of training", log=True),
        Field("certified", "certified accuracy", percent=True),
        "network",
        "CIFAR-10 certified at L2 36/255, by core-minutes of training",
        "All 10,000 test images, proved with float32 rounding but for orthogonium; CPU time of one thread.",
    )


if __name__ == "__main__":
    results, target = (Path(given) for given in (*sys.argv[1:3], *(RESULTS, CHART)[len(sys.argv) - 1 :]))
    measured = {figure["name"]: figure["value"] for figure in json.loads(results.read_text())["figures"]}
    print(save(chart(points(measured)), target))
