"""Gamma: images of the same scenes under other lighting, very different robust accuracy after the same training.

Ding et al. 2019, section 4.1 and Fig. 3a: CIFAR-10 with pixels raised to the power gamma. Clean
accuracy of standard training stays, clean and robust accuracy of PGD training do not. The
text does not print the values of gamma; these are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import AttackedGrid
from radii.papers.catalog.attacked_variants import AttackPoints, by_variant
from radii.papers.catalog.sensitivity_cifar import SHORT, THREAT
from radii.studies.study import Findings, Measured, Study

VALUES = ("gamma:0.6", "gamma:0.8", "", "gamma:1.2", "gamma:1.4", "gamma:1.6")
GRIDS: dict[Budget, AttackedGrid] = {
    "smoke": AttackedGrid("digits", "ding-cifar", "smoke", AttackPoints(THREAT, 20), {0.25: ("gamma:0.6",)}),
    "cpu": AttackedGrid(
        "cifar10",
        "ding-cifar",
        "cpu",
        AttackPoints(THREAT, 1000, suite=30),
        {0.25: ("gamma:0.6", "", "gamma:1.6")},
        SHORT,  # the original images are the same step there
    ),
    "night": AttackedGrid("cifar10", "ding-cifar", "night", AttackPoints(THREAT, 2000, suite=100), {1.0: VALUES}),
    "paper": AttackedGrid("cifar10", "ding-cifar", "paper", AttackPoints(THREAT, suite=1000), {4.0: VALUES}),
}


def _analyze(measured: Sequence[Measured]) -> Findings:
    return by_variant(
        measured,
        "Clean and robust accuracy over gamma",
        "Linf 8/255, CIFAR-10 with pixels to the power gamma.",
    )


STUDY = Study(
    "gamma",
    "Robust accuracy of gamma-corrected CIFAR-10",
    "Ding et al. 2019, section 4.1 and Fig. 3a",
    lambda budget: GRIDS[budget].cells(),
    _analyze,
    BUDGETS,
)
