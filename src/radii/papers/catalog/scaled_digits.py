"""Scaled digits: at equal distance between classes robust accuracy still differs.

Ding et al. 2019, Table 1: original and binarized digits whose contrast is reduced until their
classes lie as close as those of smoothed digits. They stay far more robust: the distance
between classes does not explain robust accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import AttackedGrid
from radii.papers.catalog.attacked_variants import PGD, AttackPoints, by_variant
from radii.papers.catalog.capacity_mnist import CONVERGED, LONG, RECIPE, THREAT
from radii.studies.study import Findings, Measured, Study

# a smoothing, then the factors of original and binarized digits with the same distance
MATCHED = {"smooth:3": ("0.970", "0.821"), "smooth:4": ("0.955", "0.809"), "smooth:5": ("0.932", "0.790")}
VARIANTS = tuple(
    variant
    for smooth, (original, binarized) in MATCHED.items()
    for variant in (smooth, f"scale:{original}", f"binarize+scale:{binarized}")
)
GRIDS: dict[Budget, AttackedGrid] = {
    "smoke": AttackedGrid(
        "digits", RECIPE, "smoke", AttackPoints(THREAT, 30), {0.125: ("smooth:3", "scale:0.970")}, methods=(PGD,)
    ),
    # 16 core-minutes beside capacity-mnist, which trains the smoothed digits
    "cpu": AttackedGrid(
        "mnist", RECIPE, "cpu", AttackPoints(THREAT, 2000), {0.125: VARIANTS}, CONVERGED, methods=(PGD,)
    ),
    "night": AttackedGrid(
        "mnist",
        RECIPE,
        "cpu",
        AttackPoints(THREAT, suite=200),
        {0.25: VARIANTS},
        LONG,
        methods=(PGD,),
    ),
    "paper": AttackedGrid("mnist", RECIPE, "paper", AttackPoints(THREAT, suite=1000), {1.0: VARIANTS}, methods=(PGD,)),
}


def _analyze(measured: Sequence[Measured]) -> Findings:
    return by_variant(
        measured,
        "Robust accuracy at equal distance between classes",
        "Linf 0.3. Each smoothing is followed by the original and the binarized digits scaled to its distance.",
    )


STUDY = Study(
    "scaled-digits",
    "Robust accuracy at equal distance between classes",
    "Ding et al. 2019, Table 1",
    lambda budget: GRIDS[budget].cells(),
    _analyze,
    BUDGETS,
)
