"""Checks over the studies of Yang et al. 2020: a column of a table, method by method."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radii_papers.claims._study_cells import Coordinates, NotMeasured, StudyCells

Figures = dict[str, float]
LEAST = "test accuracy, least"
READ = {  # split and entry of the columns that are measured as they stand
    "train": ("train", "test_accuracy"),
    "test": ("test", "test_accuracy"),
    "adversarial": ("test", "robust_accuracy_at_most"),
    "lipschitz": ("test", "local_lipschitz"),
}
SELF_TRAINED = ("RST(lambda=0.5)", "RST(lambda=1)", "RST(lambda=2)")
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


def _least(column: Figures) -> float:
    """The least value; NaN, which no claim accepts, if one is not known."""
    return float(np.min(list(column.values())))


def points_per_halving(steep: Sequence[float], robust: Sequence[float]) -> tuple[float, float]:
    """What one halving of the Lipschitz constant adds to robust accuracy: among the steeper and the smoother half.

    Least squares of robust accuracy over log2 of the constant.
    """
    order = np.argsort(steep)[::-1]
    halves = np.array_split(order, 2)
    logs, values = np.log2(np.maximum(np.asarray(steep), 1e-12)), np.asarray(robust)
    rough, smooth = (_slope(logs[half], values[half]) for half in halves)
    return -rough, -smooth


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The slope of least squares; NaN, which no claim accepts, over equal or unknown x."""
    spread = float(((x - x.mean()) ** 2).sum())
    return float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else math.nan


def steepness_returns(cells: StudyCells, *, methods: Sequence[str], place: Coordinates | None = None) -> Figures:
    """How much less a halving of the Lipschitz constant brings among the smoother half of the methods.

    Args:
        cells: of the studies ``yang-mnist`` or ``yang-cifar``.
        methods: rows of the table.
        place: coordinates that all rows share.
    """
    steep, robust = (method_column(cells, methods, column=name, place=place) for name in ("lipschitz", "adversarial"))
    rough, smooth = points_per_halving(list(steep.values()), [robust[method] for method in steep])
    test = method_column(cells, methods, column="test", place=place)
    return {"gain per halving, steeper less smoother": rough - smooth, LEAST: _least(test)}


def method_contrasts(cells: StudyCells, *, place: Coordinates | None = None) -> Figures:
    """What the sentences under the tables compare: smooth against rough methods.

    Args:
        cells: of the studies ``yang-mnist`` or ``yang-cifar``.
        place: coordinates that all rows share.
    """
    rough, robust = ("Natural", "GR", "LLR"), ("AT", "RST(lambda=2)", "TRADES(beta=6)")

    def mean(column: str, methods: Sequence[str]) -> float:
        return sum(method_column(cells, methods, column=column, place=place).values()) / len(methods)

    test = method_column(cells, ("AT", *SELF_TRAINED), column="test", place=place)
    return {
        "test accuracy, least of RST less AT": _least({method: test[method] for method in SELF_TRAINED}) - test["AT"],
        "steepness, rough over robust": mean("lipschitz", rough) / max(mean("lipschitz", robust), 1e-9),
        "under attack, robust less rough": mean("adversarial", robust) - mean("adversarial", rough),
        LEAST: _least(method_column(cells, (*rough, *robust), column="test", place=place)),
    }


def dropout_contrasts(cells: StudyCells, *, methods: Sequence[str]) -> Figures:
    """What dropout changes, means over methods: the gaps less those without it, in points."""

    def change(column: str) -> float:
        with_, without = (
            method_column(cells, [f"{method} dropout={word}" for method in methods], column=column)
            for word in ("True", "False")
        )
        return (sum(with_.values()) - sum(without.values())) / len(methods)

    def ratios(column: str, chosen: Sequence[str]) -> float:
        """The geometric mean of the factor by which dropout changes a column."""
        with_, without = (
            method_column(cells, [f"{method} dropout={word}" for method in chosen], column=column)
            for word in ("True", "False")
        )
        pairs = zip(with_.values(), without.values(), strict=True)
        return math.exp(sum(math.log(max(a, 1e-12) / max(b, 1e-12)) for a, b in pairs) / len(chosen))

    robust = [method for method in methods if method != "Natural"]
    accuracy = method_column(cells, [f"{method} dropout=False" for method in methods], column="test")
    return {
        "change of the gap": change("gap"),
        "change of the adversarial gap": change("adversarial gap"),
        "factor of the Lipschitz constant": ratios("lipschitz", methods),
        "factor of robust accuracy, robust methods": ratios("adversarial", robust),
        LEAST: _least(accuracy),
    }
