"""The training methods of Yang et al. 2020 and the columns of their tables, for the studies that measure them.

Each network is attacked by PGD on training and on test points, and the local Lipschitz constant is
searched on test points. What survives an attack is at most the robust accuracy; a constant that a
search found is at least the true one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from radii.runs.steps import Evaluate, Train
from radii.studies.study import Cell, Findings, Measured, Place
from radii.tables import ChartSpec, Field, Row, table
from radii.threat import Ball
from radii.training.recipes import NO_SETTINGS, Settings
from radii_papers.studies._readings import at_most, attacked_clean, grouped, mean_of, steepness

RST, TRADES = "robust-self-training", "trades"
METHODS: dict[str, tuple[str, Settings]] = {  # as the tables name them: our method and its arguments
    "Natural": ("natural", NO_SETTINGS),
    "GR": ("gradient-regularization", NO_SETTINGS),
    "LLR": ("local-linearity", NO_SETTINGS),
    "AT": ("adversarial", NO_SETTINGS),
    "RST(lambda=0.5)": (RST, {"weight": 0.5}),
    "RST(lambda=1)": (RST, {"weight": 1.0}),
    "RST(lambda=2)": (RST, {"weight": 2.0}),
    "TRADES(beta=1)": (TRADES, {"beta": 1.0}),
    "TRADES(beta=3)": (TRADES, {"beta": 3.0}),
    "TRADES(beta=6)": (TRADES, {"beta": 6.0}),
}
SPLITS = ("train", "test")
WORDS = {("dropout", "True"): "with dropout", ("dropout", "False"): "without dropout"}  # in legends


def attacked(training: Train, ball: Ball, points: int, place: Place) -> tuple[Cell, ...]:
    """Both splits of a trained network under PGD; on the test split also the local Lipschitz constant."""
    return tuple(
        Cell(
            {**place, "split": split},
            Evaluate(
                model=training,
                data=training.data,
                ball=ball,
                suite="pgd",
                points=points,
                minimum_norm=False,
                split=split,  # type: ignore[arg-type]
                certify=False,
                lipschitz=split == "test",
            ),
        )
        for split in SPLITS
    )


def columns(cells: Sequence[Measured]) -> dict[str, float | None]:
    """The columns of the tables from the cells of one network: accuracies, constant, gaps."""
    by_split: Mapping[Any, list[Measured]] = grouped(cells, "split")
    train, test = (by_split.get((split,), []) for split in SPLITS)
    found: dict[str, float | None] = {
        "train": mean_of(train, attacked_clean),
        "test": mean_of(test, attacked_clean),
        "adversarial": mean_of(test, at_most),
        "lipschitz": mean_of(test, steepness),
    }
    attacked_train = mean_of(train, at_most)
    found["gap"] = _less(found["train"], found["test"])
    found["adversarial_gap"] = _less(attacked_train, found["adversarial"])
    return found


def _less(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def table_of(measured: Sequence[Measured], keys: Mapping[str, str], title: str, note: str) -> Findings:
    """The paper's table: a row for each place, and its chart of robust accuracy against the constant."""
    rows: list[Row] = []
    marks: list[Row] = []
    for place, cells in grouped(measured, *keys).items():
        row = {**dict(zip(keys, place, strict=True)), **columns(cells)}
        rows.append(row)
        if row["lipschitz"] is not None and row["adversarial"] is not None:
            words = [WORDS.get((key, str(part)), str(part)) for key, part in zip(keys, place, strict=True)]
            curve = ", ".join(word for key, word in zip(keys, words, strict=True) if key != "training") or "networks"
            marks.append({"lipschitz": row["lipschitz"], "accuracy": row["adversarial"], "curve": curve})
    fields = (
        *(Field(key, heading) for key, heading in keys.items()),
        Field("train", "train", percent=True),
        Field("test", "test", percent=True),
        Field("adversarial", "adversarial test, at most", percent=True),
        Field("lipschitz", "local Lipschitz, at least"),
        Field("gap", "gap", percent=True),
        Field("adversarial_gap", "adversarial gap", percent=True),
    )
    chart = ChartSpec(
        "points",
        marks,
        Field("lipschitz", "local Lipschitz constant, at least", log=True),
        Field("accuracy", "accuracy under attack, at most", percent=True),
        "curve",
        title,
        note,
    )
    return Findings(table(rows, fields), (chart,) if marks else ())
