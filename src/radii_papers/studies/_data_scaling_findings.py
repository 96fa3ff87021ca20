"""What the curves over the number of training points say: the table, the charts, the curves to extrapolate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from radii.certificates.smoothing.randomized import largest_estimate
from radii.runs.step_results import CertifyResult
from radii.studies.study import Findings, Measured, ScalingCurve
from radii.tables import ChartSpec, Field, Row, format_radius, table
from radii_papers.studies._labels import CONVNET, LIPSCHITZ, MLP, SMOOTHED, STANDARD
from radii_papers.studies._prach_networks import SIGMA
from radii_papers.studies._readings import clean_of, mean_at, mean_of, share_at, test_accuracy

SHOWN = {"digits": (36 / 255,), "mnist": (1.0, 36 / 255), "cifar10": (36 / 255, 108 / 255)}  # the forecast: the first
EXTRA = {  # the paper's other robust networks: whether it is an estimate, and how it is called
    CONVNET: (False, "CPL ConvNet, certified"),
    MLP: (False, "AOL MLP, certified"),
    SMOOTHED: (True, f"smoothing, estimate (none beyond {largest_estimate(SIGMA):.4f})"),
}


def analyze(measured: Sequence[Measured]) -> Findings:
    """Means over seeds per size; the curves of all seeds go to the forecast."""
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
            tests = [cell.read(CertifyResult).test for cell in bounded]
            points = max(test.clean.total for test in tests if test is not None)
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
            if any(row.get(extra) is not None for row in rows)
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
        "lipschitz_clean": clean_of(bounded),
        "standard_clean": mean_of(by_model[STANDARD], test_accuracy),
        **{
            extra: mean_at(by_model[extra], first, "test", estimated)
            for extra, (estimated, _) in EXTRA.items()
            if extra != SMOOTHED or first <= largest_estimate(SIGMA)  # beyond it a 0 would be no measurement
        },
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
    compared = any(row.get(extra) is not None for row in rows for extra in EXTRA)
    note = "Test points unless said; mean over seeds; nested subsets; every training has the same number of steps."
    return [
        ChartSpec(
            "curves",
            [
                {"n": row["n"], "accuracy": row[key], "curve": what}
                for row in rows
                for key, what in curves.items()
                if row.get(key) is not None
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
        "value": share_at(cell, radius) or 0.0,
    }
