"""Variants, widths and methods of training, attacked: what the studies of Ding et al. 2019 share.

A network is trained on every variant by standard and by PGD training. The
accuracies of a training are those of all images of both splits; networks that were
trained against PGD are then attacked by PGD-40, as the paper does. What survives
an attack is robust accuracy *at most*: beside it stands the standard suite on a stated
number of points, with the strongest certificate as the other end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radii.runs.steps import Evaluate, Train
from radii.studies.study import Cell, Findings, Measured, Place, mean
from radii.tables import ChartSpec, Field, Row, table
from radii.threat import Ball

STANDARD, PGD = "standard", "PGD"
METHODS = {STANDARD: "natural", PGD: "adversarial"}
# What is measured of a network, as the coordinate ``measure`` of its cells.
TRAINED, TEST, TRAIN, FREE, SUITE = "training", "PGD-40", "PGD-40, train", "PGD-40, no box", "standard suite"


@dataclass(frozen=True)
class AttackPoints:
    """How many class-balanced points of a PGD-trained network meet which attack; 0 leaves the attack out.

    Args:
        threat: the ball.
        test: test points for PGD-40; 10,000 are all.
        train: training points for PGD-40.
        free: test points for PGD-40 that may leave the box.
        suite: test points for the strongest certificate and the standard suite.
        both: attack standard networks by PGD-40, too.
    """

    threat: Ball
    test: int = 10_000
    train: int = 0
    free: int = 0
    suite: int = 0
    both: bool = False

    def cells(self, training: Train, place: Place) -> Iterator[Cell]:
        """The training itself and, if it is a PGD training, its attacks.

        Args:
            training: the network.
            place: its coordinates; ``method`` is one of them.

        Returns:
            A cell for each measurement.
        """
        yield Cell({**place, "measure": TRAINED}, training)
        free = Ball(self.threat.norm, self.threat.radius, None)
        trained = place["method"] == PGD
        wanted: tuple[tuple[str, int, dict[str, Any]], ...] = (
            (TEST, self.test if trained or self.both else 0, {}),
            (TRAIN, self.train, {"split": "train"}),
            (FREE, self.free, {"ball": free}),
            (SUITE, self.suite, {"suite": "standard", "certify": True}),
        )
        for measure, points, changes in wanted:
            if points and (trained or measure == TEST):
                how = {"ball": self.threat, "suite": "pgd", "certify": False, **changes}
                step = Evaluate(model=training, data=training.data, points=points, minimum_norm=False, **how)
                yield Cell({**place, "measure": measure}, step)


def title(variant: str) -> str:
    """A variant as the paper's tables name it.

    Args:
        variant: the text behind the name of the dataset, without the first ``+``.

    >>> [title(variant) for variant in ("", "binarize", "smooth:3", "binarize+scale:0.821", "scale:0.970")]
    ['original', 'binarized', 'smooth 3', 'binarized scaled 0.821', 'original scaled 0.970']
    """
    words = [part.replace(":", " ") for part in variant.split("+") if part]
    words = [
        {"binarize": "binarized", "saturate inf": "saturate inf"}.get(word, word.replace("scale ", "scaled "))
        for word in words
    ]
    return " ".join(["original", *words] if not words or words[0].startswith("scaled") else words)


# Heading of a column: method, measurement, and the path of its figure in a result.
COLUMNS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "standard_train": ("standard: train", STANDARD, TRAINED, ("train_accuracy",)),
    "standard_clean": ("standard: clean", STANDARD, TRAINED, ("test_accuracy",)),
    "pgd_train": ("PGD-trained: train", PGD, TRAINED, ("train_accuracy",)),
    "pgd_clean": ("PGD-trained: clean", PGD, TRAINED, ("test_accuracy",)),
    "pgd_train_robust": ("PGD-40, train: at most", PGD, TRAIN, ("robust_accuracy_at_most",)),
    "pgd_robust": ("PGD-40: at most", PGD, TEST, ("robust_accuracy_at_most",)),
    "pgd_stable": ("predictions unchanged", PGD, TEST, ("robust_to_predictions", "unbroken", "value")),
    "pgd_free": ("PGD-40, no box: at most", PGD, FREE, ("robust_accuracy_at_most",)),
    "suite_most": ("standard suite: at most", PGD, SUITE, ("robust_accuracy_at_most",)),
    "suite_least": ("proved: at least", PGD, SUITE, ("robust_accuracy_at_least",)),
}


def rows(measured: Sequence[Measured], keys: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each combination of ``keys``, in the order of the cells; means over anything else, such as seeds.

    Args:
        measured: cells that :meth:`AttackPoints.cells` planned.
        keys: coordinates, for example ``("variant", "width")``.

    Returns:
        Rows with the keys and the names of :data:`COLUMNS`; None where nothing was measured.
    """
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for cell in measured:
        groups.setdefault(tuple(cell.place[key] for key in keys), []).append(cell)
    return [
        {
            **dict(zip(keys, place, strict=True)),
            **{
                name: mean(_values(cells, method, measure, path))
                for name, (_, method, measure, path) in COLUMNS.items()
            },
        }
        for place, cells in groups.items()
    ]


