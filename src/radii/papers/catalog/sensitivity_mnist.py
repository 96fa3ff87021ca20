"""Sensitivity: semantically equal copies of MNIST, very different robust accuracy after the same training.

Ding et al. 2019, Table 2 and Fig. 2a: from binarized over original to smoothed
digits clean accuracy hardly moves, robust accuracy at Linf 0.3 falls.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import Budget
from radii.runs.inputs import DataSpec
from radii.runs.planning import named_training
from radii.runs.steps import Evaluate, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.threat import Ball
from radii.training.recipes import NOTHING, Settings

THREAT = Ball("linf", 0.3)
VARIANTS = ("binarize", "", *(f"smooth:{s}" for s in range(2, 9)))
CHOSEN: dict[Budget, tuple[str, ...]] = {"smoke": ("binarize", "", "smooth:3"), "cpu": VARIANTS, "paper": VARIANTS}
POINTS: dict[Budget, int] = {"smoke": 60, "cpu": 1000, "paper": 10_000}
# Shorter than the recipe's, so that all trainings fit into an hour of two cores.
SHORTER: dict[Budget, Settings] = {"smoke": NOTHING, "cpu": {"steps": 1000}, "paper": NOTHING}
METHODS = {"natural": "standard", "adversarial": "PGD"}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Two trainings per variant, each attacked by PGD-40 as the paper does."""
    base = "digits" if budget == "smoke" else "mnist"
    planned = []
    for variant in CHOSEN[budget]:
        data = DataSpec.of(f"{base}+{variant}" if variant else base)
        for method, name in METHODS.items():
            step = Evaluate(
                model=training(data, method, budget),
                data=data,
                ball=THREAT,
                suite="pgd",
                points=POINTS[budget],
                minimum_norm=False,
            )
            planned.append(Cell({"variant": _title(variant), "method": name}, step))
    return tuple(planned)


def training(data: DataSpec, method: str, budget: Budget) -> Train:
    """The recipe of Ding et al. at the budget.

    Args:
        data: the dataset to train on, by name and variant.
        method: the training objective, by its name.
        budget: how much work: ``smoke``, ``cpu`` or ``paper``.

    Returns:
        The training step.
    """
    return named_training(data, method=method, recipe="ding-mnist", budget=budget, settings=SHORTER[budget])


def _title(variant: str) -> str:
    """As the paper's table names it: ``original``, ``binarized``, ``smooth 3``."""
    return {"": "original", "binarize": "binarized"}.get(variant, variant.replace(":", " "))


def _analyze(measured: Sequence[Measured]) -> Findings:
    """One row per variant in the paper's order; Fig. 2a is its two trainings over the variants."""
    order = [_title(variant) for variant in VARIANTS]
    by_place = {(cell.place["variant"], cell.place["method"]): cell.result for cell in measured}
    rows: list[Row] = []
    marks: list[Row] = []
    for variant in [name for name in order if any(key[0] == name for key in by_place)]:
        row: dict[str, object] = {"variant": variant}
        for method, short in (("standard", "standard"), ("PGD", "pgd")):
            result = by_place.get((variant, method))
            row[f"{short}_clean"] = result and result["clean"]["value"]
            row[f"{short}_robust"] = result and result["robust_accuracy_at_most"]
            row[f"{short}_stable"] = result and result["robust_to_predictions"]["unbroken"]["value"]
            if result:
                marks += [
                    {"variant": variant, "accuracy": row[f"{short}_clean"], "measure": f"{method}: clean"},
                    {"variant": variant, "accuracy": row[f"{short}_robust"], "measure": f"{method}: under PGD-40"},
                ]
        rows.append(row)
    columns = (
        Field("variant", "MNIST variant"),
        Field("standard_clean", "standard: clean", percent=True),
        Field("pgd_clean", "PGD-trained: clean", percent=True),
        Field("pgd_robust", "PGD-trained: under PGD-40", percent=True),
        Field("pgd_stable", "PGD-trained: predictions unchanged", percent=True),
    )
    chart = ChartSpec(
        "curves",
        marks,
        Field("variant", "variant"),
        Field("accuracy", "accuracy", percent=True),
        "measure",
        "Clean accuracy stays, robust accuracy falls from binarized to smooth digits",
        "Linf 0.3. Unbroken by PGD-40: an upper bound of robust accuracy, as in the paper.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "sensitivity-mnist",
    "Robust accuracy of semantically equal MNIST variants",
    "Ding et al. 2019, Table 2 and Fig. 2a",
    _cells,
    _analyze,
)
