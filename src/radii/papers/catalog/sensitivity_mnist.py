"""Sensitivity: semantically equal copies of MNIST, very different robust accuracy after the same training.

Ding et al. 2019, Table 2 and Fig. 2a: from binarized over original to smoothed
digits clean accuracy hardly moves, robust accuracy at Linf 0.3 falls. Beside the
paper's attack stands the standard suite, and the same attack without the box (Table 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import AttackedGrid, grid_cells
from radii.papers.catalog.attacked_variants import PGD, STANDARD, AttackPoints, by_variant
from radii.papers.catalog.capacity_mnist import CONVERGED, RECIPE, SHORT, THREAT, VARIANTS
from radii.studies.study import Findings, Measured, Study

ENDS = ("binarize", "", "smooth:8")  # of Table 2, and the digits themselves
BETWEEN = tuple(variant for variant in VARIANTS if variant not in ENDS)
_ATTACKS = AttackPoints(THREAT, 2000, free=2000, both=True)
GRIDS: dict[Budget, tuple[AttackedGrid, ...]] = {
    "smoke": (
        AttackedGrid(
            "digits",
            RECIPE,
            "smoke",
            AttackPoints(THREAT, 60, free=20, suite=5, both=True),
            {0.125: ("binarize", "", "smooth:3")},
        ),
    ),
    # 65 core-minutes: 0.045 CPU seconds for a step of PGD-5, four minutes for the standard suite on 100 robust points
    "cpu": (
        AttackedGrid("mnist", RECIPE, "cpu", replace(_ATTACKS, suite=100), {0.25: ENDS}, CONVERGED, methods=(PGD,)),
        AttackedGrid("mnist", RECIPE, "cpu", _ATTACKS, {0.25: BETWEEN}, CONVERGED, methods=(PGD,)),
        AttackedGrid("mnist", RECIPE, "cpu", _ATTACKS, {0.25: VARIANTS}, SHORT, methods=(STANDARD,)),
    ),
    # 13 core-hours: 0.5 CPU seconds for a step of PGD-10 at half width
    "night": (
        AttackedGrid(
            "mnist", RECIPE, "night", AttackPoints(THREAT, free=10_000, suite=200, both=True), {0.5: VARIANTS}
        ),
    ),
    "paper": (
        AttackedGrid(
            "mnist", RECIPE, "paper", AttackPoints(THREAT, free=10_000, suite=1000, both=True), {1.0: VARIANTS}
        ),
    ),
}


def _analyze(measured: Sequence[Measured]) -> Findings:
    return by_variant(
        measured,
        "Clean accuracy stays, robust accuracy falls from binarized to smooth digits",
        "Linf 0.3. Unbroken by PGD-40: an upper bound of robust accuracy, as in the paper.",
    )


STUDY = Study(
    "sensitivity-mnist",
    "Robust accuracy of semantically equal MNIST variants",
    "Ding et al. 2019, Table 2, Table 7 and Fig. 2a",
    lambda budget: grid_cells(GRIDS[budget], VARIANTS),
    _analyze,
    BUDGETS,
)
