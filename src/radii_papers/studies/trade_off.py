"""Trade-off: one 1-Lipschitz network, accurate or robust by one number of its loss.

Prach & Lampert 2025, Table 3 and Fig. 11: with the self-normalizing loss
CE(s / (std(s) + t) − onehot, y) and orthogonal initialization, t = 0 gives clean accuracy near
that of a standard network and nothing certified; t = 1/10 gives certified accuracy. At
``cpu`` the network is the isometric one, whose matrices stay orthogonal; at ``night`` and
``paper`` it is the AOL ConvNet.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.runs.component_specs import DataSpec
from radii.runs.planning import named_training, train_step
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import Settings, deep_merge
from radii_papers.studies._prach_networks import NO_TEST_EPOCHS, POINTS, RADII, isometric_settings, shrunk
from radii_papers.studies._readings import clean_of, grouped, mean_at

VALUES: dict[Budget, tuple[float, ...]] = {
    "smoke": (0.0, 0.1),
    "cpu": (0.0, 0.01, 0.03, 0.1, 0.3, 1.0),
    "night": (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    "paper": (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
}
DATA: dict[Budget, str] = {"smoke": "digits", "cpu": "cifar10", "night": "cifar10", "paper": "cifar10"}
STEPS: dict[Budget, int] = {"smoke": 20, "cpu": 600}
ORTHOGONAL: Settings = {"init": "orthogonal", **NO_TEST_EPOCHS}
RADIUS = RADII[0]


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """One training for each value of t."""
    data = DataSpec.of(DATA[budget])
    points = POINTS[budget]
    return tuple(
        Cell(
            {"t": t},
            Certify(model=_training(data, t, budget), data=data, radii=RADII, points=points, train_points=points // 5),
        )
        for t in VALUES[budget]
    )


def _training(data: DataSpec, t: float, budget: Budget) -> Train:
    method: Settings = {"method": {"t": t}}
    if budget in STEPS:
        settings = deep_merge(isometric_settings(data, STEPS[budget]), {**method, **ORTHOGONAL})
        return train_step(data, "isometric", "self-normalizing", settings)
    short = shrunk(1500, 128, 16, depth=1) if budget == "night" else {}
    changes = deep_merge(deep_merge(short, {"model": {"layer": "aol"}}), {**method, **ORTHOGONAL})
    return named_training(data, method="self-normalizing", recipe="prach-lampert", settings=changes)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Table 3 with more values of t, and Fig. 11: certified against clean accuracy."""
    rows: list[Row] = [
        {
            "t": t,
            "clean": clean_of(cells),
            "train_clean": clean_of(cells, "train"),
            "certified": mean_at(cells, RADIUS),
        }
        for (t,), cells in grouped(measured, "t").items()
    ]
    columns = (
        Field("t", "t"),
        Field("clean", "clean, test", percent=True),
        Field("train_clean", "clean, train", percent=True),
        Field("certified", "certified at 36/255, test", percent=True),
    )
    marks: list[Row] = [
        {"t": str(row["t"]), "accuracy": row[key], "measure": what}
        for row in rows
        for key, what in (("clean", "clean"), ("certified", "certified at 36/255"))
    ]
    chart = ChartSpec(
        "curves",
        marks,
        Field("t", "t of the loss"),
        Field("accuracy", "test accuracy", percent=True),
        "measure",
        "The same network is accurate or robust, by the loss",
        "Self-normalizing cross-entropy; a larger t rewards larger margins.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "trade-off",
    "Accuracy and robustness of one architecture",
    "Prach & Lampert 2025, Table 3 and Fig. 11",
    _cells,
    _analyze,
    BUDGETS,
)
