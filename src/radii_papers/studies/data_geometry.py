"""Geometry: what the papers measured on the datasets themselves, before any training.

Shares of variance (Prach & Lampert 2025, Table 1) and nearest-neighbor
distances (section 12) on CIFAR-10; perturbable volumes (Ding et al. 2019,
Table 6) and inter-class distances (Table 1) of dataset variants.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files

from radii.budget import Budget
from radii.runs.component_specs import DataSpec
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import Field, table
from radii_papers.measurements import InterclassResult, NeighborDistancesResult, SpectrumResult, VolumeResult
from radii_papers.steps import MeasureInterclassDistance, MeasureNeighborDistances, MeasureSpectrum, MeasureVolume
from radii_papers.studies._labels import DISTANCE

BANDS = ((1, 16), (1, 512), (513, 3072), (2049, 3072), (1, 3072))
GREY, COLOR = 0.3, 8 / 255
VOLUMES: dict[str, float] = {
    **{f"mnist{variant}": GREY for variant in ("+binarize", "", "+smooth:3", "+smooth:5", "+smooth2d:3")},
    **{f"cifar10{variant}": COLOR for variant in ("", *(f"+saturate:{p}" for p in (4, 8, 16, 64, 256, 512, "inf")))},
}


def _interclass_variants() -> tuple[str, ...]:
    """The digits of Table 1: smoothed ones, each with the scaled original and the scaled binarized digits beside it."""
    return ("", *(f"+{variant.rstrip('0')}" for matched in matched_digits() for variant in matched))


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Four kinds of measurement; on the digits alone for ``smoke``."""
    if budget == "smoke":
        data = DataSpec.of("digits")
        return (
            Cell({"measure": "volume", "data": "digits"}, MeasureVolume(data=data, epsilon=GREY)),
            Cell(
                {"measure": "spectrum", "data": "digits"},
                MeasureSpectrum(data=data, bands=((1, 16), (17, 64), (1, 64))),
            ),
            Cell({"measure": DISTANCE, "data": "digits"}, MeasureInterclassDistance(data=data)),
            Cell({"measure": "neighbors", "data": "digits"}, MeasureNeighborDistances(data=data, queries=300)),
        )
    color = DataSpec.of("cifar10")
    planned = [
        Cell({"measure": "spectrum", "data": "cifar10"}, MeasureSpectrum(data=color, bands=BANDS)),
        Cell({"measure": "neighbors", "data": "cifar10"}, MeasureNeighborDistances(data=color)),
    ]
    planned += [
        Cell({"measure": "volume", "data": name}, MeasureVolume(data=DataSpec.of(name), epsilon=epsilon))
        for name, epsilon in VOLUMES.items()
    ]
    planned += [
        Cell(
            {"measure": DISTANCE, "data": f"mnist{variant}"},
            MeasureInterclassDistance(data=DataSpec.of(f"mnist{variant}")),
        )
        for variant in _interclass_variants()
    ]
    return tuple(planned)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """One row per figure, whatever measured it."""
    rows = [
        {"measure": f"{cell.place['measure']}{what}", "data": cell.place["data"], "value": value}
        for cell in measured
        for what, value in _figures(cell).items()
    ]
    return Findings(table(rows, ["measure", Field("data", "dataset"), "value"]))


def _figures(cell: Measured) -> dict[str, float]:
    match cell.result:
        case SpectrumResult(shares=shares):
            return {f", components {band}": share for band, share in shares.items()}
        case NeighborDistancesResult() as result:
            return {
                ", d* by the power law": result.dimension.value,
                ", d* by the linear law": result.dimension_linear.value,
                ", log10 n for distance 1": result.log10_samples.value,
            }
        case VolumeResult(mean=bits):
            return {", log2": bits}
        case _:
            return {"": cell.read(InterclassResult).mean}


STUDY = Study(
    "geometry",
    "What the papers measured on the data",
    "Prach & Lampert 2025, Table 1 and section 12; Ding et al. 2019, Tables 1 and 6",
    _cells,
    _analyze,
)


def matched_digits() -> list[tuple[str, str, str]]:
    """Smoothed digits, and the scaled original and binarized digits that match them, from ``scaled_digits.toml``."""
    variants = tomllib.loads((files("radii_papers.studies") / "scaled_digits.toml").read_text())["variants"]
    return list(zip(variants[::3], variants[1::3], variants[2::3], strict=True))
