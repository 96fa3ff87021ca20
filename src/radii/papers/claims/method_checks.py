"""Checks over the studies of Yang et al. 2020: a column of a table, method by method."""

from __future__ import annotations

from collections.abc import Sequence

from radii.papers.claims.study_cells import Coordinates, NotMeasured, StudyCells

Figures = dict[str, float]
LEAST = "test accuracy, least"
READ = {  # split and entry of the columns that are measured as they stand
    "train": ("train", "test_accuracy"),
    "test": ("test", "test_accuracy"),
    "adversarial": ("test", "robust_accuracy_at_most"),
    "lipschitz": ("test", "local_lipschitz"),
}
GAPS = {"gap": "test_accuracy", "adversarial gap": "robust_accuracy_at_most"}  # train less test, in points


def method_column(cells: StudyCells, names: Sequence[str], *, column: str, place: Coordinates | None = None) -> Figures:
    """One column of a table by method.

    Args:
        cells: of the studies ``yang-mnist``, ``yang-cifar`` or ``dropout``.
        names: the methods, with dropout as ``AT dropout=True``; :data:`LEAST` is the least test accuracy of them.
        column: a key of ``READ`` or ``GAPS``.
        place: coordinates that all rows share.
    """
    figures: Figures = {}
    for name in names:
        if name == LEAST:
            rows = [row for row in names if row != LEAST]
            figures[name] = min(method_column(cells, rows, column="test", place=place).values())
            continue
        training, _, dropout = name.partition(" dropout=")
        where = {**(place or {}), "training": training, **({"dropout": dropout} if dropout else {})}
        if column in READ:
            split, entry = READ[column]
            figures[name] = cells.number({**where, "split": split}, (entry,))
        elif column in GAPS:
            train, test = (cells.number({**where, "split": split}, (GAPS[column],)) for split in ("train", "test"))
            figures[name] = 100 * (train - test)
        else:
            raise NotMeasured(f"column {column}")
    return figures


def method_contrasts(cells: StudyCells, names: Sequence[str], *, place: Coordinates | None = None) -> Figures:  # noqa: ARG001
    """What the sentences under the tables compare: smooth against rough methods.

    Args:
        cells: of the studies ``yang-mnist`` or ``yang-cifar``.
        names: not used; all figures are returned.
        place: coordinates that all rows share.
    """
    rough, robust = ("Natural", "GR", "LLR"), ("AT", "RST(lambda=2)", "TRADES(beta=6)")

    def mean(column: str, methods: Sequence[str]) -> float:
        return sum(method_column(cells, methods, column=column, place=place).values()) / len(methods)

    return {
        "steepness, rough over robust": mean("lipschitz", rough) / max(mean("lipschitz", robust), 1e-9),
        "under attack, robust less rough": mean("adversarial", robust) - mean("adversarial", rough),
        LEAST: min(method_column(cells, (*rough, *robust), column="test", place=place).values()),
    }


def dropout_contrasts(cells: StudyCells, names: Sequence[str], *, methods: Sequence[str]) -> Figures:  # noqa: ARG001
    """What dropout changes, means over methods: the gaps less those without it, in points.

    Args:
        cells: of the study ``dropout``.
        names: not used; all figures are returned.
        methods: whose pairs are compared.
    """

    def change(column: str) -> float:
        with_, without = (
            method_column(cells, [f"{method} dropout={word}" for method in methods], column=column)
            for word in ("True", "False")
        )
        return (sum(with_.values()) - sum(without.values())) / len(methods)

    accuracy = method_column(cells, [f"{method} dropout=False" for method in methods], column="test")
    return {
        "change of the gap": change("gap"),
        "change of the adversarial gap": change("adversarial gap"),
        LEAST: min(accuracy.values()),
    }
