"""Draws what a core can learn: the three recipes on CIFAR-10 over core-minutes of training.

The figures are those of ``robust_training.py`` and ``certified_training.py``. Each curve has its own measure and
threat, which its name tells: they show what is reached with time, not which recipe is better.

``python benchmarks/recipes_chart.py [CHART.png]``
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from radii.report.charts import save
from radii.tables import ChartSpec, Field, Row

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CHART = ROOT / "docs" / "pictures" / "recipes.png"
ROBUST = "cifar10 robust at linf:8/255, budget "
CURVES = {  # file, start and end of a figure's name -> the curve
    ("robust_training", "cifar10 standard, budget ", ": clean"): "standard: clean",
    ("robust_training", ROBUST, ": clean"): "robust: clean",
    ("robust_training", ROBUST, ": under PGD-40"): "robust: under PGD-40 at Linf 8/255",
    ("certified_training", "cifar10 at l2:36/255, budget ", ": certified"): "certified: proved at L2 36/255",
}


def points(results: Path = RESULTS) -> list[Row]:
    """One point for each budget of each curve whose time was measured."""
    rows: list[Row] = []
    for (file, start, end), curve in CURVES.items():
        path = results / f"{file}.json"
        figures = {item["name"]: item["value"] for item in json.loads(path.read_text())["figures"]}
        for name, value in figures.items():
            subject = name.removesuffix(end)
            minutes = figures.get(f"{subject}: core-minutes")
            is_rule = subject.startswith(start) and "," not in subject.removeprefix(start)
            if name.endswith(end) and is_rule and minutes is not None:
                rows.append({"curve": curve, "minutes": minutes, "accuracy": value})
    return sorted(rows, key=lambda row: (row["curve"], row["minutes"]))


def chart(rows: list[Row]) -> ChartSpec:
    """Accuracy over core-minutes, a color for each recipe and measure."""
    return ChartSpec(
        "points",
        rows,
        Field("minutes", "core-minutes of training", log=True),
        Field("accuracy", "accuracy on test images", percent=True),
        "curve",
        "What a core learns of CIFAR-10",
        "Clean and proved: all test images. Under PGD-40: the first 1,000, an upper bound. CPU time of one thread.",
    )


if __name__ == "__main__":
    print(save(chart(points()), Path(sys.argv[1]) if len(sys.argv) > 1 else CHART))
