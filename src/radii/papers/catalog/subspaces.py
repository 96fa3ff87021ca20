"""Subspaces: what networks see in bands of principal components.

Prach & Lampert 2025, Table 1: components 513-3072 of CIFAR-10 hold 2% of the
variance. A standard network reads the classes from them almost as well as from
the images; a 1-Lipschitz network, which cannot amplify, learns nothing robust there. Fig. 9
repeats this without augmentation: training points are then fitted robustly even on the first 16
components. Fig. 10 has more bands, first and last components. Beside the paper's
ConvNet of CPL layers stands the isometric network, which two cores can train to its end. At ``cpu`` both have
the same loss: with the paper's, 300 steps of the ConvNet certify 29% of the training images, with this one 34%.
For pictures of the bands (Fig. 8): ``radii variants cifar10 --pca 1-16``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.prach_networks import (
    CONVNET,
    EPOCH,
    LIPSCHITZ,
    RADII,
    STANDARD,
    UNWATCHED,
    isometric_training,
    lipschitz_training,
    shrunk,
    standard_training,
)
from radii.runs.inputs import DataSpec
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import Settings, laid_over

BANDS: dict[Budget, tuple[str, ...]] = {
    "smoke": ("1-4", "5-64", "1-64"),
    "cpu": ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072"),
    "night": ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072"),
    "paper": ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072"),
}
FIRST_AND_LAST: dict[Budget, tuple[str, ...]] = {  # of Fig. 10, beside those of Table 1
    "smoke": (),
    "cpu": ("1-64", "1025-3072"),
    "night": ("1-4", "1-64", "1-128", "1-256", "129-3072", "257-3072", "1025-3072"),
    "paper": ("1-4", "1-64", "1-128", "1-256", "129-3072", "257-3072", "1025-3072"),
}
ISOMETRIC, UNAUGMENTED = "isometric", "no augmentation"
STEPS: dict[Budget, int] = {"smoke": 20, "cpu": 600, "night": 4000}  # of the isometric network
STILL: Settings = {"augmentation": {"crop": 0, "flip": False, "erase": 0}, **UNWATCHED}
POINTS: dict[Budget, int] = {"smoke": 200, "cpu": 10_000, "night": 10_000, "paper": 10_000}
OFFSET, TEMPERATURE = 0.75, 0.4  # of the loss of short trainings; the paper's are 0.25 and 0.25
CPL: Settings = {"model": {"layer": "cpl"}}
SCALED: dict[Budget, dict[str, Settings]] = {
    "smoke": {LIPSCHITZ: laid_over(shrunk(20, 64, 4, depth=1), CPL), STANDARD: shrunk(20, 64, 4)},
    "cpu": {
        LIPSCHITZ: laid_over(
            shrunk(600, 128, 8, depth=1), {**CPL, "method": {"offset": OFFSET, "temperature": TEMPERATURE}}
        ),
        STANDARD: shrunk(1500, 128, 8),
    },
    "night": {LIPSCHITZ: laid_over(shrunk(1500, 128, 16, depth=1), CPL), STANDARD: shrunk(1500, 128, 16)},
    "paper": {
        LIPSCHITZ: {**CPL, "optimizer": {"lr": 1.0}},
        STANDARD: {"steps": 300 * EPOCH},
    },
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Up to four trainings per band; the bands are fitted on the training split."""
    base = "digits" if budget == "smoke" else "cifar10"
    planned = []
    for band in (*BANDS[budget], *FIRST_AND_LAST[budget]):
        data = DataSpec.of(f"{base}+pca:{band}")
        for model, training in _trainings(data, band, budget).items():
            step = (
                training
                if model == STANDARD
                else Certify(model=training, data=data, radii=RADII, points=POINTS[budget])
            )
            planned.append(Cell({"band": band, "model": model}, step))
    return tuple(planned)


def _trainings(data: DataSpec, band: str, budget: Budget) -> dict[str, Train]:
    """The networks of a band; those of Table 1 are also trained without augmentation."""
    printed = band in BANDS[budget]
    trainings = {
        LIPSCHITZ: lipschitz_training(data, SCALED[budget][LIPSCHITZ]),
        STANDARD: standard_training(data, SCALED[budget][STANDARD]),
    }
    if budget == "paper":
        if printed:
            trainings[UNAUGMENTED] = lipschitz_training(data, laid_over(SCALED[budget][LIPSCHITZ], STILL))
        return trainings
    if not printed:
        trainings.pop(LIPSCHITZ)
    for model, changes in ((ISOMETRIC, UNWATCHED), (UNAUGMENTED, STILL)) if printed else ((ISOMETRIC, UNWATCHED),):
        trainings[model] = isometric_training(
            data, STEPS[budget], offset=OFFSET, temperature=TEMPERATURE, changes=changes
        )
    return trainings


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
        for model, key in ((ISOMETRIC, "isometric"), (UNAUGMENTED, "still")):
            result = by_place.get((band, model))
            for split in ("train", "test"):
                row[f"{key}_{split}"] = result and result[split]["certified"][0]["value"]
        rows.append(row)
        marks += [
            {"band": band, "accuracy": row[key], "network": title}
            for key, title in (
                ("standard_test", "standard, clean"),
                ("certified_test", f"{CONVNET}, certified"),
                ("isometric_test", "isometric, certified"),
                ("still_train", "no augmentation, certified, training points"),
            )
            if row[key] is not None
        ]
    columns = (
        Field("band", "principal components"),
        Field("standard_train", "standard: train", percent=True),
        Field("standard_test", "standard: test", percent=True),
        Field("lipschitz_clean", f"{CONVNET}: clean, test", percent=True),
        Field("certified_train", f"{CONVNET}: certified at 36/255, train", percent=True),
        Field("certified_test", f"{CONVNET}: certified, test", percent=True),
        *(
            Field(f"{key}_{split}", f"{title}: certified, {split}", percent=True)
            for key, title in (("isometric", ISOMETRIC), ("still", UNAUGMENTED))
            for split in ("train", "test")
            if any(row[f"{key}_{split}"] is not None for row in rows)
        ),
    )
    chart = ChartSpec(
        "bars",
        marks,
        Field("band", "principal components"),
        Field("accuracy", "test accuracy", percent=True),
        "network",
        "Late components serve a standard network, not a robust one",
        "Images projected onto the components; certified at L2 36/255.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "subspaces",
    "Principal-component bands of CIFAR-10",
    "Prach & Lampert 2025, Table 1, Fig. 3 and 8 to 10",
    _cells,
    _analyze,
    BUDGETS,
)
