"""Sensitivity on CIFAR-10: the more saturated the colors, the more robust the same training makes a network.

Ding et al. 2019, Table 3 and Fig. 2b: saturation moves pixels toward 0 and 1. Clean
accuracy falls slowly, robust accuracy at Linf 8/255 rises from 33% to 80%. Table 7: the
same networks against perturbations that may leave the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import AttackedGrid, grid_cells
from radii.papers.catalog.attacked_variants import AttackPoints, by_variant
from radii.studies.study import Findings, Measured, Study
from radii.threat import Ball
from radii.training.recipes import Settings

THREAT = Ball("linf", 8 / 255)
LEVELS = ("1", "1.5", "1.75", "original", "2.25", "2.5", "3", "4", "8", "16", "64", "128", "256", "inf")


def saturated(levels: Sequence[str]) -> tuple[str, ...]:
    """Variants by levels of saturation; 2 is the original.

    Args:
        levels: as Table 3 has them.

    Returns:
        What stands behind ``cifar10+``.
    """
    return tuple("" if level == "original" else f"saturate:{level}" for level in levels)


FEW = saturated(("original", "8", "inf"))  # where more is measured
REST = tuple(variant for variant in saturated(LEVELS) if variant not in FEW)
SHORT: Settings = {"steps": 800, "method": {"steps": 3, "step": 0.5}}
_SHORT_ATTACKS = AttackPoints(THREAT, 1000, free=1000)
GRIDS: dict[Budget, tuple[AttackedGrid, ...]] = {
    "smoke": (
        AttackedGrid("digits", "ding-cifar", "smoke", AttackPoints(THREAT, 20, free=20), {0.25: ("", "saturate:8")}),
    ),
    # an hour of CPU time: 0.15 seconds for a step of PGD-3
    "cpu": (
        AttackedGrid("cifar10", "ding-cifar", "cpu", replace(_SHORT_ATTACKS, suite=30), {0.25: FEW}, SHORT),
        AttackedGrid("cifar10", "ding-cifar", "cpu", _SHORT_ATTACKS, {0.25: REST}, SHORT),
    ),
    "night": (
        AttackedGrid(
            "cifar10",
            "ding-cifar",
            "night",
            AttackPoints(THREAT, 2000, free=2000, suite=100),
            {1.0: saturated(LEVELS)},
        ),
    ),
    "paper": (
        AttackedGrid(
            "cifar10", "ding-cifar", "paper", AttackPoints(THREAT, free=10_000, suite=1000), {4.0: saturated(LEVELS)}
        ),
    ),
}


def _analyze(measured: Sequence[Measured]) -> Findings:
    return by_variant(
        measured,
        "Clean and robust accuracy over saturation",
        "Linf 8/255. PGD-40 and the standard suite leave at most so much of robust accuracy.",
    )


STUDY = Study(
    "sensitivity-cifar",
    "Robust accuracy of saturated CIFAR-10",
    "Ding et al. 2019, Table 3, Table 7 and Fig. 2b",
    lambda budget: grid_cells(GRIDS[budget], saturated(LEVELS)),
    _analyze,
    BUDGETS,
)
