"""Dropout: whether it narrows the gaps of robust training.

Yang et al. 2020, table of dropout: five methods without and with dropout, here of 0.2. The networks and lengths are
those of the study ``yang-cifar``, which shares the trainings without dropout.
"""

from __future__ import annotations

from radii.budget import BUDGETS, Budget
from radii.studies.study import Cell, Study
from radii_papers.studies.yang_cifar import analyze, trained

METHODS = ("Natural", "AT", "RST(lambda=2)", "TRADES(beta=3)", "TRADES(beta=6)")
DROPOUT = 0.2  # the slides do not state it


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """The methods of the table, without and with dropout."""
    return trained(budget, METHODS, (0.0, DROPOUT))


STUDY = Study(
    "dropout",
    "What dropout changes in robust training",
    "Yang et al. 2020, table of dropout",
    _cells,
    analyze,
    BUDGETS,
)
