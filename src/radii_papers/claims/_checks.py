"""Checks of claims: small functions from the cells of a study to figures by name.

A claim's record names one of them and gives its keyword arguments. Some take the names of the
figures that the claim compares; the others return all figures that they know. A figure that cannot be read raises
:class:`~radii_papers.claims._study_cells.NotMeasured`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from radii.errors import unknown_name
from radii_papers.claims import _attacked_checks as attacked_checks
from radii_papers.claims import _curve_checks as curve_checks
from radii_papers.claims import _method_checks as method_checks
from radii_papers.claims import _printed_tables as printed_tables
from radii_papers.claims import _scaling_checks as scaling_checks
from radii_papers.claims._study_cells import Coordinates, NotMeasured, StudyCells, certified, entry, number
from radii_papers.measurements import TheoryRow

Figures = dict[str, float]
Names = Sequence[str]
FAILING = "predictions that fail"
BANDS = ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072")
CERTIFIED = {"certified": "1-Lipschitz", "isometric": "isometric", "unaugmented": "no augmentation"}
CHANCE = 0.1  # of ten classes
RADIUS = 36 / 255


def simulated(cells: StudyCells, names: Names, *, result: str, containing: str = "") -> Figures:
    """What the simulation of a theorem measured.

    Args:
        names: quantities of the result's table; :data:`FAILING` counts predictions that do not agree.
    """
    rows = entry(cells.at({"result": result}), ("rows",))
    by_name = {row.quantity: row for row in rows}
    figures = {}
    for name in names:
        if name == FAILING:
            judged = [row for row in rows if containing in row.quantity and row.predicted is not None]
            if not judged:
                raise NotMeasured(f"prediction of {result} about {containing}")
            figures[name] = float(sum(not _agrees(row) for row in judged))
        elif name in by_name:
            figures[name] = number(by_name[name], ("measured",))
        else:
            raise NotMeasured(f"{result}: {name}")
    return figures


def _agrees(row: TheoryRow) -> bool:
    if row.measured is None or row.predicted is None or row.tolerance is None:
        return False
    off, tolerance = row.measured - row.predicted, row.tolerance
    return bool({"=": abs(off) <= tolerance, "≤": off <= tolerance, "≥": off >= -tolerance}[row.relation])


def formula(cells: StudyCells, names: Names, *, formula: str) -> Figures:
    """Figures of a formula."""
    return {name: cells.number({"formula": formula}, ("figures", name)) for name in names}


def values(
    cells: StudyCells,
    names: Names,
    *,
    path: Sequence[str] = (),
    key: str = "",
    place: Coordinates | None = None,
    at: Mapping[str, Coordinates] | None = None,
    paths: Mapping[str, Sequence[str]] | None = None,
    complement: bool = False,
) -> Figures:
    """Numbers as they stand in the cells.

    Args:
        place: coordinates that all figures share.
    """
    figures = {}
    for name in names:
        where = {**(place or {}), **({key: name} if key else {}), **(at or {}).get(name, {})}
        value = cells.number(where, (paths or {}).get(name, path))
        figures[name] = 1 - value if complement else value
    return figures


def entries(cells: StudyCells, names: Names, *, place: Coordinates, path: Sequence[str] = ()) -> Figures:
    """Numbers of one cell whose last key is the figure's name."""
    return {name: cells.number(place, (*path, name)) for name in names}


def total(cells: StudyCells, names: Names, *, place: Coordinates, path: Sequence[str], parts: Sequence[str]) -> Figures:
    """The sum of several numbers of one cell, under the name of the figure."""
    return {names[0]: sum(entries(cells, parts, place=place, path=path).values())}


def difference(
    cells: StudyCells, names: Names, *, first: Mapping[str, Any], second: Mapping[str, Any], path: Sequence[str]
) -> Figures:
    """The number of one cell less that of another, under the name of the figure."""
    return {names[0]: cells.number(first, path) - cells.number(second, path)}


