"""Formulas: the papers' definitions and printed tables, computed; seconds, no data."""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import Budget
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import table
from radii_papers.formulas import NAMES
from radii_papers.measurements import FormulaResult
from radii_papers.steps import Formula


def _cells(budget: Budget) -> tuple[Cell, ...]:  # noqa: ARG001
    """One cell per formula, the same at every budget."""
    return tuple(Cell({"formula": name}, Formula(name=name)) for name in NAMES)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """One row per figure."""
    rows = [
        {"formula": cell.place["formula"], "figure": figure, "value": value}
        for cell in measured
        for figure, value in cell.read(FormulaResult).figures.items()
    ]
    return Findings(table(rows, ["formula", "figure", "value"]))


STUDY = Study("formulas", "The papers' formulas and printed tables", "all five texts", _cells, _analyze)
