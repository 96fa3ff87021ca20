"""Dropout: whether it narrows the gaps of robust training.

Yang et al. 2020, table of dropout: five methods without and with dropout, here of 0.2. The networks and lengths are
those of the study ``yang-cifar``, which shares the trainings without dropout.
"""

from __future__ import annotations

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.yang_cifar import PAIRS, REDUCTIONS, analyze, trained
from radii.studies.study import Cell, Study

DROPOUT = 0.2  # the slides do not state it


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """The methods of the table, without and with dropout."""
    return trained(budget, [name for name in REDUCTIONS[budget].methods if name in PAIRS], (0.0, DROPOUT))


STUDY = Study(
    "dropout",
    "What dropout changes in robust training",
    "Yang et al. 2020, table of dropout",
    _cells,
    analyze,
    BUDGETS,
)
