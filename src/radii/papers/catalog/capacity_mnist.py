"""Capacity: how wide a network must be before its robust accuracy stops growing, on variants of MNIST.

Ding et al. 2019, Table 4 and Fig. 4: LeNet5 from an eighth to four times its
width. Clean accuracy is the same at every width; robust accuracy needs width, and the
smoother the digits are, the more of it. The same networks are attacked with
perturbations that may leave the box (Table 7).
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.attacked_grid import AttackedGrid, grid_cells
from radii.papers.catalog.attacked_variants import PGD, STANDARD, AttackPoints, fields, marks, rows
from radii.studies.study import Findings, Measured, Study
from radii.tables import ChartSpec, Field, table
from radii.threat import Ball

THREAT = Ball("linf", 0.3)
VARIANTS = ("binarize", "", *(f"smooth:{s}" for s in range(2, 9)))
WIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
RECIPE = "ding-mnist"
# changes of the recipe's cpu settings; batches as in the paper
SHORT = {"steps": 2000, "batch_size": 50, "optimizer": {"lr": 3e-3}, "method": {"steps": 5, "step": 0.25}}
CONVERGED = {**SHORT, "steps": 5000}
# wide standard networks learn faster than narrow ones, and a step costs more
WIDE = {"steps": 1000, "batch_size": 50, "optimizer": {"lr": 2e-3}}
LONG = {"steps": 8000, "average": 0.999}
MOST_CURVES = 6  # of one chart

_SHORT_ATTACKS = AttackPoints(THREAT, 2000, train=2000, free=2000)
GRIDS: dict[Budget, tuple[AttackedGrid, ...]] = {
    "smoke": (
        AttackedGrid(
            "digits", RECIPE, "smoke", AttackPoints(THREAT, 30, train=30, free=30), {0.125: ("binarize", "smooth:3")}
        ),
    ),
    # 85 core-minutes, of which 50 are those of sensitivity-mnist
    "cpu": (
        AttackedGrid(
            "mnist", RECIPE, "cpu", _SHORT_ATTACKS, dict.fromkeys(WIDTHS[:2], VARIANTS), CONVERGED, methods=(PGD,)
        ),
        AttackedGrid(
            "mnist", RECIPE, "cpu", _SHORT_ATTACKS, dict.fromkeys(WIDTHS[:3], VARIANTS), SHORT, methods=(STANDARD,)
        ),
        AttackedGrid("mnist", RECIPE, "cpu", _SHORT_ATTACKS, {1.0: VARIANTS}, WIDE, methods=(STANDARD,)),
    ),
    # 15 core-hours: 0.09, 0.15 and 0.44 CPU seconds for a step of PGD-7
    "night": (
        AttackedGrid(
            "mnist",
            RECIPE,
            "cpu",
            AttackPoints(THREAT, train=10_000, free=10_000, suite=200),
            dict.fromkeys(WIDTHS[:3], VARIANTS),
            LONG,
        ),
    ),
    "paper": (
        AttackedGrid(
            "mnist",
            RECIPE,
            "paper",
            AttackPoints(THREAT, train=60_000, free=10_000, suite=1000),
            dict.fromkeys(WIDTHS, VARIANTS),
        ),
    ),
}


def analyze(measured: Sequence[Measured]) -> Findings:
    """Table 4 by width and variant; Fig. 4 is robust accuracy over the width, a curve for each variant.

    Args:
        measured: the cells that are done, with their results.

    Returns:
        The table and the chart, from what is measured so far.
    """
    own = rows(measured, ("width", "variant"))
    attacked = [row for row in own if row["pgd_robust"] is not None]
    widths, variants = (len({row[key] for row in attacked}) for key in ("width", "variant"))
    by_width = [{**row, "width": f"width {row['width']:g}"} for row in attacked]
    if widths > 1 and variants <= MOST_CURVES:
        over, title = Field("width", "width of the network", log=True), "Accuracy under PGD-40 over the width"
        curves = marks(attacked, "width", "variant", ("pgd_robust",))
    elif widths > 1:
        over, title = Field("variant", "variant"), "Accuracy under PGD-40 over the variants, by width"
        curves = marks(by_width, "variant", "width", ("pgd_robust",))
    else:
        over, title = Field("variant", "variant"), "Accuracy of one width over the variants"
        curves = marks(by_width, "variant", "width", ("pgd_clean", "pgd_robust", "pgd_free"))
    chart = ChartSpec(
        "curves",
        curves,
        over,
        Field("accuracy", "accuracy", percent=True),
        "curve",
        title,
        "Test points that PGD-40 leaves unbroken: an upper bound of robust accuracy.",
    )
    columns = (Field("width", "width"), Field("variant", "variant"), *fields(own))
    return Findings(table(own, columns), (chart,) if chart.rows else ())


STUDY = Study(
    "capacity-mnist",
    "Network width against robust accuracy on variants of MNIST",
    "Ding et al. 2019, Tables 4 and 7, Fig. 4",
    lambda budget: grid_cells(GRIDS[budget]),
    analyze,
    BUDGETS,
)
