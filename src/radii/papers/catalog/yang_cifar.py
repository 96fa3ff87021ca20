"""Yang et al. on CIFAR-10, reduced, and what dropout changes.

Yang et al. 2020, tables of Lipschitzness, gaps and dropout: on CIFAR-10 the robust methods have gaps of
fifteen and forty points; dropout narrows them. The paper trains WRN-40-10; ``cpu`` and
``night`` train WRN-10 with a fraction of the width, on parts of the data, so that
gaps can appear within few epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.yang_methods import METHODS, attacked, table_of
from radii.runs.inputs import DataSpec
from radii.runs.planning import named_training
from radii.studies.study import Cell, Findings, Measured, Study
from radii.threat import Ball
from radii.training.recipes import NOTHING, Settings, laid_over

THREAT = Ball("linf", 8 / 255)
DROPOUT = 0.2  # of the paper's networks with dropout
PAIRS = ("Natural", "AT", "RST(lambda=2)", "TRADES(beta=3)", "TRADES(beta=6)")


@dataclass(frozen=True)
class Reduction:
    """What a budget trains: the data, the methods, what differs from the recipe, points of each split."""

    data: str
    methods: tuple[str, ...]
    settings: Settings
    points: int


_SHORT: Settings = {"batch_size": 64, "test_every": 0, "augmentation": {"crop": 0, "flip": True}}
REDUCTIONS: dict[Budget, Reduction] = {
    "smoke": Reduction("digits", ("Natural", "TRADES(beta=6)"), {"augmentation": {"crop": 0}}, 40),
    "cpu": Reduction("cifar10+subset:5000", PAIRS, {**_SHORT, "steps": 500}, 500),
    "night": Reduction(
        "cifar10+subset:12500", tuple(METHODS), {**_SHORT, "steps": 3000, "model": {"widen": 2.0}}, 1000
    ),
    "paper": Reduction("cifar10", tuple(METHODS), NOTHING, 10_000),
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every method without dropout, and those of the table of dropout also with it."""
    reduction = REDUCTIONS[budget]
    data = DataSpec.of(reduction.data)
    recipe: Budget = "cpu" if budget == "night" else budget
    cells: list[Cell] = []
    for name in reduction.methods:
        method, arguments = METHODS[name]
        for dropout in (0.0, DROPOUT) if name in PAIRS else (0.0,):
            settings = laid_over(reduction.settings, {"method": arguments, "model": {"dropout": dropout}})
            training = named_training(data, None, method, recipe="yang-cifar", budget=recipe, settings=settings)
            cells += attacked(training, THREAT, reduction.points, {"method": name, "dropout": str(dropout > 0)})
    return tuple(cells)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """The tables of the slides: Lipschitzness, gaps, and what dropout changes."""
    return table_of(
        measured,
        {"method": "method", "dropout": "dropout"},
        "Robust methods generalize with larger gaps",
        "CIFAR-10, Linf 8/255, PGD-40; constants are lower bounds, robust accuracies upper bounds.",
    )


STUDY = Study(
    "yang-cifar",
    "Lipschitzness, gaps and dropout on CIFAR-10",
    "Yang et al. 2020, tables of Lipschitzness, gaps and dropout",
    _cells,
    _analyze,
    BUDGETS,
)