def profile(
    cells: StudyCells,
    *,
    key: str,
    over: Sequence[str],
    path: Sequence[str],
    place: Coordinates | None = None,
) -> Figures:
    """Least, greatest, spread, and the largest step up of a number over an ordered list of cells.

    Args:
        names: any of ``least``, ``greatest``, ``spread``, ``largest rise``.
        place: coordinates that all cells share.
    """
    return _profile([cells.number({**(place or {}), key: value}, path) for value in over])


def _profile(line: Sequence[float]) -> Figures:
    if any(map(math.isnan, line)):
        return dict.fromkeys(("least", "greatest", "spread", "largest rise"), math.nan)
    return {
        "least": min(line),
        "greatest": max(line),
        "spread": max(line) - min(line),
        "largest rise": max(b - a for a, b in pairwise(line)),
    }


def sensitivity(cells: StudyCells, *, variants: Sequence[str]) -> Figures:
    """How accuracies on variants of MNIST stand to one another."""

    def column(method: str, *path: str) -> list[float]:
        return [cells.number({"variant": variant, "method": method, "measure": "PGD-40"}, path) for variant in variants]

    robust, kept = column("PGD", "robust_accuracy_at_most"), column("PGD", "robust_to_predictions", "unbroken", "value")
    clean, plain = column("PGD", "clean", "value"), column("standard", "clean", "value")
    margins = _profile([b - a for a, b in zip(robust, kept, strict=True)])
    lost = _profile([b - a for a, b in zip(robust, clean, strict=True)])
    return {
        "robust spread over clean spread": _profile(robust)["spread"] / max(_profile(plain)["spread"], 0.001),
        "clean less robust, binarized": clean[0] - robust[0],
        "clean less robust, greatest": lost["greatest"],
        "kept less right, least": margins["least"],
        "kept less right, greatest": margins["greatest"],
        "least clean accuracy, PGD": _profile(clean)["least"],
        "least clean accuracy, standard": _profile(plain)["least"],
    }


def band_column(cells: StudyCells, names: Names, *, metric: str) -> Figures:
    """A column of Table 1 of Prach & Lampert 2025: accuracies by band of principal components.

    Args:
        metric: ``standard``, or a key of ``CERTIFIED``, and the split: ``certified test``.
    """
    network, split = metric.split()
    if network == "standard":
        return {name: cells.number({"band": name, "model": "standard"}, (f"{split}_accuracy",)) for name in names}
    model = CERTIFIED[network]
    return {name: certified(cells.at({"band": name, "model": model}), split, RADIUS) for name in names}


def band_contrasts(cells: StudyCells) -> Figures:
    """Differences between bands of principal components, on test points."""
    clean = band_column(cells, BANDS, metric="standard test")
    robust = band_column(cells, BANDS, metric="certified test")
    both, first, late, last, full = "1-16,513-3072", "1-16", "513-3072", "2049-3072", "1-3072"
    return {
        "standard, 513-3072 over all, above chance": ratio(clean[late] - CHANCE, clean[full] - CHANCE),
        "standard, 513-3072": clean[late],
        "standard, all less 513-3072": clean[full] - clean[late],
        "standard, all less 2049-3072": clean[full] - clean[last],
        "standard, 2049-3072, above chance": clean[last] - CHANCE,
        "certified, 513-3072": robust[late],
        "certified, 2049-3072": robust[last],
        "certified, all": robust[full],
        "certified, all less 513-3072": robust[full] - robust[late],
        "certified, all less 1-512": robust[full] - robust["1-512"],
        "certified, all less 1-16": robust[full] - robust[first],
        "standard less certified, gain from 513-3072 beside 1-16": clean[both]
        - clean[first]
        - (robust[both] - robust[first]),
    }


