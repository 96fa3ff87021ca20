"""A study: a plan of steps, and an analysis that turns their results into a table and charts.

A module of :mod:`radii.papers.catalog` is a page: which cells at which budget,
and what their results say. Running, resuming, spreading over machines and
keeping results is the same for all and lives elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radii.budget import WITHOUT_NIGHT, Budget
from radii.errors import InputError
from radii.registry import Registry
from radii.runs.step import Step
from radii.tables import ChartSpec, Table

Place = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Cell:
    """One measurement of a study: where it stands in the grid, and the step that makes it."""

    place: Place
    step: Step


@dataclass(frozen=True)
class Measured:
    """A cell whose step is done: what it found, in which run."""

    place: Place
    result: Mapping[str, Any]
    run: str = ""
    seconds: float = 0.0
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class ScalingCurve:
    """One accuracy against the number of training points, as the forecast reads it."""

    data: str
    model: str
    metric: str
    classes: int
    test_points: int
    observations: tuple[Mapping[str, float], ...]  # n, seed, value


@dataclass(frozen=True)
class Findings:
    """What a study's results say: a table, charts, curves to extrapolate."""

    table: Table
    charts: tuple[ChartSpec, ...] = ()
    scaling: tuple[ScalingCurve, ...] = ()


@dataclass(frozen=True)
class Study:
    """``plan`` lists the cells of a budget; ``analyze`` accepts the results of any part of the plan."""

    name: str
    title: str
    source: str
    plan: Callable[[Budget], tuple[Cell, ...]]
    analyze: Callable[[Sequence[Measured]], Findings]
    budgets: tuple[Budget, ...] = WITHOUT_NIGHT

    def cells(self, budget: Budget) -> tuple[Cell, ...]:
        """The cells at a budget.

        Args:
            budget: how much work the study may be.

        Raises:
            InputError: the study has no plan for this budget.
        """
        if budget not in self.budgets:
            raise InputError(f"The study {self.name} has the budgets {', '.join(self.budgets)}, not {budget}.")
        return self.plan(budget)


def mean(values: Sequence[float]) -> float | None:
    """The mean of ``values`` over seeds; None without values, so that a partial study still has its table."""
    return sum(values) / len(values) if values else None


STUDIES = Registry(
    "study",
    {
        name: f"radii.papers.catalog.{module}:STUDY"
        for name, module in {
            "separation": "published_separation",
            "sensitivity-mnist": "sensitivity_mnist",
            "data-scaling": "data_scaling",
            "subspaces": "subspaces",
            "provable": "provable",
            "overfitting": "overfitting",
            "compute-scaling": "compute_scaling",
            "extra-data": "extra_data",
            "trade-off": "trade_off",
            "yang-mnist": "yang_mnist",
            "yang-cifar": "yang_cifar",
            "dropout": "dropout",
            "staircase": "staircase",
            "nearby-points": "nearby_points",
            "theory": "theory_results",
            "geometry": "data_geometry",
            "formulas": "formula_checks",
            "linf-front": "linf_front",
            "sensitivity-cifar": "sensitivity_cifar",
            "capacity-mnist": "capacity_mnist",
            "capacity-cifar": "capacity_cifar",
            "scaled-digits": "scaled_digits",
            "sample-size": "sample_size",
            "gamma": "gamma_correction",
            "fashion-edges": "fashion_edges",
            "distance-robustness": "distance_robustness",
            "sample-complexity": "sample_complexity",
        }.items()
    },
)


def registered_study(name: str) -> Study:
    """The study called ``name``: of the papers, published by a package, or at an import path."""
    study = STUDIES.entry(name)
    if not isinstance(study, Study):
        raise InputError(f"The study {name!r} must be a radii.studies.study.Study, got {type(study).__name__} instead.")
    return study
