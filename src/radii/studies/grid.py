"""A user's grid: data, variants, sizes, models, methods and seeds, all combined, and what is measured of each.

The study that :mod:`radii.studies.toml` reads from a TOML file; the analysis
knows only the axes, so it serves every grid: a row for each combination, means
over the seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import pydantic

from radii.certificates.bounds.lower_margins import Method
from radii.data.dataset import Preprocessing
from radii.runs.inputs import DataSpec
from radii.runs.planning import train_step
from radii.runs.step import Step
from radii.runs.steps import Certify, Evaluate, Prove, Train
from radii.spec import Spec
from radii.studies.study import Cell, Findings, Measured, mean
from radii.tables import ChartSpec, Field, Row, table
from radii.threat import Ball
from radii.training.recipes import laid_over

AXES = {
    "data": "dataset",
    "variant": "variant",
    "n": "training points",
    "model": "model",
    "method": "method",
}
ALL_POINTS = "all"
STEEPNESS = "local Lipschitz, at least"


class EvaluateMeasure(Spec):
    """``[measure.evaluate]``: certify and attack test points."""

    threat: str
    suite: str = "standard"
    points: int = pydantic.Field(1000, ge=1)
    minimum_norm: bool = False
    lipschitz: bool = False
    split: Literal["test", "train", "both"] = "test"


class CertifyMeasure(Spec):
    """``[measure.certify]``: clean and certified accuracy at L2 radii, by margins unless a method is named.

    ``smoothing`` and ``estimate`` need ``sigma``, the standard deviation of the noise.
    """

    radii: tuple[float, ...] = pydantic.Field(min_length=1)
    points: int = pydantic.Field(10_000, ge=1)
    method: Literal["margin", "auto", "smoothing", "estimate"] = "margin"
    sigma: float | None = pydantic.Field(None, gt=0)


class ProveMeasure(Spec):
    """``[measure.prove]``: what bounds prove in a ball, and what PGD-40 leaves of the rest."""

    threat: str
    method: Method = "crown-ibp"
    points: int = pydantic.Field(1000, ge=1)


class Measure(Spec):
    """``[measure]``: what is measured of every trained network; nothing but its accuracy if empty."""

    evaluate: EvaluateMeasure | None = None
    beside: EvaluateMeasure | None = None  # another evaluation: the standard suite, or a threat without the box
    certify: CertifyMeasure | None = None
    prove: ProveMeasure | None = None


@dataclass(frozen=True)
class Part:
    """A ``[[model]]`` or ``[[method]]``: name, arguments, its label in tables, settings of its trainings."""

    name: str
    label: str
    arguments: Mapping[str, Any]
    settings: Mapping[str, Any]
    measure: tuple[str, ...] = ()  # of models: only these measurements


class Axes(Spec):
    """The keys of a study file that need no other module to be checked."""

    name: str = pydantic.Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = ""
    source: str = ""
    data: tuple[str, ...] = pydantic.Field(min_length=1)
    variants: tuple[str, ...] = pydantic.Field(("",), min_length=1)
    sizes: tuple[int, ...] = ()
    seeds: tuple[int, ...] = pydantic.Field((0,), min_length=1)
    preprocessing: Preprocessing = "center"
    extra: str | None = None
    settings: dict[str, Any] = {}
    measure: Measure = Measure()


@dataclass(frozen=True)
class Grid:
    """The whole grid at one budget."""

    axes: Axes
    models: tuple[Part, ...]
    methods: tuple[Part, ...]

    def cells(self) -> tuple[Cell, ...]:
        """Every combination, trained and measured."""
        axes, cells = self.axes, list[Cell]()
        for name, variant, size in product(axes.data, axes.variants, axes.sizes or (0,)):
            data = DataSpec.of(source(name, variant, size))
            for model, method, seed in product(self.models, self.methods, axes.seeds):
                training = self._training(data, model, method, seed)
                place = {
                    "data": name,
                    "variant": variant or "original",
                    "n": size or ALL_POINTS,
                    "model": model.label,
                    "method": method.label,
                    "seed": seed,
                }
                for measure, step in self._measurements(training, model).items():
                    cells.append(Cell({**place, "measure": measure}, step))
        return tuple(cells)

    def _training(self, data: DataSpec, model: Part, method: Part, seed: int) -> Train:
        settings = laid_over(laid_over(self.axes.settings, model.settings), method.settings)
        arguments = {"model": dict(model.arguments), "method": dict(method.arguments)}
        extra = None if self.axes.extra is None else DataSpec.of(self.axes.extra)
        return train_step(
            data, model.name, method.name, {**settings, **arguments}, self.axes.preprocessing, seed, extra
        )

    def _measurements(self, training: Train, model: Part) -> dict[str, Step]:
        steps: dict[str, Step] = {}
        measure = self.axes.measure
        if (wanted := measure.evaluate) is not None:
            splits: tuple[Literal["test", "train"], ...] = (
                ("test", "train") if wanted.split == "both" else (wanted.split,)
            )
            for split in splits:
                steps["evaluate" if split == "test" else "evaluate, train"] = _evaluation(training, wanted, split)
        if measure.beside is not None:
            steps["beside"] = _evaluation(training, measure.beside, "test")
        if measure.certify is not None:
            steps["certify"] = Certify(model=training, data=training.data, **measure.certify.model_dump())
        if (proof := measure.prove) is not None:
            ball = Ball.parse(proof.threat)
            steps["prove"] = Prove(
                model=training, data=training.data, ball=ball, method=proof.method, points=proof.points
            )
        steps = {
            name: step for name, step in steps.items() if not model.measure or name.partition(",")[0] in model.measure
        }
        return steps or {"train": training}


def source(name: str, variant: str, size: int) -> str:
    """The dataset of a cell as the command line names it.

    Args:
        name: the dataset.
        variant: a chain of variants; empty for none.
        size: number of training points; 0 for all.
    """
    return "+".join(part for part in (name, variant, f"subset:{size}" if size else "") if part)


def analyze(measured: Sequence[Measured]) -> Findings:
    """A row per combination of ``measured`` cells, means over seeds; the chart is over the first axis that varies."""
    varied = [axis for axis in AXES if len({cell.place[axis] for cell in measured}) > 1]
    shown = varied or ["model"]
    groups: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    seeds: dict[tuple[Any, ...], set[Any]] = {}
    for cell in measured:
        key = tuple(cell.place[axis] for axis in shown)
        seeds.setdefault(key, set()).add(cell.place["seed"])
        for metric, value in figures(cell).items():
            groups.setdefault(key, {}).setdefault(metric, []).append(value)
    metrics = list(dict.fromkeys(metric for values in groups.values() for metric in values))
    rows = [
        {
            **dict(zip(shown, key, strict=True)),
            "seeds": len(seeds[key]),
            **{metric: mean(values.get(metric, [])) for metric in metrics},
        }
        for key, values in groups.items()
    ]
    columns: list[Field | str] = [
        *(Field(axis, AXES[axis]) for axis in shown),
        "seeds",
        *(Field(metric, metric, percent=not metric.startswith(STEEPNESS)) for metric in metrics),
    ]
    drawn = [metric for metric in metrics if not metric.startswith(STEEPNESS)]
    return Findings(table(rows, columns), (_chart(rows, shown, drawn),) if rows else ())


def _evaluation(training: Train, wanted: EvaluateMeasure, split: Literal["test", "train"]) -> Evaluate:
    """The attack and the certificates that ``wanted`` asks for, on one split of the training's data."""
    return Evaluate(
        model=training,
        data=training.data,
        ball=Ball.parse(wanted.threat),
        suite=wanted.suite,
        points=wanted.points,
        minimum_norm=wanted.minimum_norm,
        split=split,
        lipschitz=wanted.lipschitz,
    )


