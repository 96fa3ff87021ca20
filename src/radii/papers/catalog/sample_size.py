"""Sample size: robust accuracy of variants over the number of training points.

Ding et al. 2019, section 5.3 and Fig. 4: 1,000, 3,000, 9,000, 27,000 and all training points, weight
decay 0.002. Small training sets are overfitted: robust accuracy falls on training points and
rises on test points as the set grows.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import ALL, AttackedGrid, grid_cells
from radii.papers.catalog.attacked_variants import AttackPoints, fields, marks, rows
from radii.papers.catalog.capacity_mnist import RECIPE, SHORT, THREAT, VARIANTS
from radii.papers.catalog.sensitivity_cifar import LEVELS, saturated
from radii.papers.catalog.sensitivity_cifar import THREAT as COLOR_THREAT
from radii.studies.study import Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table

FEW = ("binarize", "", "smooth:8")  # the ends of Table 2 and its middle
SIZES = (1000, 3000, 9000, 27_000, ALL)
DECAY = {"optimizer": {"weight_decay": 0.002}}
GRIDS: dict[Budget, tuple[AttackedGrid, ...]] = {
    "smoke": (
        AttackedGrid(
            "digits",
            RECIPE,
            "smoke",
            AttackPoints(THREAT, 30, train=30),
            {0.125: ("binarize",)},
            DECAY,
            (100, 400),
            ("PGD",),
        ),
    ),
    # 50 core-minutes
    "cpu": (
        AttackedGrid(
            "mnist",
            RECIPE,
            "cpu",
            AttackPoints(THREAT, 1000, train=1000),
            {0.125: FEW},
            {**SHORT, **DECAY},
            SIZES,
        ),
    ),
    "night": (
        AttackedGrid(
            "mnist",
            RECIPE,
            "cpu",
            AttackPoints(THREAT, 2000, train=2000),
            {0.25: VARIANTS},
            {"steps": 4000, "average": 0.999, **DECAY},
            SIZES,
        ),
    ),
    "paper": (
        AttackedGrid("mnist", RECIPE, "paper", AttackPoints(THREAT, train=60_000), {1.0: VARIANTS}, DECAY, SIZES),
        AttackedGrid(
            "cifar10",
            "ding-cifar",
            "paper",
            AttackPoints(COLOR_THREAT, train=50_000),
            {4.0: saturated(LEVELS)},
            DECAY,
            SIZES,
        ),
    ),
}
FULL = {"digits": 1437, "mnist": 60_000, "cifar10": 50_000}  # training points


def _analyze(measured: Sequence[Measured]) -> Findings:
    """A row for each variant and size; for each dataset curves on training and test points, of three variants."""
    own = rows(measured, ("data", "variant", "n"))
    own = [{**row, "n": FULL[row["data"]] if row["n"] == "all" else row["n"]} for row in own]
    charts = [_chart([row for row in own if row["data"] == data]) for data in dict.fromkeys(row["data"] for row in own)]
    columns = (Field("data", "dataset"), Field("variant", "variant"), Field("n", "training points"), *fields(own))
    return Findings(table(own, columns), tuple(chart for chart in charts if chart.rows))


def _chart(own: Sequence[Row]) -> ChartSpec:
    """Curves of one dataset: the first variant, the original, the last."""
    variants = list(dict.fromkeys(row["variant"] for row in own))
    shown = variants if len(variants) <= 3 else [variants[0], "original", variants[-1]]
    return ChartSpec(
        "curves",
        marks([row for row in own if row["variant"] in shown], "n", "variant", ("pgd_train_robust", "pgd_robust")),
        Field("n", "training points", log=True),
        Field("accuracy", "accuracy under PGD-40, at most", percent=True),
        "curve",
        f"Accuracy under PGD-40 over the training points of {own[0]['data']}, by variant",
        "PGD training with weight decay 0.002; the same number of steps for every size.",
    )


STUDY = Study(
    "sample-size",
    "Robust accuracy over the number of training points, by variant",
    "Ding et al. 2019, section 5.3 and Fig. 4",
    lambda budget: grid_cells(GRIDS[budget]),
    _analyze,
    BUDGETS,
)
