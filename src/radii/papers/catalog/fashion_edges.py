"""Fashion and its edges: two harder versions of MNIST, hard in different ways.

Ding et al. 2019, section 4.2 and Fig. 3b: on Fashion-MNIST PGD training costs clean accuracy and
leaves a wide gap under attack, as on CIFAR-10; on its Canny edges, which are binary, it
costs little and leaves almost no gap, as on binarized digits.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import AttackedGrid
from radii.papers.catalog.attacked_variants import AttackPoints, by_variant
from radii.papers.catalog.capacity_mnist import CONVERGED, RECIPE, THREAT
from radii.studies.study import Findings, Measured, Study

VARIANTS = ("", "edges")
NAME = "fashion-mnist"
GRIDS: dict[Budget, AttackedGrid] = {
    "smoke": AttackedGrid("digits", RECIPE, "smoke", AttackPoints(THREAT, 30), {0.125: VARIANTS}),
    # 20 core-minutes
    "cpu": AttackedGrid(
        NAME,
        RECIPE,
        "cpu",
        AttackPoints(THREAT, 2000, suite=100),
        {0.25: VARIANTS},
        CONVERGED,
    ),
    "night": AttackedGrid(NAME, RECIPE, "night", AttackPoints(THREAT, suite=200), {0.5: VARIANTS}),
    "paper": AttackedGrid(NAME, RECIPE, "paper", AttackPoints(THREAT, suite=1000), {1.0: VARIANTS}),
}


def _analyze(measured: Sequence[Measured]) -> Findings:
    return by_variant(
        measured,
        "Fashion-MNIST and its edges, clean and under attack",
        "Linf 0.3, Fashion-MNIST and its Canny edges with sigma 1.",
    )


STUDY = Study(
    "fashion-edges",
    "Robust accuracy of Fashion-MNIST and its edges",
    "Ding et al. 2019, section 4.2 and Fig. 3b",
    lambda budget: GRIDS[budget].cells(),
    _analyze,
    BUDGETS,
)
