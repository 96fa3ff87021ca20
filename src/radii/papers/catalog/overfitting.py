"""Overfitting: a 1-Lipschitz network fits its training points with large certified radii, and does not generalize.

Prach & Lampert 2025, Fig. 4: with an offset of √2 in the loss and without augmentation,
certified accuracy on the training points stays near 100% up to radius 1, and is
far lower on test points at every radius. At ``cpu`` and ``night`` the network is the
isometric one, on parts of the data that its number of steps can fit; ``paper`` trains
the paper's networks on all of CIFAR-10.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import sqrt

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.prach_networks import (
    CONVNET,
    LIPSCHITZ,
    MLP,
    UNWATCHED,
    isometric_training,
    lipschitz_training,
    mlp_training,
    shrunk,
)
from radii.papers.catalog.readings import grouped, mean_at
from radii.runs.inputs import DataSpec
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import Settings, laid_over

RADII = tuple(eighth / 8 for eighth in range(13))
SHOWN = (0.0, 0.5, 1.0, 1.5)
OFFSET = sqrt(2)
STILL: Settings = {"augmentation": {"flip": False, "crop": 0, "erase": 0}, **UNWATCHED}
DATA: dict[Budget, dict[str, int]] = {  # with the steps of the isometric network
    "smoke": {"digits+subset:100": 40},
    "cpu": {"mnist+subset:2000": 600, "cifar10+subset:1000": 1200},
    "night": {"mnist+subset:15000": 8000, "cifar10+subset:6250": 16000},
    "paper": {"cifar10": 585_000},
}
POINTS: dict[Budget, int] = {"smoke": 200, "cpu": 10_000, "night": 10_000, "paper": 10_000}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every network on every part of the data, certified on training and test points."""
    cells = []
    for name, steps in DATA[budget].items():
        for network, trained in _trainings(DataSpec.of(name), steps, budget).items():
            measure = Certify(model=trained, data=trained.data, radii=RADII, points=POINTS[budget])
            cells.append(Cell({"data": name, "model": network}, measure))
    return tuple(cells)


def _trainings(data: DataSpec, steps: int, budget: Budget) -> dict[str, Train]:
    wanted = laid_over(STILL, {"method": {"offset": OFFSET}})
    cpl = {"model": {"layer": "cpl"}, "optimizer": {"lr": 1.0}}
    if budget == "paper":
        return {
            CONVNET: lipschitz_training(data, laid_over(cpl, wanted)),
            MLP: mlp_training(data, laid_over({"model": {"width": 3072}}, wanted)),
        }
    own = isometric_training(data, steps, offset=OFFSET, temperature=0.25, changes=STILL)
    if budget != "night":
        return {LIPSCHITZ: own}
    short = laid_over(laid_over(shrunk(3000, 128, 16, depth=1), cpl), wanted)
    return {LIPSCHITZ: own, CONVNET: lipschitz_training(data, short)}


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Certified accuracy over the radius, on training and on test points."""
    rows: list[Row] = []
    marks: dict[str, list[Row]] = {}
    for (data, model), cells in grouped(measured, "data", "model").items():
        row = {"data": data, "model": model}
        for radius, split in product(RADII, ("train", "test")):
            share = mean_at(cells, radius, split)
            title = f"{model}, {'training' if split == 'train' else 'test'} points"
            marks.setdefault(data, []).append({"radius": radius, "accuracy": share, "curve": title})
            row |= {f"{split} {radius:g}": share} if radius in SHOWN else {}
        rows.append(row)
    columns = (
        Field("data", "training points"),
        Field("model", "network"),
        *(
            Field(f"{split} {radius:g}", f"certified at {radius:g}, {split}", percent=True)
            for radius, split in product(SHOWN, ("train", "test"))
        ),
    )
    charts = tuple(
        ChartSpec(
            "curves",
            points,
            Field("radius", "L2 radius"),
            Field("accuracy", "certified accuracy", percent=True),
            "curve",
            f"{data}: training points are fitted robustly, test points are not",
            "Offset √2, no augmentation.",
        )
        for data, points in marks.items()
    )
    return Findings(table(rows, columns), charts)


STUDY = Study(
    "overfitting",
    "Robust overfitting of 1-Lipschitz networks",
    "Prach & Lampert 2025, Fig. 4",
    _cells,
    _analyze,
    BUDGETS,
)
