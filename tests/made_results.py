"""Results of studies as the papers report them: from published tables, invented where there is a picture only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import made_curves
from made_records import evaluated, trained
from radii.studies.results import Evidence
from radii.studies.study import Measured
from radii_papers.measurements import InterclassResult
from radii_papers.published import lookup, select

SATURATED = ("1", "1.5", "1.75", "original", "2.25", "2.5", "3", "4", "8", "16", "64", "128", "256", "inf")
LEVELS = tuple(level if level == "original" else f"saturate {level}" for level in SATURATED)
DIGITS = ("binarized", "original", *(f"smooth {s}" for s in range(2, 9)))


def network(place: Mapping[str, Any], figures: Mapping[str, float]) -> list[Measured]:
    """The cells of one network.

    Args:
        place: its coordinates; ``method`` is one of them.
        figures: any of ``train``, ``test``, ``robust train``, ``robust test``, ``stable`` and ``free``.
    """
    name = "-".join(str(value) for value in place.values())
    cells = []
    if "test" in figures:
        training = trained(figures["test"], figures.get("train", math.nan))
        cells.append(Measured({**place, "measure": "training"}, training, f"train-{name}"))
    for measure, key in (("PGD-40", "robust test"), ("PGD-40, train", "robust train"), ("PGD-40, no box", "free")):
        if key in figures:
            result = evaluated(figures[key], figures.get("test"), kept=figures.get("stable"))
            cells.append(Measured({**place, "measure": measure}, result, f"evaluate-{measure}-{name}"))
    return cells


def _number(table: str, **where: Any) -> float:
    return lookup("003", table, **where).share


def _capacity(table: str, prefix: str, models: Mapping[float, str], names: tuple[str, ...]) -> list[Measured]:
    """A table of widths: four accuracies of PGD training, two of standard training."""
    cells = []
    for width, model in models.items():
        for name in names:
            where = {"dataset": f"{prefix} {name}", "model": model}
            standard = {s: _number(table, **where, method="standard", metric=f"{s}_acc_pct") for s in ("train", "test")}
            pgd = {s: _number(table, **where, method="PGD", metric=f"{s}_acc_pct") for s in ("train", "test")}
            pgd |= {
                f"robust {s}": _number(table, **where, method="PGD", metric=f"{s}_robust_acc_pct")
                for s in ("train", "test")
            }
            if table == "Table 4" and width == 0.125:  # Table 7 has the loss at full width
                free = select("003", "Table 7", dataset=f"{prefix} {name}")
                pgd |= {"free": pgd["robust test"] - (free[0].share - free[1].share)} if free else {}
            place = {"variant": name, "width": width}
            cells += network({**place, "method": "standard"}, standard) + network({**place, "method": "PGD"}, pgd)
    return cells


def capacity_mnist() -> list[Measured]:
    """Table 4, and the losses of Table 7 at an eighth of the width."""
    return _capacity("Table 4", "MNIST", {w: f"LeNet5 x{w:g}" for w in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)}, DIGITS)


def capacity_cifar() -> list[Measured]:
    """Table 5."""
    return _capacity("Table 5", "CIFAR10", {w: f"WideResNet-28 x{w:g}" for w in (0.25, 1.0, 4.0)}, LEVELS)


def sensitivity_cifar() -> list[Measured]:
    """Table 3, and what Table 7 has of attacks without the box."""
    cells = []
    for name in LEVELS:
        where = {"dataset": f"CIFAR10 {name}"}
        pgd = {
            "test": _number("Table 3", **where, method="PGD", metric="test_acc_pct"),
            "robust test": _number("Table 3", **where, metric="robust_acc_pct"),
            "stable": _number("Table 3", **where, metric="robustness_wrt_predictions_pct"),
        }
        free = select("003", "Table 7", **where, metric="robust_acc_without_box_pct")
        pgd |= {"free": free[0].share} if free else {}
        standard = {"test": _number("Table 3", **where, method="standard", metric="test_acc_pct")}
        cells += network({"variant": name, "method": "standard"}, standard)
        cells += network({"variant": name, "method": "PGD"}, pgd)
    return cells


def scaled_digits() -> list[Measured]:
    """Table 1."""
    robust = select("003", "Table 1", metric="robust_acc_pct")
    return [
        cell
        for fact in robust
        for cell in network(
            {"variant": str(fact.dataset).removeprefix("MNIST "), "method": "PGD"},
            {"test": 0.99, "robust test": fact.share},
        )
    ]


def fashion_edges() -> list[Measured]:
    """Gaps as wide as the bars of Fig. 3b."""
    made = {"original": (0.86, 0.66), "edges": (0.8, 0.78)}
    return [
        cell
        for variant, (test, robust) in made.items()
        for cell in network({"variant": variant, "method": "PGD"}, {"test": test, "robust test": robust})
    ]


def gamma() -> list[Measured]:
    """Curves like those of Fig. 3a."""
    cells = []
    for variant, robust in (("gamma 0.6", 0.35), ("original", 0.43), ("gamma 1.6", 0.52)):
        cells += network({"variant": variant, "method": "PGD"}, {"test": 0.85, "robust test": robust})
        clean = {"gamma 0.6": 0.95, "original": 0.95, "gamma 1.6": 0.945}[variant]
        cells += network({"variant": variant, "method": "standard"}, {"train": 1.0, "test": clean})
    return cells


def sample_size() -> list[Measured]:
    """Curves like those of Fig. 4."""
    cells = []
    for variant, low in (("original", 0.8), ("smooth 8", 0.6)):
        for step, n in enumerate((1000, 3000, 9000, 27_000, "all")):
            figures = {"test": 0.97, "robust test": low + 0.04 * step, "robust train": 0.99 - 0.015 * step}
            cells += network({"data": "mnist", "variant": variant, "method": "PGD", "n": n}, figures)
    return cells


def sample_complexity() -> list[Measured]:
    """Natural accuracy saturates, robust accuracy does not."""
    cells = []
    for step in range(8):
        place = {"data": "mnist", "n": 60_000 >> (7 - step)}
        cells += network({**place, "method": "standard"}, {"train": 1.0, "test": 0.99 - 0.06 / 2**step})
        robust = {"test": 0.97, "robust test": 0.6 + 0.05 * step, "robust train": 0.99 - 0.002 * step}
        cells += network({**place, "method": "PGD"}, robust)
    return cells


def distance_robustness() -> list[Measured]:
    """Distance and robust accuracy fall together."""
    cells = []
    for step, variant in enumerate(DIGITS[1:]):
        place = {"data": "mnist", "variant": variant}
        robust = _number("Table 2", dataset=f"MNIST {variant}", metric="robust_acc_pct")
        cells.append(Measured({**place, "measure": "PGD-40"}, evaluated(robust), f"evaluate-{variant}"))
        distance = InterclassResult(mean=7.4 - 0.1 * step)
        cells.append(Measured({**place, "measure": "inter-class distance"}, distance, f"interclass-{variant}"))
    return cells


MADE: dict[str, Callable[[], list[Measured]]] = {
    **made_curves.MADE,
    "capacity-mnist": capacity_mnist,
    "capacity-cifar": capacity_cifar,
    "sensitivity-cifar": sensitivity_cifar,
    "scaled-digits": scaled_digits,
    "fashion-edges": fashion_edges,
    "gamma": gamma,
    "sample-size": sample_size,
    "sample-complexity": sample_complexity,
    "distance-robustness": distance_robustness,
}


@cache
def _published_cells(study: str) -> tuple[Measured, ...]:
    return tuple(MADE[study]())


def made_evidence(study: str, cells: list[Measured] | None = None) -> Evidence:
    """Results as the paper reports them, at its budget.

    Args:
        study: its name.
        cells: the cells; those of :data:`MADE` by default.
    """
    known = _published_cells(study) if cells is None else tuple(cells)
    return Evidence(study, "paper", len(known), known, {}, "made up")
