"""Separation: how far apart the classes lie, against the radii at which classifiers are attacked.

Yang et al. 2020 measure the least Linf distance between points of different
classes on four datasets and find it several times the usual epsilon: robust
and accurate classifiers exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import Budget
from radii.runs.audit_record import AuditResult
from radii.runs.component_specs import DataSpec
from radii.runs.steps import AuditStep
from radii.studies.grid import present
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, table

RESTRICTED = "restricted-imagenet+resize:64"  # the whole photographs would take 38 GB
EPSILON = {
    "digits": 0.1,
    "mnist": 0.1,
    "fashion-mnist": 0.1,
    "cifar10": 0.031,
    "svhn": 0.031,
    RESTRICTED: 0.005,
}
DATA: dict[Budget, tuple[str, ...]] = {
    "smoke": ("digits",),
    "cpu": ("mnist", "fashion-mnist", "cifar10"),
    "paper": ("mnist", "cifar10"),
}
OPTIONAL_DATA = ("svhn", RESTRICTED)  # datasets of the paper that are measured where they are on the machine


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """One audit per dataset, over all points."""
    return tuple(
        Cell({"data": name}, AuditStep(data=DataSpec.of(name), norm="linf", epsilon=EPSILON[name]))
        for name in (*DATA[budget], *(present(*OPTIONAL_DATA, study="separation") if budget == "paper" else ()))
    )


def analyze(measured: Sequence[Measured]) -> Findings:
    """The least distances, and how many epsilon they are; a separation of 2 epsilon is what robustness needs."""
    rows, spread = [], []
    for cell in measured:
        name, result = cell.place["data"], cell.read(AuditResult)
        train, test = result.train.minimum, None if result.test is None else result.test.minimum
        rows.append(
            {
                "data": name,
                "epsilon": result.epsilon,
                "train": train,
                "test": test,
                "ratio": None if train is None or test is None else min(train, test) / result.epsilon,
                "possible": result.train.share_possible,
                "contradictory": result.contradictory_count,
            }
        )
        spread += [
            {"data": name, "share": float(share), "distance": distance / result.epsilon}
            for share, distance in result.train.quantiles.items()
            if distance is not None
        ]
    columns = (
        Field("data", "dataset"),
        Field("epsilon", "epsilon"),
        Field("train", "least train-train distance"),
        Field("test", "least test-train distance"),
        Field("ratio", "least distance over epsilon"),
        Field("possible", "points with epsilon possible", percent=True),
        Field("contradictory", "contradictory inputs"),
    )
    least = min((row["ratio"] for row in rows if row["ratio"] is not None), default=0.0)
    chart = ChartSpec(
        "curves",
        spread,
        Field("share", "share of training points", percent=True),
        Field("distance", "distance to the nearest other class, in epsilon"),
        "data",
        f"Classes lie at least {least:.1f} epsilon apart",
        "Linf, exact over all training points. Robustness at epsilon is possible above 2.",
    )
    return Findings(table(rows, columns), (chart,) if spread else ())


STUDY = Study(
    "separation",
    "Minimum distances between classes",
    "Yang et al. 2020, table of separation",
    _cells,
    analyze,
)
