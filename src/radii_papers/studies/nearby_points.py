"""Nearby points: whether robust classifiers do better where a training point is near.

Prach & Lampert 2025, section 12: at least in the angular distance they do, on average, which would explain why
certified accuracy grows with the logarithm of the number of training points. The classifiers are
those of the study ``data-scaling``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

from radii.budget import BUDGETS, Budget
from radii.runs.steps import Certify
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii_papers.measurements import NearbyAccuracyResult
from radii_papers.nearby_accuracy import Metric, NearbyAccuracy
from radii_papers.studies import data_scaling
from radii_papers.studies._data_scaling_findings import SHOWN
from radii_papers.studies._labels import LIPSCHITZ

LARGEST = 12_500  # so that ten thousand test points find their neighbors within seconds


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Both distances, for the largest training set of each dataset up to 12,500 points, first seed."""
    networks: dict[str, Any] = {}
    for cell in data_scaling.STUDY.cells(budget):
        place = cell.place
        if place["model"] == LIPSCHITZ and place["seed"] == 0 and float(place["n"]) <= 1.25 * LARGEST:
            known = networks.get(str(place["data"]))
            if known is None or float(place["n"]) > float(known.place["n"]):
                networks[str(place["data"])] = cell
    return tuple(
        Cell(
            {"data": name, "n": cell.place["n"], "metric": metric},
            NearbyAccuracy(certified=cast(Certify, cell.step), radius=SHOWN[name][0], metric=metric),
        )
        for name, cell in networks.items()
        for metric in get_args(Metric)
    )


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Nearest and farthest group of each dataset and distance; the curve has all groups."""
    rows: list[Row] = []
    marks: list[Row] = []
    for cell in measured:
        groups, place = cell.read(NearbyAccuracyResult).groups, cell.place
        ends = {"nearest": groups[0], "farthest": groups[-1]}
        rows.append(
            {
                "data": place["data"],
                "n": place["n"],
                "metric": place["metric"],
                **{f"{name}_mean": end.mean for name, end in ends.items()},
                **{f"{name}_clean": end.clean for name, end in ends.items()},
                **{f"{name}_certified": end.certified for name, end in ends.items()},
            }
        )
        for number, group in enumerate(groups, 1):
            curve = f"{place['data']}, by {place['metric']}"
            marks.append({"group": number, "accuracy": group.certified, "curve": curve})
    columns = (
        Field("data", "dataset"),
        Field("n", "training points"),
        Field("metric", "distance"),
        *(
            Field(f"{name}_{key}", f"{name} group: {title}", percent=key != "mean")
            for name in ("nearest", "farthest")
            for key, title in (("mean", "mean distance"), ("clean", "clean"), ("certified", "certified"))
        ),
    )
    chart = ChartSpec(
        "curves",
        marks,
        Field("group", "fifth of the test points, nearest first"),
        Field("accuracy", "certified accuracy", percent=True),
        "curve",
        "Certified accuracy by distance to the nearest training point",
        "Angles are between images less the mean training image.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "nearby-points",
    "Certified accuracy near and far from training points",
    "Prach & Lampert 2025, section 12",
    _cells,
    _analyze,
    BUDGETS,
)
