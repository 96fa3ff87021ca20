"""Subspaces: what networks see in bands of principal components.

Prach & Lampert 2025, Table 1: components 513-3072 of CIFAR-10 hold 2% of the
variance. A standard network reads the classes from them almost as well as from
the images; a 1-Lipschitz network, which cannot amplify, learns nothing robust there. Fig. 9
repeats this without augmentation: training points are then fitted robustly even on the first 16
components. Fig. 10 has more bands, first and last components.

Beside the paper's ConvNet of CPL layers stands the isometric network, which two cores can
train to its end. At ``cpu`` both have the same loss: with the paper's, 300 steps of the
ConvNet certify 29% of the training images, with this one 34%.
For pictures of the bands (Fig. 8): ``radii variants cifar10 --pca 1-16``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radii.budget import BUDGETS, Budget
from radii.runs.component_specs import DataSpec
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import Settings, deep_merge
from radii_papers.studies import _labels as labels
from radii_papers.studies._labels import CONVNET, ISOMETRIC, LIPSCHITZ, STANDARD, UNAUGMENTED
from radii_papers.studies._prach_networks import (
    CPL,
    EPOCH,
    LOSS,
    NO_AUGMENTATION,
    NO_TEST_EPOCHS,
    POINTS,
    RADII,
    isometric_training,
    lipschitz_training,
    shrunk,
    standard_training,
)
from radii_papers.studies._readings import clean_of, grouped, mean_at, mean_of, test_accuracy, train_accuracy

BANDS: dict[Budget, tuple[str, ...]] = {
    "smoke": ("1-4", "5-64", "1-64"),
    "cpu": labels.BANDS,
    "night": labels.BANDS,
    "paper": labels.BANDS,
}
FIRST_AND_LAST: dict[Budget, tuple[str, ...]] = {  # of Fig. 10, beside those of Table 1
    "smoke": (),
    "cpu": ("1-64", "1025-3072"),
    "night": ("1-4", "1-64", "1-128", "1-256", "129-3072", "257-3072", "1025-3072"),
    "paper": ("1-4", "1-64", "1-128", "1-256", "129-3072", "257-3072", "1025-3072"),
}
STEPS: dict[Budget, int] = {"smoke": 20, "cpu": 600, "night": 4000}  # of the isometric network
SHORT_LOSS: Settings = {"method": LOSS["cifar10"]}  # of short trainings; the paper's offset and temperature are 0.25
SCALED: dict[Budget, dict[str, Settings]] = {
    "smoke": {LIPSCHITZ: deep_merge(shrunk(20, 64, 4, depth=1), CPL), STANDARD: shrunk(20, 64, 4)},
    "cpu": {
        LIPSCHITZ: deep_merge(shrunk(600, 128, 8, depth=1), {**CPL, **SHORT_LOSS}),
        STANDARD: shrunk(1500, 128, 8),
    },
    "night": {LIPSCHITZ: deep_merge(shrunk(1500, 128, 16, depth=1), CPL), STANDARD: shrunk(1500, 128, 16)},
    "paper": {LIPSCHITZ: CPL, STANDARD: {"steps": 300 * EPOCH}},
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
            trainings[UNAUGMENTED] = lipschitz_training(data, deep_merge(SCALED[budget][LIPSCHITZ], NO_AUGMENTATION))
        return trainings
    if not printed:
        trainings.pop(LIPSCHITZ)
    changed = {ISOMETRIC: NO_TEST_EPOCHS, **({UNAUGMENTED: NO_AUGMENTATION} if printed else {})}
    for model, changes in changed.items():
        trainings[model] = isometric_training(data, STEPS[budget], {**SHORT_LOSS, **changes})
    return trainings


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Table 1: accuracies of the standard network, certified accuracies of the 1-Lipschitz network, per band."""
    cells = grouped(measured, "band", "model")
    rows: list[Row] = []
    marks: list[Row] = []
    for band in dict.fromkeys(str(cell.place["band"]) for cell in measured):
        standard, bounded = cells.get((band, STANDARD), []), cells.get((band, LIPSCHITZ), [])
        row: dict[str, Any] = {
            "band": band,
            "standard_train": mean_of(standard, train_accuracy),
            "standard_test": mean_of(standard, test_accuracy),
            "certified_train": mean_at(bounded, RADII[0], "train"),
            "certified_test": mean_at(bounded, RADII[0]),
            "lipschitz_clean": clean_of(bounded),
        }
        for model, key in ((ISOMETRIC, "isometric"), (UNAUGMENTED, "still")):
            row[f"{key}_train"] = mean_at(cells.get((band, model), []), RADII[0], "train")
            row[f"{key}_test"] = mean_at(cells.get((band, model), []), RADII[0])
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
