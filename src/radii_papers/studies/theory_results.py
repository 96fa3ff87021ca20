"""Theory: every theorem of the papers, simulated with the default parameters."""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import Budget
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import table
from radii_papers.measurements import TheoryResult
from radii_papers.steps import Theory
from radii_papers.theory.statements import STATEMENTS

# Seconds, no trained network among them.
QUICK = ("r-separation", "half-spaces", "concentration", "facets", "robust-network", "neighbor-distances")


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """One cell per result; the defaults are the papers' settings, so ``paper`` is ``cpu``."""
    names = QUICK if budget == "smoke" else tuple(STATEMENTS)
    return tuple(Cell({"result": name}, Theory.of(name)) for name in names)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """How many predictions of each result agree with their measurements."""
    rows = []
    for cell in measured:
        result = cell.read(TheoryResult)
        judged = [row for row in result.rows if row.predicted is not None]
        agreed = sum(row.holds for row in judged)
        rows.append(
            {
                "result": cell.place["result"],
                "source": result.source,
                "predictions": len(judged),
                "agree": agreed,
                "verdict": "holds" if agreed == len(judged) else "fails",
            }
        )
    return Findings(table(rows, ["result", "source", "predictions", "agree", "verdict"]))


STUDY = Study("theory", "The papers' theorems, simulated", "all five texts", _cells, _analyze)
