"""Distance against robustness: does the distance between classes explain robust accuracy?

Ding et al. 2019, Table 1 and Fig. 5: over variants of MNIST the two go together, but at equal
distance scaled digits are far more robust than smoothed ones. The networks are those of
``capacity-mnist``, ``scaled-digits`` and ``sensitivity-cifar``: nothing is trained twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.papers.catalog import scaled_digits, sensitivity_cifar
from radii.papers.catalog.attacked_grid import grid_cells
from radii.papers.catalog.attacked_variants import PGD, TEST
from radii.papers.catalog.capacity_mnist import GRIDS as CAPACITY
from radii.papers.paper_steps import MeasureInterclassDistance
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, table

DISTANCE = "inter-class distance"


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """The PGD-40 cells of the narrowest networks that have every variant, and a distance beside each."""
    grids = [*CAPACITY[budget], scaled_digits.GRIDS[budget]]
    if budget in ("night", "paper"):
        grids += sensitivity_cifar.GRIDS[budget]
    narrow = scaled_digits.GRIDS[budget]
    width = {narrow.data: min(narrow.variants)}
    attacked: dict[tuple[object, ...], Cell] = {}
    for cell in grid_cells(grids):
        place = cell.place
        fits = place["width"] == width.get(str(place["data"]), place["width"])
        if fits and (place["method"], place["measure"]) == (PGD, TEST):
            attacked.setdefault((place["data"], place["variant"]), cell)
    planned = []
    for cell in attacked.values():
        place = {key: cell.place[key] for key in ("data", "variant")}
        measured = MeasureInterclassDistance(data=cell.step.data)  # type: ignore[attr-defined]
        planned += [Cell({**place, "measure": TEST}, cell.step), Cell({**place, "measure": DISTANCE}, measured)]
    return tuple(planned)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Distance and robust accuracy of every variant; Fig. 5 has a mark for each."""
    by_place: dict[tuple[object, object], dict[str, object]] = {}
    for cell in measured:
        row = by_place.setdefault((cell.place["data"], cell.place["variant"]), {"distance": None, "robust": None})
        if cell.place["measure"] == DISTANCE:
            row["distance"] = cell.result["mean"]
        else:
            row["robust"] = cell.result["robust_accuracy_at_most"]
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