def _values(cells: Sequence[Measured], method: str, measure: str, path: Sequence[str]) -> list[float]:
    """The figures of a column; clean accuracy is that of the attacked points where the training is no cell."""
    trained = any((cell.place["method"], cell.place["measure"]) == (method, TRAINED) for cell in cells)
    if path == ("test_accuracy",) and not trained:
        measure = TEST
    values = []
    for cell in cells:
        if (cell.place["method"], cell.place["measure"]) == (method, measure):
            value: Any = cell.result
            for key in path:
                value = value[key]
            values.append(value)
    return values


def fields(table_rows: Sequence[Row]) -> list[Field]:
    """The columns of :func:`rows` in which something was measured.

    Args:
        table_rows: what :func:`rows` returned.

    Returns:
        Their fields, in the order of the paper's tables.
    """
    return [
        Field(name, heading, percent=True)
        for name, (heading, *_) in COLUMNS.items()
        if any(row[name] is not None for row in table_rows)
    ]


def marks(table_rows: Sequence[Row], over: str, series: str, columns: Sequence[str]) -> list[Row]:
    """The marks of a chart: a curve for each value of ``series`` and each column.

    Args:
        table_rows: what :func:`rows` returned.
        over: the key of the horizontal axis.
        series: the key that tells curves apart; empty for none.
        columns: names of :data:`COLUMNS`.

    Returns:
        Rows with ``over``, ``accuracy`` and ``curve``.
    """
    return [
        {
            over: row[over],
            "accuracy": row[name],
            "curve": f"{row[series]}: {COLUMNS[name][0]}" if series else COLUMNS[name][0],
        }
        for row in table_rows
        for name in columns
        if row[name] is not None
    ]


def by_variant(measured: Sequence[Measured], finding: str, note: str) -> Findings:
    """The table and the chart of a study whose rows are variants.

    Args:
        measured: the cells that are done, with their results.
        finding: the title of the chart.
        note: what is below the title.

    Returns:
        A row for each variant, and curves of clean and robust accuracy over the variants.
    """
    own = rows(measured, ("data", "variant", "width"))
    shown = ("standard_clean", "pgd_clean", "pgd_robust", "suite_most")
    chart = ChartSpec(
        "curves",
        marks(own, "variant", "", shown),
        Field("variant", "variant"),
        Field("accuracy", "accuracy", percent=True),
        "curve",
        finding,
        note,
    )
    columns = (Field("data", "dataset"), Field("variant", "variant"), Field("width", "width"), *fields(own))
    return Findings(table(own, columns), (chart,) if chart.rows else ())
