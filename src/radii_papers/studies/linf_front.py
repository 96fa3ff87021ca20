"""Linf front: what clean accuracy costs in proved accuracy, over methods of certified training.

Interval training with some clean loss (Shi et al. 2021), MTL-IBP (De Palma et al. 2024), SABR (Mueller et al. 2023)
and Linf distance networks (Zhang et al. 2021), each at several values of the one number that trades the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from radii.budget import Budget
from radii.runs.component_specs import DataSpec
from radii.runs.planning import train_step
from radii.runs.step_results import CertifyResult
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.threat import Ball
from radii.training.certified_recipe import certified_plan

THREAT = Ball("linf", 0.1)
EPOCHS: dict[Budget, dict[str, int]] = {
    "smoke": {"digits": 2},
    "cpu": {"digits": 40, "mnist": 6},
    "paper": {"digits": 100, "mnist": 70},
}
# the trade-off of each method, from proved to clean accuracy
INTERVALS: dict[str, tuple[str, tuple[float, ...]]] = {
    "fast-ibp": ("clean", (0.0, 0.5, 0.9)),
    "mtl-ibp": ("share", (0.5, 0.1, 0.02)),
    "sabr": ("share", (0.8, 0.4, 0.1)),
}
DISTANCE_NETWORK: dict[str, Any] = {
    "test_every": 0,
    "optimizer": {"kind": "adam", "lr": 0.03},
    "model": {"width": 128, "depth": 2},
}
OFFSETS = (0.5, 0.3, 0.1)  # margins that the loss asks of Linf distance networks
SLOW = {"mnist": 1}  # how many of them at ``cpu``: a step takes ten times as long as one of intervals there


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every method at its values on the digits and, beyond ``smoke``, on MNIST."""
    few = SLOW if budget == "cpu" else {}
    return tuple(
        cell for name, epochs in EPOCHS[budget].items() for cell in _front(name, epochs, OFFSETS[: few.get(name)])
    )


def _front(name: str, epochs: int, offsets: Sequence[float]) -> Iterator[Cell]:
    data = DataSpec.of(name)
    recipe = certified_plan(data.load().train, THREAT, "smoke")
    length: dict[str, Any] = {"steps": 0, "epochs": epochs, "batch_size": recipe.settings["batch_size"]}
    for method, (key, values) in INTERVALS.items():
        for value in values:
            settings = {**recipe.settings, **length, "method": {"threat": str(THREAT), key: value}}
            trained = train_step(data, recipe.model, method, settings, recipe.preprocessing)
            yield _cell(trained, value, "crown-ibp")
    for offset in offsets:
        settings = {**length, **DISTANCE_NETWORK, "method": {"offset": offset}}
        yield _cell(train_step(data, "linf-distance", "linf-distance", settings, "none"), offset, "margin")


def _cell(trained: Train, value: float, certificate: str) -> Cell:
    step = Certify(
        model=trained,
        data=trained.data,
        radii=(THREAT.radius,),
        points=10_000,
        method=certificate,
        norm="linf",
        splits=("test",),
    )
    return Cell({"data": trained.data.base, "method": trained.method.name, "value": value}, step)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Clean and proved accuracy of every network, and which of them no other exceeds in both."""
    rows = [row for name in EPOCHS["cpu"] for row in _rows([cell for cell in measured if cell.place["data"] == name])]
    columns = (
        Field("data", "dataset"),
        Field("method", "method"),
        Field("value", "trade-off"),
        Field("clean", "clean", percent=True),
        Field("proved", "proved", percent=True),
        Field("front", "on the front"),
    )
    names = [name for name in EPOCHS["cpu"] if any(row["data"] == name for row in rows)]
    return Findings(table(rows, columns), tuple(_chart([row for row in rows if row["data"] == name]) for name in names))


def _rows(measured: Sequence[Measured]) -> list[Row]:
    tests = [cell.read(CertifyResult).test for cell in measured]
    shares = [(test.clean.value, test.shares[0].value) for test in tests if test is not None]
    return [
        {**cell.place, "clean": clean, "proved": proved, "front": "yes" if _on_front((clean, proved), shares) else ""}
        for cell, (clean, proved) in zip(measured, shares, strict=True)
    ]


def _chart(rows: Sequence[Row]) -> ChartSpec:
    best = max(rows, key=lambda row: row["proved"])
    return ChartSpec(
        "points",
        rows,
        Field("clean", "clean accuracy", percent=True),
        Field("proved", "proved accuracy", percent=True, from_zero=False),
        "method",
        f"{best['data']}: {best['method']} proves the most, {best['proved']:.1%} at {best['clean']:.1%} clean",
        f"{THREAT}, all test images. Points to the upper right are better.",
    )


def _on_front(point: tuple[float, float], points: Sequence[tuple[float, float]]) -> bool:
    """Whether no other point is at least as high in both coordinates and higher in one."""
    return not any(other != point and other[0] >= point[0] and other[1] >= point[1] for other in points)


STUDY = Study(
    "linf-front",
    "Clean against proved accuracy at Linf 0.1",
    "Shi et al. 2021; De Palma et al. 2024; Mueller et al. 2023; Zhang et al. 2021",
    _cells,
    _analyze,
)
