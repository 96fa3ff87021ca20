"""Compute scaling: certified accuracy against the length of the training, with the data held fixed.

Prach & Lampert 2025, Fig. 5: every doubling of the compute adds less than the one before,
for clean and for certified accuracy; more compute does not replace more data. The
lengths are numbers of steps, each twice the one before. At ``cpu`` and ``night`` the
1-Lipschitz network is the isometric one.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.runs.component_specs import DataSpec
from radii.runs.step import Step
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import Settings, deep_merge
from radii_papers.studies._labels import LIPSCHITZ, MLP, STANDARD
from radii_papers.studies._prach_networks import (
    CPL,
    EPOCH,
    LOSS,
    NO_TEST_EPOCHS,
    POINTS,
    RADII,
    doubled,
    isometric_training,
    lipschitz_training,
    mlp_training,
    shrunk,
    standard_training,
)
from radii_papers.studies._readings import clean_of, grouped, mean_at, mean_of, test_accuracy

RADIUS = RADII[0]
DATA: dict[Budget, str] = {
    "smoke": "digits+subset:320",
    "cpu": "cifar10+subset:6250",
    "night": "cifar10",
    "paper": "cifar10",
}
STEPS: dict[Budget, tuple[int, ...]] = {  # of the isometric network; at ``paper`` of the CPL ConvNet and the MLP
    "smoke": doubled(20, 3),
    "cpu": doubled(2200, 5),
    "night": doubled(32_000, 8),
    "paper": tuple(epochs * EPOCH for epochs in doubled(3000, 8)),
}
STANDARD_STEPS: dict[Budget, tuple[int, ...]] = {
    "smoke": doubled(20, 3),
    "cpu": doubled(600, 4),
    "night": doubled(4800, 6),
    "paper": doubled(192 * EPOCH, 7),
}
WIDTH: dict[Budget, int] = {"smoke": 4, "cpu": 4, "night": 16}  # of shorter standard trainings
SEEDS: dict[Budget, int] = {"smoke": 1, "cpu": 2, "night": 3, "paper": 3}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every length and seed of every network; the data stays the same."""
    data = DataSpec.of(DATA[budget])
    cells = []
    for seed in range(SEEDS[budget]):
        steps: dict[tuple[str, int], Step] = {}
        for length in STEPS[budget]:
            for network, trained in _robust(data, length, budget, seed).items():
                part = {} if budget == "paper" else {"train_points": POINTS[budget] // 5}
                measure = Certify(model=trained, data=data, radii=RADII, points=POINTS[budget], **part)
                steps[network, length] = measure
        for length in STANDARD_STEPS[budget]:
            short = {"steps": length} if budget == "paper" else shrunk(length, 128, WIDTH[budget])
            steps[STANDARD, length] = standard_training(data, deep_merge(short, NO_TEST_EPOCHS), seed)
        cells += [Cell({"model": model, "steps": n, "seed": seed}, step) for (model, n), step in steps.items()]
    return tuple(cells)


def _robust(data: DataSpec, steps: int, budget: Budget, seed: int) -> dict[str, Train]:
    """The 1-Lipschitz networks that are trained for so many steps."""
    if budget != "paper":
        return {LIPSCHITZ: isometric_training(data, steps, {"method": LOSS["cifar10"], **NO_TEST_EPOCHS}, seed)}
    length: Settings = {"steps": steps, **NO_TEST_EPOCHS}
    return {
        LIPSCHITZ: lipschitz_training(data, deep_merge(CPL, length), seed),
        MLP: mlp_training(data, deep_merge({"model": {"width": 3072}}, length), seed),
    }


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Accuracies over the number of steps, means over seeds."""
    rows: list[Row] = []
    for (model, steps), cells in grouped(measured, "model", "steps").items():
        rows.append(
            {
                "model": model,
                "steps": steps,
                "seeds": len(cells),
                "certified": None if model == STANDARD else mean_at(cells, RADIUS),
                "train_certified": None if model == STANDARD else mean_at(cells, RADIUS, "train"),
                "clean": mean_of(cells, test_accuracy) if model == STANDARD else clean_of(cells),
            }
        )
    rows.sort(key=lambda row: (str(row["model"]), row["steps"]))
    marks: list[Row] = [
        {"steps": row["steps"], "accuracy": row[key], "curve": f"{row['model']}: {what}"}
        for row in rows
        for key, what in (("certified", "certified at 36/255"), ("clean", "clean"))
        if row[key] is not None
    ]
    columns = (
        Field("model", "network"),
        Field("steps", "steps", log=True),
        Field("seeds", "seeds"),
        Field("certified", "certified at 36/255, test", percent=True),
        Field("train_certified", "certified at 36/255, train", percent=True),
        Field("clean", "clean, test", percent=True),
    )
    chart = ChartSpec(
        "curves",
        marks,
        Field("steps", "training steps", log=True),
        Field("accuracy", "test accuracy", percent=True),
        "curve",
        "More compute alone brings certified accuracy less and less",
        "Means over seeds; the data is the same for all lengths.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "compute-scaling",
    "Certified accuracy against the length of the training",
    "Prach & Lampert 2025, Fig. 5",
    _cells,
    _analyze,
    BUDGETS,
)
