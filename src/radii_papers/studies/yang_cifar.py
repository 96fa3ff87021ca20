"""Yang et al. on CIFAR-10, reduced: Lipschitzness and gaps.

Yang et al. 2020, tables of Lipschitzness and gaps: on CIFAR-10 the robust methods have gaps of
fifteen points, and of forty under attack. The paper trains WRN-40-10; ``cpu`` and
``night`` train WRN-10 with a fraction of the width, on parts of the data, so that
gaps can appear within few epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from radii.budget import BUDGETS, Budget
from radii.runs.component_specs import DataSpec
from radii.runs.planning import named_training
from radii.studies.study import Cell, Findings, Measured, Study
from radii.threat import Ball
from radii.training.recipes import NO_SETTINGS, Settings, deep_merge
from radii_papers.studies._yang_methods import METHODS, attacked, table_of

THREAT = Ball("linf", 8 / 255)


DATA: dict[Budget, str] = {
    "smoke": "digits",
    "cpu": "cifar10+subset:1000",
    "night": "cifar10+subset:12500",
    "paper": "cifar10",
}
CHOSEN: dict[Budget, tuple[str, ...]] = {"smoke": ("Natural", "TRADES(beta=6)")}
_SHORT: Settings = {"batch_size": 64, "test_every": 0, "augmentation": {"crop": 0, "flip": True}}
SHORTER: dict[Budget, Settings] = {
    "smoke": {"augmentation": {"crop": 0}},
    # few images, many passes, and a rate that does not fall after a third of them: else nothing is memorized
    "cpu": {**_SHORT, "steps": 400, "optimizer": {"schedule": "one-cycle", "lr": 0.2, "drops": ()}},
    "night": {**_SHORT, "steps": 3000, "model": {"widen": 2.0}},
    "paper": NO_SETTINGS,
}
POINTS: dict[Budget, int] = {"smoke": 40, "cpu": 500, "night": 1000, "paper": 10_000}  # of each split


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every method without dropout."""
    return trained(budget, tuple(METHODS), (0.0,))


def trained(budget: Budget, methods: Sequence[str], dropouts: Sequence[float]) -> tuple[Cell, ...]:
    """The cells of some methods, with some probabilities of dropout.

    Args:
        methods: keys of ``METHODS``; a budget may have fewer.
        dropouts: probabilities; 0 for none.
    """
    data = DataSpec.of(DATA[budget])
    recipe: Budget = "cpu" if budget == "night" else budget
    cells: list[Cell] = []
    for name, dropout in product(methods, dropouts):
        if name in CHOSEN.get(budget, methods):
            method, arguments = METHODS[name]
            settings = deep_merge(SHORTER[budget], {"method": arguments, "model": {"dropout": dropout}})
            training = named_training(data, None, method, recipe="yang-cifar", budget=recipe, settings=settings)
            cells += attacked(training, THREAT, POINTS[budget], {"training": name, "dropout": str(dropout > 0)})
    return tuple(cells)


def analyze(measured: Sequence[Measured]) -> Findings:
    """The table of the slides."""
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
