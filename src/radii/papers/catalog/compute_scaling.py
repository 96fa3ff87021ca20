"""Compute scaling: certified accuracy against the length of the training, with the data held fixed.

Prach & Lampert 2025, Fig. 5: every doubling of the compute adds less than the one before,
for clean and for certified accuracy; more compute does not replace more data. The
lengths are numbers of steps, each twice the one before. At ``cpu`` and ``night`` the
1-Lipschitz network is the isometric one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.prach_networks import (
    EPOCH,
    LIPSCHITZ,
    MLP,
    RADII,
    STANDARD,
    UNWATCHED,
    isometric_training,
    lipschitz_training,
    mlp_training,
    shrunk,
    standard_training,
)
from radii.papers.catalog.readings import grouped, mean_at, mean_of
from radii.runs.inputs import DataSpec
from radii.runs.step import Step
from radii.runs.steps import Certify
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import laid_over

RADIUS = RADII[0]


@dataclass(frozen=True)
class Lengths:
    """What a budget trains: the data, the steps of both networks, seeds, and the points that are certified."""

    data: str
    steps: tuple[int, ...]
    standard: tuple[int, ...]
    width: int
    seeds: int
    points: int


def _doubled(first: int, count: int) -> tuple[int, ...]:
    return tuple(first << power for power in range(count))


LENGTHS: dict[Budget, Lengths] = {
    "smoke": Lengths("digits+subset:320", _doubled(5, 3), _doubled(5, 3), 4, 1, 200),
    "cpu": Lengths("cifar10+subset:6250", (137, 275, 550, 1100, 2200), _doubled(75, 4), 4, 2, 10_000),
    "night": Lengths("cifar10", _doubled(250, 8), _doubled(150, 6), 16, 3, 10_000),
    "paper": Lengths("cifar10", (), _doubled(3 * EPOCH, 7), 64, 3, 10_000),
}
PAPER_EPOCHS = tuple(3000 >> power for power in range(7, -1, -1))


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every length and seed of every network; the data stays the same."""
    scale = LENGTHS[budget]
    data = DataSpec.of(scale.data)
    cells = []
    for seed in range(scale.seeds):
        steps: dict[tuple[str, int], Step] = {}
        for length in scale.steps:
            trained = isometric_training(data, length, offset=0.75, temperature=0.4, seed=seed)
            fifth = scale.points // 5
            steps[LIPSCHITZ, length] = Certify(
                model=trained, data=data, radii=RADII, points=scale.points, train_points=fifth
            )
        for epochs in PAPER_EPOCHS if budget == "paper" else ():
            length = epochs * EPOCH
            changes = {"steps": length, **UNWATCHED}
            cpl = lipschitz_training(
                data, laid_over({"model": {"layer": "cpl"}, "optimizer": {"lr": 1.0}}, changes), seed
            )
            mlp = mlp_training(data, laid_over({"model": {"width": 3072}}, changes), seed)
            for network, trained in ((LIPSCHITZ, cpl), (MLP, mlp)):
                steps[network, length] = Certify(model=trained, data=data, radii=RADII, points=scale.points)
        for length in scale.standard:
            short = {"steps": length} if budget == "paper" else shrunk(length, 128, scale.width)
            steps[STANDARD, length] = standard_training(data, laid_over(short, UNWATCHED), seed)
        cells += [Cell({"model": model, "steps": n, "seed": seed}, step) for (model, n), step in steps.items()]
    return tuple(cells)


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
                "clean": mean_of(cells, "test_accuracy")
                if model == STANDARD
                else mean_of(cells, "test", "clean", "value"),
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
