"""Sample complexity: how much more data robust accuracy takes than natural accuracy.

Schmidt et al. 2018, experiments: on MNIST, CIFAR-10 and SVHN natural accuracy of standard training
saturates with a fraction of the data; robust accuracy of PGD training keeps rising to the
last doubling, and stays far above the test accuracy on training points.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import AttackedGrid, grid_cells
from radii.papers.catalog.attacked_variants import AttackPoints, fields, marks, rows
from radii.papers.catalog.capacity_mnist import RECIPE, SHORT, THREAT
from radii.papers.catalog.sensitivity_cifar import SHORT as COLOR_SHORT
from radii.papers.catalog.sensitivity_cifar import THREAT as COLOR_THREAT
from radii.studies.optional_data import present
from radii.studies.study import Findings, Measured, Study
from radii.tables import ChartSpec, Field, table
from radii.training.recipes import Settings, laid_over

ORIGINAL = ("",)
NO_FLIP: Settings = {"augmentation": {"flip": False}}  # digits of house numbers are not symmetric


def _doubled(largest: int, count: int) -> tuple[int, ...]:
    return tuple(largest >> power for power in range(count - 1, -1, -1))


def _colored(name: str, budget: Budget, points: int, width: float, sizes: tuple[int, ...]) -> AttackedGrid:
    """The grid of CIFAR-10 or SVHN."""
    shorter = COLOR_SHORT if budget == "cpu" else {}
    settings = laid_over(shorter, NO_FLIP) if name == "svhn" else shorter
    attacks = AttackPoints(COLOR_THREAT, points, train=points)
    return AttackedGrid(name, "ding-cifar", budget, attacks, {width: ORIGINAL}, settings, sizes)


def grids(budget: Budget) -> tuple[AttackedGrid, ...]:
    """What is trained at a budget; SVHN only where its data is on this machine.

    Args:
        budget: how much work.

    Returns:
        A grid for each dataset.
    """
    if budget == "smoke":
        attacks = AttackPoints(THREAT, 30, train=30)
        return (AttackedGrid("digits", RECIPE, "smoke", attacks, {0.125: ORIGINAL}, {}, (200, 800)),)
    if budget == "cpu":  # 30 core-minutes
        attacks = AttackPoints(THREAT, 2000, train=2000)
        grey = AttackedGrid("mnist", RECIPE, "cpu", attacks, {0.125: ORIGINAL}, SHORT, _doubled(60_000, 8))
        sizes, points, width = _doubled(50_000, 5)[::2], 1000, 0.25
    elif budget == "night":
        attacks = AttackPoints(THREAT, train=10_000)
        grey = AttackedGrid(
            "mnist", RECIPE, "cpu", attacks, {0.25: ORIGINAL}, {"steps": 6000, "average": 0.999}, _doubled(60_000, 8)
        )
        sizes, points, width = _doubled(50_000, 5), 2000, 1.0
    else:
        attacks = AttackPoints(THREAT, train=60_000)
        grey = AttackedGrid("mnist", RECIPE, "paper", attacks, {1.0: ORIGINAL}, {}, _doubled(60_000, 8))
        sizes, points, width = _doubled(50_000, 8), 10_000, 4.0
    names = ("cifar10", *present("svhn", study="sample-complexity"))
    return (grey, *(_colored(name, budget, points, width, sizes) for name in names))


def _analyze(measured: Sequence[Measured]) -> Findings:
    """A row for each dataset and size; the curves of the paper."""
    own = rows(measured, ("data", "n"))
    chart = ChartSpec(
        "curves",
        marks(own, "n", "data", ("standard_clean", "pgd_train_robust", "pgd_robust")),
        Field("n", "training points", log=True),
        Field("accuracy", "accuracy", percent=True),
        "curve",
        "Natural and robust accuracy over the training points",
        "Linf 0.3 on MNIST, 8/255 on color images; nested subsets, the same number of steps for every size.",
    )
    columns = (Field("data", "dataset"), Field("n", "training points"), *fields(own))
    return Findings(table(own, columns), (chart,) if chart.rows else ())


STUDY = Study(
    "sample-complexity",
    "Natural and robust accuracy over the number of training points",
    "Schmidt et al. 2018, experiments",
    lambda budget: grid_cells(grids(budget)),
    _analyze,
    BUDGETS,
)