def separation(cells: StudyCells, *, epsilon: Mapping[str, float]) -> Figures:
    """The least distance between classes over epsilon, and what 1-NN proves, by dataset.

    Args:
        epsilon: the attacker's Linf radius by dataset.
    """
    figures = {}
    for data, radius in epsilon.items():
        least = [cells.number({"data": data}, (split, "minimum")) for split in ("train", "test")]
        rule = entry(cells.at({"data": data}), ("nearest_neighbor_rule",))
        figures[f"{data}: least distance over epsilon"] = _profile(least)["least"] / radius
        figures[f"{data}: proved at epsilon"] = number(rule, ("astuteness",))
        figures[f"{data}: right less proved"] = number(rule, ("accuracy",)) - number(rule, ("astuteness",))
    return figures


def neighbors(cells: StudyCells, *, data: str) -> Figures:
    """Intrinsic dimension from nearest-neighbor distances."""
    result = cells.at({"measure": "neighbors", "data": data})
    power, linear = (number(result, (law, "value")) for law in ("dimension", "dimension_linear"))
    return {
        "d*": power,
        "log10 n": number(result, ("log10_samples", "value")),
        "linear law less power law": linear - power,
        "largest rise of the mean distance": _profile([number(row, ("mean",)) for row in entry(result, ("curve",))])[
            "largest rise"
        ],
    }


def matched_distances(cells: StudyCells, names: Names, *, pairs: Mapping[str, Sequence[str]]) -> Figures:
    """Inter-class distances of scaled digits over those of the smoothed digits that they were scaled to match."""
    partner = {scaled: smooth for smooth, datasets in pairs.items() for scaled in datasets}

    def distance(data: str) -> float:
        return cells.number({"measure": "inter-class distance", "data": data}, ("mean",))

    return {
        name: ratio(distance(name), distance(partner[name])) if name in partner else distance(name) for name in names
    }


def error_ratio(cells: StudyCells, *, first: Coordinates, second: Coordinates) -> Figures:
    """Robust errors that bounds leave possible, of two networks, and their ratio."""
    errors = [1 - cells.number(place, ("proved", "value")) for place in (first, second)]
    return {"ratio": ratio(*errors), "first": errors[0], "second": errors[1]}


def ratio(part: float, whole: float) -> float:
    """``part / whole``; NaN, which no claim accepts, where the whole is not positive."""
    return part / whole if whole > 0 else math.nan


Check = Callable[..., Figures]


def _by_name(*functions: Check) -> dict[str, Check]:
    return {function.__name__: function for function in functions}


_OF_NAMES = _by_name(
    simulated,
    formula,
    values,
    entries,
    total,
    difference,
    band_column,
    matched_distances,
    scaling_checks.gain_per_doubling,
    curve_checks.trade_off,
    method_checks.method_column,
    attacked_checks.attacked,
    attacked_checks.differences,
)
_OF_CELLS = _by_name(
    profile,
    sensitivity,
    band_contrasts,
    separation,
    neighbors,
    error_ratio,
    scaling_checks.growth,
    scaling_checks.last_doublings,
    scaling_checks.gaps,
    scaling_checks.standard_over_certified,
    scaling_checks.certificates,
    curve_checks.overfitting,
    curve_checks.by_length,
    curve_checks.extra_points,
    curve_checks.near_and_far,
    method_checks.method_contrasts,
    method_checks.steepness_returns,
    method_checks.dropout_contrasts,
    attacked_checks.spreads,
    attacked_checks.distance_correlation,
)
_OF_TABLES = _by_name(printed_tables.yang_tables, printed_tables.ding_tables)


def check_function(name: str) -> Check:
    """The check called ``name``."""
    checks = {**_OF_NAMES, **_OF_CELLS, **_OF_TABLES}
    if name not in checks:
        raise unknown_name("check", name, tuple(checks))
    return checks[name]


def figures(name: str, cells: StudyCells, names: Names, arguments: Mapping[str, Any]) -> Figures:
    """What the check ``name`` finds: at least the figures ``names``; checks of printed tables read no cells."""
    check = check_function(name)
    if name in _OF_NAMES:
        return check(cells, names, **arguments)
    return check(cells, **arguments) if name in _OF_CELLS else check(**arguments)