def figures(cell: Measured) -> dict[str, float]:
    """The accuracies of one cell, by what a table calls them."""
    result = cell.result
    match cell.place["measure"]:
        case "evaluate":
            return _attacked(result)
        case "evaluate, train":
            return {f"{name}, train": value for name, value in _attacked(result).items()}
        case "beside":
            at_most, at_least = result["robust_accuracy_at_most"], result["robust_accuracy_at_least"]
            return {"beside: proved": at_least, "beside: unbroken": at_most}
        case "certify":
            word = "certified" if "certified" in result["test"] else "estimated"
            proved = zip(result["radii"], result["test"][word], strict=True)
            return {
                "clean": result["test"]["clean"]["value"],
                **{f"{word} at {radius:.4g}": share["value"] for radius, share in proved},
            }
        case "prove":
            return {name: result[name]["value"] for name in ("clean", "proved", "unbroken")}
        case _:
            return {"clean": result["test_accuracy"], "clean, train": result["train_accuracy"]}


def _attacked(result: Mapping[str, Any]) -> dict[str, float]:
    """What an evaluation found; the local Lipschitz constant is a search's, so at least this."""
    steep = result.get("local_lipschitz")
    return {
        "clean": result["test_accuracy"],
        "proved": result["robust_accuracy_at_least"],
        "unbroken": result["robust_accuracy_at_most"],
        **({} if steep is None else {STEEPNESS: steep}),
    }


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
