"""Subspaces: what networks see in bands of principal components.

Prach & Lampert 2025, Table 1: components 513-3072 of CIFAR-10 hold 2% of the
variance. A standard network reads the classes from them almost as well as from
the images; a 1-Lipschitz network, which cannot amplify, learns nothing robust there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radii.budget import Budget
from radii.papers.catalog.data_scaling import (
    EPOCH,
    LIPSCHITZ,
    RADII,
    STANDARD,
    lipschitz_training,
    shrunk,
    standard_training,
)
from radii.runs.inputs import DataSpec
from radii.runs.steps import Certify
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import Settings

BANDS: dict[Budget, tuple[str, ...]] = {
    "smoke": ("1-4", "5-64", "1-64"),
    "cpu": ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072"),
    "paper": ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072"),
}
POINTS: dict[Budget, int] = {"smoke": 200, "cpu": 2000, "paper": 10_000}
SCALED: dict[Budget, dict[str, Settings]] = {
    "smoke": {LIPSCHITZ: shrunk(20, 64, 4, depth=1), STANDARD: shrunk(20, 64, 4)},
    "cpu": {LIPSCHITZ: shrunk(800, 128, 8, depth=1), STANDARD: shrunk(1500, 128, 8)},
    "paper": {
        LIPSCHITZ: {"model": {"layer": "cpl"}, "optimizer": {"lr": 1.0}},
        STANDARD: {"steps": 300 * EPOCH},
    },
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Two trainings per band; the bands are fitted on the training split."""
    base = "digits" if budget == "smoke" else "cifar10"
    planned = []
    for band in BANDS[budget]:
        data = DataSpec.of(f"{base}+pca:{band}")
        bounded = lipschitz_training(data, SCALED[budget][LIPSCHITZ])
        certified = Certify(model=bounded, data=data, radii=RADII, points=POINTS[budget])
        planned.append(Cell({"band": band, "model": LIPSCHITZ}, certified))
        planned.append(Cell({"band": band, "model": STANDARD}, standard_training(data, SCALED[budget][STANDARD])))
    return tuple(planned)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Table 1: accuracies of the standard network, certified accuracies of the 1-Lipschitz network, per band."""
    by_place = {(str(cell.place["band"]), cell.place["model"]): cell.result for cell in measured}
    rows: list[Row] = []
    marks: list[Row] = []
    for band in dict.fromkeys(str(cell.place["band"]) for cell in measured):
        standard, bounded = by_place.get((band, STANDARD)), by_place.get((band, LIPSCHITZ))
        row: dict[str, Any] = {
            "band": band,
            "standard_train": standard and standard["train_accuracy"],
            "standard_test": standard and standard["test_accuracy"],
            "certified_train": bounded and bounded["train"]["certified"][0]["value"],
            "certified_test": bounded and bounded["test"]["certified"][0]["value"],
            "lipschitz_clean": bounded and bounded["test"]["clean"]["value"],
        }
        rows.append(row)
        marks += [
            {"band": band, "accuracy": row[key], "network": title}
            for key, title in (("standard_test", "standard, clean"), ("certified_test", "1-Lipschitz, certified"))
            if row[key] is not None
        ]
    columns = (
        Field("band", "principal components"),
        Field("standard_train", "standard: train", percent=True),
        Field("standard_test", "standard: test", percent=True),
        Field("certified_train", "certified at 36/255: train", percent=True),
        Field("certified_test", "certified at 36/255: test", percent=True),
        Field("lipschitz_clean", "1-Lipschitz: clean, test", percent=True),
    )
    chart = ChartSpec(
        "bars",
        marks,
        Field("band", "principal components"),
        Field("accuracy", "test accuracy", percent=True),
        "network",
        "What a standard network reads from the late components is of no use to a robust one",
        "Images projected onto the components; certified at L2 36/255.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "subspaces",
    "Principal-component bands of CIFAR-10",
    "Prach & Lampert 2025, Table 1",
    _cells,
    _analyze,
)
