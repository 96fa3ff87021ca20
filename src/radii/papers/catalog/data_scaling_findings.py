"""What the curves over the number of training points say: the table, the charts, the curves to extrapolate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from radii.papers.catalog.prach_networks import CONVNET, LIPSCHITZ, MLP, SMOOTHED, STANDARD
from radii.papers.catalog.readings import mean_at, mean_of, share_at
from radii.rounding import format_radius
from radii.studies.study import Findings, Measured, ScalingCurve
from radii.tables import ChartSpec, Field, Row, table

SHOWN = {"digits": (36 / 255,), "mnist": (1.0, 36 / 255), "cifar10": (36 / 255, 108 / 255)}  # the forecast: the first
EXTRA = {  # the paper's other robust networks: what is measured, and how it is called
    CONVNET: ("certified", "CPL ConvNet, certified"),
    MLP: ("certified", "AOL MLP, certified"),
    SMOOTHED: ("estimated", "smoothing, estimate"),
}


def analyze(measured: Sequence[Measured]) -> Findings:
    """Means over seeds per size; the curves of all seeds go to the forecast.

    Args:
        measured: the cells that are done, with their results.

    Returns:
        The table and the charts, from what is measured so far.
    """
    rows: list[Row] = []
    charts: list[ChartSpec] = []
    scaling = []
    for name in dict.fromkeys(str(cell.place["data"]) for cell in measured):
        own = [cell for cell in measured if cell.place["data"] == name]
        sizes = sorted({int(cell.place["n"]) for cell in own})
        at_size = [_row(name, n, [cell for cell in own if cell.place["n"] == n]) for n in sizes]
        rows += at_size
        charts += _charts(name, at_size)
        bounded = [cell for cell in own if cell.place["model"] == LIPSCHITZ]
        if bounded:
            points = max(cell.result["test"]["clean"]["total"] for cell in bounded)
            values = tuple(_observation(cell, SHOWN[name][0]) for cell in bounded)
            metric = f"certified accuracy at l2 {format_radius(SHOWN[name][0])}"
            scaling.append(ScalingCurve(name, LIPSCHITZ, metric, 10, points, values))
    columns = (
        Field("data", "dataset"),
        Field("n", "training points", log=True),
        Field("seeds", "seeds"),
        Field("radii", "radii"),
        Field("certified", "certified at the first, test", percent=True),
        Field("train_certified", "certified at the first, train", percent=True),
        Field("second", "certified at the second, test", percent=True),
        Field("lipschitz_clean", "1-Lipschitz: clean", percent=True),
        Field("standard_clean", "standard: clean", percent=True),
        *(
            Field(extra, what, percent=True)
            for extra, (_, what) in EXTRA.items()
            if any(row[extra] is not None for row in rows)
        ),
    )
    return Findings(table(rows, columns), tuple(charts), tuple(scaling))


def _row(name: str, n: int, cells: Sequence[Measured]) -> dict[str, Any]:
    """One size of one dataset: means over seeds, None where nothing is measured."""
    by_model = {
        model: [cell for cell in cells if cell.place["model"] == model] for model in (LIPSCHITZ, STANDARD, *EXTRA)
    }
    bounded, (first, *others) = by_model[LIPSCHITZ], SHOWN[name]
    return {
        "data": name,
        "n": n,
        "seeds": max(len(found) for found in by_model.values()),
        "radii": ", ".join(format_radius(radius) for radius in SHOWN[name]),
        "certified": mean_at(bounded, first),
        "train_certified": mean_at(bounded, first, "train"),
        "second": mean_at(bounded, others[0]) if others else None,
        "lipschitz_clean": mean_of(bounded, "test", "clean", "value"),
        "standard_clean": mean_of(by_model[STANDARD], "test_accuracy"),
        **{extra: mean_at(by_model[extra], first, key=key) for extra, (key, _) in EXTRA.items()},
    }


def _charts(name: str, rows: Sequence[Row]) -> list[ChartSpec]:
    """The curves of a dataset; where the paper's other robust networks were trained, a second chart compares them."""
    first, *others = (format_radius(radius) for radius in SHOWN[name])
    own = {
        "certified": f"certified at {first}",
        "train_certified": f"certified at {first}, training points",
        "second": f"certified at {', '.join(others)}",
        "standard_clean": "standard network, clean",
    }
    robust = {"certified": "1-Lipschitz, certified", **{extra: what for extra, (_, what) in EXTRA.items()}}
    compared = any(row[extra] is not None for row in rows for extra in EXTRA)
    note = "Test points unless said; mean over seeds; nested subsets; every training has the same number of steps."
    return [
        ChartSpec(
            "curves",
            [
                {"n": row["n"], "accuracy": row[key], "curve": what}
                for row in rows
                for key, what in curves.items()
                if row[key] is not None
            ],
            Field("n", "training points", log=True),
            Field("accuracy", "accuracy", percent=True),
            "curve",
            f"{name}: {title}",
            note,
        )
        for curves, title in (
            (own, "certified accuracy keeps growing with data"),
            *(((robust, f"robust networks at {first}"),) if compared else ()),
        )
    ]


def _observation(cell: Measured, radius: float) -> Mapping[str, float]:
    """One point of a curve that a forecast continues."""
    return {
        "n": float(cell.place["n"]),
        "seed": float(cell.place["seed"]),
        "value": share_at(cell.result, radius) or 0.0,
    }
