"""Yang et al. on CIFAR-10, reduced: Lipschitzness and gaps.

Yang et al. 2020, tables of Lipschitzness and gaps: on CIFAR-10 the robust methods have gaps of
fifteen points, and of forty under attack. The paper trains WRN-40-10; ``cpu`` and
``night`` train WRN-10 with a fraction of the width, on parts of the data, so that
gaps can appear within few epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.yang_methods import METHODS, attacked, table_of
from radii.runs.inputs import DataSpec
from radii.runs.planning import named_training
from radii.studies.study import Cell, Findings, Measured, Study
from radii.threat import Ball
from radii.training.recipes import NOTHING, Settings, laid_over

THREAT = Ball("linf", 8 / 255)
PAIRS = ("Natural", "AT", "RST(lambda=2)", "TRADES(beta=3)", "TRADES(beta=6)")


@dataclass(frozen=True)
class Reduction:
    """What a budget trains: the data, the methods, what differs from the recipe, points of each split."""

    data: str
    methods: tuple[str, ...]
    settings: Settings
    points: int


_SHORT: Settings = {"batch_size": 64, "test_every": 0, "augmentation": {"crop": 0, "flip": True}}
# few images, many passes, and a rate that does not fall after a third of them: else nothing is memorized
_FITS: Settings = {**_SHORT, "steps": 400, "optimizer": {"schedule": "one-cycle", "lr": 0.2, "drops": ()}}
REDUCTIONS: dict[Budget, Reduction] = {
    "smoke": Reduction("digits", ("Natural", "TRADES(beta=6)"), {"augmentation": {"crop": 0}}, 40),
    "cpu": Reduction("cifar10+subset:1000", tuple(METHODS), _FITS, 500),
    "night": Reduction(
        "cifar10+subset:12500", tuple(METHODS), {**_SHORT, "steps": 3000, "model": {"widen": 2.0}}, 1000
    ),
    "paper": Reduction("cifar10", tuple(METHODS), NOTHING, 10_000),
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every method without dropout."""
    return trained(budget, REDUCTIONS[budget].methods, (0.0,))


def trained(budget: Budget, methods: Sequence[str], dropouts: Sequence[float]) -> tuple[Cell, ...]:
    """The cells of some methods, with some probabilities of dropout.

    Args:
        budget: how much work.
        methods: keys of ``METHODS``.
        dropouts: probabilities; 0 for none.
    """
    reduction = REDUCTIONS[budget]
    data = DataSpec.of(reduction.data)
    recipe: Budget = "cpu" if budget == "night" else budget
    cells: list[Cell] = []
    for name, dropout in product(methods, dropouts):
        method, arguments = METHODS[name]
        settings = laid_over(reduction.settings, {"method": arguments, "model": {"dropout": dropout}})
        training = named_training(data, None, method, recipe="yang-cifar", budget=recipe, settings=settings)
        cells += attacked(training, THREAT, reduction.points, {"training": name, "dropout": str(dropout > 0)})
    return tuple(cells)


def analyze(measured: Sequence[Measured]) -> Findings:
    """The table of the slides.

    Args:
        measured: the cells that are done, with their results.
    """
    return table_of(
        measured,
        {"training": "method", "dropout": "dropout"},
        "Accuracy under attack against the local Lipschitz constant",
        "CIFAR-10, Linf 8/255, PGD-40; constants are lower bounds, robust accuracies upper bounds.",
    )


STUDY = Study(
    "yang-cifar",
    "Lipschitzness and gaps of ten trainings on CIFAR-10",
    "Yang et al. 2020, tables of Lipschitzness and gaps",
    _cells,
    analyze,
    BUDGETS,
)
