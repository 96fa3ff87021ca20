"""Staircase: on a line a robust and a vulnerable classifier, both without an error on the data.

Yang et al. 2020, the picture of a function with small Lipschitz constant and of one that attacks break.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii_papers.measurements import OneDimensionResult
from radii_papers.one_dimension import OneDimension


def _cells(budget: Budget) -> tuple[Cell, ...]:  # noqa: ARG001
    """The same at every budget: it takes a moment."""
    return (Cell({"points": 8}, OneDimension()),)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Accuracy, astuteness and steepness of the first line, and both curves."""
    rows: list[Row] = []
    marks: list[Row] = []
    for cell in measured:
        result = cell.read(OneDimensionResult)
        row = {"points": cell.place["points"]}
        for name, figures in (("smooth", result.smooth), ("staircase", result.staircase)):
            row |= {f"{name}_accuracy": figures.accuracy, f"{name}_astuteness": figures.astuteness}
            row[f"{name}_steepness_times_r"] = figures.steepness_times_r
            marks += [{"x": x, "value": value, "classifier": name} for x, value in figures.curve]
        rows.append(row)
    columns = (
        Field("points", "points"),
        *(
            Field(f"{name}_{key}", f"{name}: {title}", percent=key != "steepness_times_r")
            for name in ("smooth", "staircase")
            for key, title in (
                ("accuracy", "accuracy"),
                ("astuteness", "robust at 0.9 r"),
                ("steepness_times_r", "steepness times r"),
            )
        ),
    )
    chart = ChartSpec(
        "curves",
        marks,
        Field("x", "input"),
        Field("value", "value of the classifier"),
        "classifier",
        "Both are right on every point; only the smooth one is robust",
        "Points at multiples of 2r with labels -1 and 1; the sign is the prediction.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "staircase",
    "A robust and a vulnerable classifier on a line",
    "Yang et al. 2020, picture after the separation theorem",
    _cells,
    _analyze,
    BUDGETS,
)
