"""Capacity on CIFAR-10: width of a wide ResNet against robust accuracy, on saturated variants.

Ding et al. 2019, Table 5 and Fig. 4: WideResNet-28 with widen factors 1/4, 1 and 4. Robust
accuracy on training images grows with the width throughout, on test images only up to 1.
"""

from __future__ import annotations

from radii.budget import BUDGETS, Budget
from radii.papers.catalog import capacity_mnist
from radii.papers.catalog.attacked_grid import AttackedGrid
from radii.papers.catalog.attacked_variants import AttackPoints
from radii.papers.catalog.sensitivity_cifar import FEW, LEVELS, SHORT, THREAT, saturated
from radii.studies.study import Study

GRIDS: dict[Budget, AttackedGrid] = {
    "smoke": AttackedGrid(
        "digits",
        "ding-cifar",
        "smoke",
        AttackPoints(THREAT, 20, train=20),
        {0.25: ("saturate:8",), 0.5: ("saturate:8",)},
    ),
    # half an hour of CPU time beside sensitivity-cifar, which trains the networks of a quarter of the width
    "cpu": AttackedGrid(
        "cifar10",
        "ding-cifar",
        "cpu",
        AttackPoints(THREAT, 1000, train=1000),
        {0.25: saturated(LEVELS), 1.0: FEW},
        SHORT,
    ),
    "night": AttackedGrid(
        "cifar10",
        "ding-cifar",
        "night",
        AttackPoints(THREAT, 2000, train=2000),
        {0.25: saturated(LEVELS), 1.0: saturated(LEVELS)},
    ),
    "paper": AttackedGrid(
        "cifar10",
        "ding-cifar",
        "paper",
        AttackPoints(THREAT, train=50_000, suite=1000),
        dict.fromkeys((0.25, 1.0, 4.0), saturated(LEVELS)),
    ),
}

STUDY = Study(
    "capacity-cifar",
    "Network width against robust accuracy on saturated CIFAR-10",
    "Ding et al. 2019, Table 5 and Fig. 4",
    lambda budget: GRIDS[budget].cells(),
    capacity_mnist.analyze,
    BUDGETS,
)
