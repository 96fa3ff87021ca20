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
from radii.runs.component_specs import DataSpec
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import deep_merge
from radii_papers.studies._labels import CONVNET, LIPSCHITZ, MLP
from radii_papers.studies._prach_networks import (
    CPL,
    NO_AUGMENTATION,
    POINTS,
    isometric_training,
    lipschitz_training,
    mlp_training,
    shrunk,
)
from radii_papers.studies._readings import SPLITS, grouped, mean_at

RADII = tuple(eighth / 8 for eighth in range(13))
SHOWN = (0.0, 0.5, 1.0, 1.5)
OFFSET = sqrt(2)
DATA: dict[Budget, dict[str, int]] = {  # with the steps of the isometric network
    "smoke": {"digits+subset:100": 40},
    "cpu": {"mnist+subset:2000": 600, "cifar10+subset:1000": 1200},
    "night": {"mnist+subset:15000": 8000, "cifar10+subset:6250": 16000},
    "paper": {"cifar10": 585_000},
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every network on every part of the data, certified on training and test points."""
    cells = []
    for name, steps in DATA[budget].items():
        for network, trained in _trainings(DataSpec.of(name), steps, budget).items():
            measure = Certify(model=trained, data=trained.data, radii=RADII, points=POINTS[budget])
            cells.append(Cell({"data": name, "model": network}, measure))
    return tuple(cells)


def _trainings(data: DataSpec, steps: int, budget: Budget) -> dict[str, Train]:
    wanted = deep_merge(NO_AUGMENTATION, {"method": {"offset": OFFSET}})
    if budget == "paper":
        return {
            CONVNET: lipschitz_training(data, deep_merge(CPL, wanted)),
            MLP: mlp_training(data, deep_merge({"model": {"width": 3072}}, wanted)),
        }
    own = isometric_training(data, steps, deep_merge(wanted, {"method": {"temperature": 0.25}}))
    if budget != "night":
        return {LIPSCHITZ: own}
    short = deep_merge(deep_merge(shrunk(3000, 128, 16, depth=1), CPL), wanted)
    return {LIPSCHITZ: own, CONVNET: lipschitz_training(data, short)}


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Certified accuracy over the radius, on training and on test points."""
    rows: list[Row] = []
    marks: dict[str, list[Row]] = {}
    for (data, model), cells in grouped(measured, "data", "model").items():
        row = {"data": data, "model": model}
        for radius, split in product(RADII, SPLITS):
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
            for radius, split in product(SHOWN, SPLITS)
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
