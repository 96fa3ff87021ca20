"""Distance against robustness: does the distance between classes explain robust accuracy?

Ding et al. 2019, Table 1 and Fig. 5: over variants of MNIST the two go together, but at equal
distance scaled digits are far more robust than smoothed ones. The networks are those of
``capacity-mnist``, ``scaled-digits`` and ``sensitivity-cifar``: nothing is trained twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from radii.budget import BUDGETS, Budget
from radii.runs.steps import Evaluate
from radii.studies.study import Cell, Findings, Measured, Study, registered_study
from radii.tables import ChartSpec, Field, table
from radii_papers.measurements import InterclassResult
from radii_papers.steps import MeasureInterclassDistance
from radii_papers.studies._labels import DISTANCE, PGD, PGD_40
from radii_papers.studies._readings import at_most

NETWORKS = {
    "smoke": ("capacity-mnist", "scaled-digits"),
    "cpu": ("capacity-mnist", "scaled-digits"),
    "night": ("capacity-mnist", "scaled-digits", "sensitivity-cifar"),
    "paper": ("capacity-mnist", "scaled-digits", "sensitivity-cifar"),
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """The PGD-40 cells of the networks that have every variant, and a distance beside each."""
    width = {cell.place["width"] for cell in registered_study("scaled-digits").cells(budget)}
    attacked: dict[tuple[object, ...], Cell] = {}
    for name in NETWORKS[budget]:
        for cell in registered_study(name).cells(budget):
            place = cell.place
            fits = name == "sensitivity-cifar" or place["width"] in width
            if fits and (place["method"], place["measure"]) == (PGD, PGD_40):
                attacked.setdefault((place["data"], place["variant"]), cell)
    planned = []
    for cell in attacked.values():
        place = {key: cell.place[key] for key in ("data", "variant")}
        distance = MeasureInterclassDistance(data=cast(Evaluate, cell.step).data)
        planned += [Cell({**place, "measure": PGD_40}, cell.step), Cell({**place, "measure": DISTANCE}, distance)]
    return tuple(planned)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Distance and robust accuracy of every variant; Fig. 5 has a mark for each."""
    by_place: dict[tuple[object, object], dict[str, object]] = {}
    for cell in measured:
        row = by_place.setdefault((cell.place["data"], cell.place["variant"]), {"distance": None, "robust": None})
        if cell.place["measure"] == DISTANCE:
            row["distance"] = cell.read(InterclassResult).mean
        else:
            row["robust"] = at_most(cell)
    rows = [{"data": data, "variant": variant, **row} for (data, variant), row in by_place.items()]
    whole = [{**row, "kind": _kind(str(row["data"]), str(row["variant"]))} for row in rows if None not in row.values()]
    columns = (
        Field("data", "dataset"),
        Field("variant", "variant"),
        Field("distance", "distance between classes, L2"),
        Field("robust", "PGD-40: at most", percent=True),
    )
    chart = ChartSpec(
        "points",
        whole,
        Field("distance", "distance between classes, L2"),
        Field("robust", "accuracy under PGD-40, at most", percent=True),
        "kind",
        "Distance between classes and accuracy under PGD-40",
        "Test images, the nearest tenth of other classes; PGD-trained networks.",
    )
    return Findings(table(rows, columns), (chart,) if whole else ())


def _kind(data: str, variant: str) -> str:
    """What has a color of its own: the kinds of digits, without the strength of a change, and all of CIFAR-10."""
    return data if data == "cifar10" else f"{data}: {variant.rstrip('0123456789. ')}"


STUDY = Study(
    "distance-robustness",
    "Distance between classes against robust accuracy",
    "Ding et al. 2019, Table 1 and Fig. 5",
    _cells,
    _analyze,
    BUDGETS,
)
