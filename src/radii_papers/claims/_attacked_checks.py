"""Checks of claims about attacked networks: columns of the tables of Ding et al. 2019, differences, correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from radii_papers.claims._study_cells import Coordinates, NotMeasured, StudyCells, rank_correlation, spread

TRAINED, PGD_40 = "training", "PGD-40"
# The last word of a figure's name: which measurement has it.
MEASURES = {
    "test": PGD_40,
    "train": "PGD-40, train",
    "with_box": PGD_40,
    "without_box": "PGD-40, no box",
}
PATHS = {"robust": ("robust_accuracy_at_most",), "stable": ("robust_to_predictions", "unbroken", "value")}


def attacked(
    cells: StudyCells, names: Sequence[str], *, what: str, method: str = "PGD", place: Coordinates | None = None
) -> dict[str, float]:
    """Columns of a table of attacked networks.

    Args:
        names: variant and split, ``smooth 3, test``; ``with_box`` and ``without_box`` are two attacks on test points.
        what: ``clean``, ``robust`` (what PGD-40 leaves, so at most) or ``stable`` (predictions that PGD-40 keeps).
        method: how the networks were trained: ``standard`` or ``PGD``.
    """
    figures = {}
    for name in names:
        variant, _, split = name.rpartition(", ")
        where = {**(place or {}), "variant": variant, "method": method}
        if what == "clean":
            figures[name] = _clean(cells, where, split)
        else:
            figures[name] = cells.number({**where, "measure": MEASURES[split]}, PATHS[what])
    return figures


def _clean(cells: StudyCells, where: Coordinates, split: str) -> float:
    """Of all images of the split, or of the attacked test points where results have no more."""
    try:
        return cells.number({**where, "measure": TRAINED}, (f"{split}_accuracy",))
    except NotMeasured:
        if split != "test":
            raise
        return cells.number({**where, "measure": PGD_40}, ("clean", "value"))


def differences(
    cells: StudyCells,
    names: Sequence[str],
    *,
    pairs: Mapping[str, Sequence[Coordinates]],
    path: Sequence[str] = PATHS["robust"],
    paths: Sequence[Sequence[str]] = (),
) -> dict[str, float]:
    """The number of one cell less that of another, for several pairs; ``… itself`` is the first number.

    Args:
        paths: instead of ``path``: where it stands in the first and in the second cell.
    """
    one, other = paths or (path, path)
    figures = {}
    for name in names:
        first, second = pairs[name.removesuffix(" itself")]
        value = cells.number(first, one)
        figures[name] = value if name.endswith(" itself") else value - cells.number(second, other)
    return figures


def spreads(cells: StudyCells, *, variants: Sequence[str]) -> dict[str, float]:
    """How far accuracies lie apart over variants: clean after standard training, under PGD-40 after PGD training."""
    tests = [f"{variant}, test" for variant in variants]
    clean = list(attacked(cells, tests, what="clean", method="standard").values())
    robust = list(attacked(cells, tests, what="robust").values())
    return {
        "spread of clean accuracy": spread(clean),
        "spread under PGD-40": spread(robust),
        "least clean accuracy": min(clean),
        "least accuracy under PGD-40": min(robust),
    }


def distance_correlation(
    cells: StudyCells,
    *,
    variants: Sequence[str],
    data: str,
) -> dict[str, float]:
    """Rank correlation of the distance between classes and robust accuracy, over variants."""

    def column(measure: str, path: Sequence[str]) -> list[Any]:
        return [cells.number({"data": data, "variant": name, "measure": measure}, path) for name in variants]

    distances, robust = column("inter-class distance", ("mean",)), column(PGD_40, PATHS["robust"])
    correlation = rank_correlation(distances, robust)
    unknown = math.isnan(correlation)
    return {
        "rank correlation": correlation,
        "spread of robust accuracy": math.nan if unknown else spread(robust),
    }
