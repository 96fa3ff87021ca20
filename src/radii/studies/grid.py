"""A grid: data, variants, sizes, widths, models, methods and seeds, all combined, and what is measured of each.

The studies that :mod:`radii.studies.toml` reads from TOML files. The analysis
knows only the axes, so it serves every grid: a row for each combination, means
over the seeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any, Literal

from pydantic import Field as Key

from radii.budget import Budget
from radii.data import sources, variant_chain
from radii.data.dataset import Preprocessing
from radii.errors import InputError
from radii.runs.component_specs import DataSpec
from radii.runs.planning import METHOD, train_step
from radii.runs.step import Step
from radii.runs.steps import Train
from radii.spec import Spec
from radii.studies._measurement import MEASUREMENTS, ON_TRAIN, STEEPNESS, EvaluateMeasure, Measurement
from radii.studies.study import Cell, Findings, Measured, mean
from radii.tables import ChartSpec, Field, Row, table
from radii.training import recipes
from radii.training.recipes import Plan, deep_merge

AXES = {
    "data": "dataset",
    "variant": "variant",
    "n": "training points",
    "width": "width",
    "model": "model",
    "method": "method",
}
ALL_POINTS = "all"


@dataclass(frozen=True)
class Part:
    """A ``[[model]]`` or ``[[method]]``: its name (None: the recipe's), label in tables, arguments and settings.

    ``measure`` names the only measurements of its networks; empty: all.
    """

    name: str | None = None
    label: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    measure: tuple[str, ...] = ()


class Axes(Spec):
    """The keys of a grid that need no other module to be checked."""

    name: str = Key(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = ""
    source: str = ""
    about: str = ""
    data: tuple[str, ...] = Key(min_length=1)
    optional: bool = False  # left out where its data is not on this machine
    variants: tuple[str, ...] = ()
    sizes: tuple[int | Literal["all"], ...] = ()
    widths: tuple[float, ...] = ()  # the model's argument ``widen``
    seeds: tuple[int, ...] = ()
    recipe: str | None = None
    recipe_budget: Budget | None = None  # at which the recipe is taken; the study's by default
    preprocessing: Preprocessing | None = None
    extra: str | None = None
    settings: dict[str, Any] = {}


@dataclass(frozen=True)
class Grid:
    """A grid at one budget: every combination of its axes is trained and measured."""

    axes: Axes
    models: tuple[Part, ...]
    methods: tuple[Part, ...]
    measures: Mapping[str, Measurement]
    budget: Budget

    @property
    def has_budget(self) -> bool:
        """Whether its recipe can be scaled to the budget."""
        recipe = self.axes.recipe
        return recipe is None or (self.axes.recipe_budget or self.budget) in recipes.named_recipe(recipe).budgets

    def cells(self) -> Iterator[Cell]:
        """A cell for each measurement; its place has the axes that the file writes."""
        axes = self.axes
        names = present(*axes.data, study=axes.name) if axes.optional else axes.data
        for name, width, variant, size in product(
            names, axes.widths or (None,), axes.variants or ("",), axes.sizes or (ALL_POINTS,)
        ):
            data = DataSpec.of(source(name, variant, size))
            for model, method, seed in product(self.models, self.methods, axes.seeds or (0,)):
                training = self._training(data, self.plan(model, method, width), seed)
                place = {
                    "data": name,
                    **({"variant": _variant_title(variant)} if axes.variants else {}),
                    **({"n": size} if axes.sizes else {}),
                    **({"width": width} if width is not None else {}),
                    **({"model": model.label} if model.label else {}),
                    **({"method": method.label} if method.label else {}),
                    **({"seed": seed} if axes.seeds else {}),
                }
                for measure, step in self._measurements(training, variant, model, method).items():
                    yield Cell({**place, "measure": measure}, step)

    def plan(self, model: Part, method: Part, width: float | None) -> Plan:
        """The settings of a training: the recipe's at its budget, changed by the grid, the model and the method."""
        axes = self.axes
        if axes.recipe is None:
            base = Plan(model.name or "", method.name or METHOD, "center", {})
        else:
            base = recipes.plan(axes.recipe, axes.recipe_budget or self.budget, model.name, method.name)
        own = deep_merge(deep_merge(axes.settings, model.settings), method.settings)
        widen = {} if width is None else {"widen": width}
        arguments = {"model": {**model.arguments, **widen}, "method": dict(method.arguments)}
        settings = deep_merge(base.settings, {**own, **arguments})
        return replace(base, settings=settings, preprocessing=axes.preprocessing or base.preprocessing)

    def _training(self, data: DataSpec, plan: Plan, seed: int) -> Train:
        extra = None if self.axes.extra is None else DataSpec.of(self.axes.extra)
        return train_step(data, plan.model, plan.method, plan.settings, plan.preprocessing, seed, extra)

    def _measurements(self, training: Train, variant: str, model: Part, method: Part) -> dict[str, Step]:
        """What is measured of a network: its accuracies where nothing else is."""
        chosen = {
            name: measure
            for name, measure in self.measures.items()
            if all(name in part.measure for part in (model, method) if part.measure)
            and (not measure.variants or variant in measure.variants)
        }
        steps = {cell: step for name, measure in chosen.items() for cell, step in measure.steps(name, training)}
        return steps or {"train": training}


def source(name: str, variant: str, size: int | str) -> str:
    """The dataset ``name`` with a ``variant``, and ``size`` training points or ``all``, as the command line has it."""
    return "+".join(part for part in (name, variant, f"subset:{size}" if size != ALL_POINTS else "") if part)


def _variant_title(variant: str) -> str:
    """A chain of variants in words.

    >>> [_variant_title(variant) for variant in ("", "smooth:3", "binarize+scale:0.821", "scale:0.970")]
    ['original', 'smooth 3', 'binarized scaled 0.821', 'original scaled 0.970']
    """
    words = [part.replace(":", " ") for part in variant.split("+") if part]
    words = ["binarized" if word == "binarize" else word.replace("scale ", "scaled ") for word in words]
    return " ".join(["original", *words] if not words or words[0].startswith("scaled") else words)


def present(*names: str, study: str) -> tuple[str, ...]:
    """Those of the datasets that are on this machine; nothing is fetched, and ``study`` says what it leaves out."""
    return tuple(name for name in names if _here(name, study))


@cache
def _here(name: str, study: str) -> bool:
    try:
        with sources.only_local():
            sources.locate(variant_chain.split(name)[0])
    except InputError:
        logging.getLogger("radii").warning(
            "%s is not on this machine: %s leaves it out. Put it into $RADII_DATA to have it.", name, study
        )
        return False
    return True


def analyze(measured: Sequence[Measured], kinds: Mapping[str, type[Measurement]] = MEASUREMENTS) -> Findings:
    """A row per combination of ``measured`` cells, means over seeds; the chart is over the first axis that varies.

    ``kinds``: what kind of measurement each name is; one of another name is an evaluation.
    """
    axes = [axis for axis in AXES if any(axis in cell.place for cell in measured)]
    shown = [axis for axis in axes if len({cell.place.get(axis) for cell in measured}) > 1] or axes[:1]
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for cell in measured:
        groups.setdefault(tuple(cell.place.get(axis) for axis in shown), []).append(cell)
    rows = [
        {
            **dict(zip(shown, key, strict=True)),
            "seeds": len({cell.place.get("seed") for cell in cells}),
            **_means(cells, kinds),
        }
        for key, cells in groups.items()
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    metrics = [name for name in names if name not in (*shown, "seeds")]
    rows = [{**dict.fromkeys(metrics), **row} for row in rows]
    columns: list[Field | str] = [
        *(Field(axis, AXES[axis]) for axis in shown),
        "seeds",
        *(Field(metric, metric, percent=STEEPNESS not in metric) for metric in metrics),
    ]
    drawn = [metric for metric in metrics if STEEPNESS not in metric]
    return Findings(table(rows, columns), (_chart(rows, shown, drawn),) if rows else ())


def _means(cells: Sequence[Measured], kinds: Mapping[str, type[Measurement]]) -> dict[str, float | None]:
    """The figures of one combination; a figure that several measurements have is that of the first."""
    values: dict[str, dict[Any, list[float]]] = {}
    for cell in cells:
        for heading, value in _figures(cell, kinds).items():
            values.setdefault(heading, {}).setdefault(cell.place["measure"], []).append(value)
    return {heading: mean(next(iter(by_measure.values()))) for heading, by_measure in values.items()}


def _figures(cell: Measured, kinds: Mapping[str, type[Measurement]]) -> dict[str, float]:
    """The figures of one cell by heading; a measurement that is not called as its step has its name before each."""
    name = str(cell.place["measure"])
    base = name if name in kinds else name.removesuffix(ON_TRAIN)
    before = "" if base in MEASUREMENTS else f"{base}: "
    behind = "" if base == name else ON_TRAIN
    kind = kinds.get(base, MEASUREMENTS.get(base, EvaluateMeasure))
    return {f"{before}{key}{behind}": value for key, value in kind.figures(cell).items()}


def _chart(rows: Sequence[Row], shown: Sequence[str], metrics: Sequence[str]) -> ChartSpec:
    """Curves over the number of training points, bars over anything else."""
    over = "n" if "n" in shown and ALL_POINTS not in {row["n"] for row in rows} else shown[0]
    marks = []
    for row in rows:
        others = [str(row[axis]) for axis in shown if axis != over]
        for metric in metrics:
            if row[metric] is not None:
                marks.append({over: row[over], "accuracy": row[metric], "curve": ", ".join([*others, metric])})
    return ChartSpec(
        "curves" if over == "n" else "bars",
        marks,
        Field(over, AXES[over], log=over == "n"),
        Field("accuracy", "test accuracy", percent=True),
        "curve",
        f"Accuracy over {AXES[over]}",
        "Means over seeds.",
    )
