"""Yang et al. on MNIST: ten trainings of two networks, their gaps and local Lipschitz constants.

Yang et al. 2020, table on page 14 of the slides: robust methods are more locally Lipschitz, and have larger
gaps between training and test points. Linf 0.1, PGD. At ``cpu`` the networks are a
quarter as wide and see the data twice, at ``night`` half as wide and eight times.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.runs.component_specs import DataSpec
from radii.runs.planning import named_training
from radii.studies.study import Cell, Findings, Measured, Study
from radii.threat import Ball
from radii.training.recipes import NO_SETTINGS, Settings, deep_merge
from radii_papers.studies._yang_methods import METHODS, attacked, table_of

THREAT = Ball("linf", 0.1)
NETWORKS: dict[Budget, dict[str, str]] = {
    "smoke": {"CNN1": "cnn1"},
    "cpu": {"CNN1": "cnn1", "CNN2": "cnn2"},
    "night": {"CNN1": "cnn1", "CNN2": "cnn2"},
    "paper": {"CNN1": "cnn1", "CNN2": "cnn2"},
}
CHOSEN: dict[Budget, tuple[str, ...]] = {"smoke": ("Natural", "GR", "LLR", "RST(lambda=1)", "TRADES(beta=6)")}
SHORTER: dict[Budget, Settings] = {
    "smoke": {"model": {"widen": 0.125}},
    "cpu": {"epochs": 2, "model": {"widen": 0.25}, "test_every": 0},
    "night": {"epochs": 8, "model": {"widen": 0.5}, "test_every": 0},
    "paper": NO_SETTINGS,
}
POINTS: dict[Budget, int] = {"smoke": 40, "cpu": 1000, "night": 2000, "paper": 10_000}
CLIPPED: Settings = {"optimizer": {"clip_gradient": 1.0}}  # at the larger rate of a short training LLR diverges


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every network and method, on both splits."""
    data = DataSpec.of("digits" if budget == "smoke" else "mnist")
    cells: list[Cell] = []
    for network, model in NETWORKS[budget].items():
        for name in CHOSEN.get(budget, tuple(METHODS)):
            method, arguments = METHODS[name]
            settings = deep_merge(SHORTER[budget], {"method": arguments})
            if name == "LLR" and budget != "paper":
                settings = deep_merge(settings, CLIPPED)
            recipe: Budget = "cpu" if budget == "night" else budget
            training = named_training(data, model, method, recipe="yang-mnist", budget=recipe, settings=settings)
            cells += attacked(training, THREAT, POINTS[budget], {"network": network, "training": name})
    return tuple(cells)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """The table of the slides, and robust accuracy against the local Lipschitz constant."""
    return table_of(
        measured,
        {"network": "network", "training": "method"},
        "Accuracy under attack against the local Lipschitz constant",
        "MNIST, Linf 0.1, PGD-40; constants are lower bounds, robust accuracies upper bounds.",
    )


STUDY = Study(
    "yang-mnist",
    "Lipschitzness and generalization of ten trainings on MNIST",
    "Yang et al. 2020, slides page 14",
    _cells,
    _analyze,
    BUDGETS,
)
