"""Study files: a grid over data, variants, sizes, models, methods and seeds, written in TOML without code.

::

    name = "widths"
    data = ["digits"]
    variants = ["", "smooth:3"]
    seeds = [0, 1]

    [[model]]
    name = "lenet5"
    widen = 0.125

    [[method]]
    name = "adversarial"
    threat = "linf:0.1"

    [settings]
    epochs = 5

    [measure.evaluate]
    threat = "linf:0.1"
    suite = "fast"

    [budget.smoke]
    settings.epochs = 1

All mistakes of a file are reported at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from radii.budget import BUDGETS, Budget, check_budget
from radii.data import hub, sources, variant_chain
from radii.errors import InputError, unknown_name
from radii.models import MODELS
from radii.registry import Registry, check_trust, is_import_path
from radii.spec import read_toml
from radii.studies._measurement import MEASUREMENTS, Measurement
from radii.studies.grid import ALL_POINTS, Axes, Grid, Part, analyze, source
from radii.studies.study import STUDIES, Cell, Study
from radii.training.objectives import METHODS
from radii.training.recipes import RULES, Plan, deep_merge, named_recipe
from radii.training.schedule import Recipe

PART_KEYS = ("name", "label", "settings", "measure")  # keys of [[model]] and [[method]] that are not arguments


def load(path: Path, trust: Collection[str] = (), taken: Iterable[str] = STUDIES) -> Study:
    """The study that a file describes; nothing that it names is called.

    Args:
        taken: names that it must not have; a package that publishes the file passes none.
    """
    content = read_toml(path, "study file")
    faults = _Faults(frozenset(trust))
    changes = _budgets(content.pop("budget", {}), faults)
    _grids(content, "paper", faults)  # what the file says without a budget
    grids = {
        budget: _grids(deep_merge(content, changes.get(budget, {})), budget, faults, f"budget.{budget}.")
        for budget in BUDGETS
    }
    axes = grids["paper"][0].axes
    if axes.name in set(taken):
        faults.add("", "name", f"{axes.name!r} is the name of a study that comes with radii; choose another.")
    faults.report(path)

    def cells(budget: Budget) -> tuple[Cell, ...]:  # a place that two grids share is measured once
        planned = [cell for grid in grids[budget] for cell in grid.cells()]
        return tuple({tuple(cell.place.items()): cell for cell in planned}.values())

    kinds = {name: type(one) for own in grids.values() for grid in own for name, one in grid.measures.items()}
    return Study(
        axes.name,
        axes.title or f"Grid of {path.name}",
        axes.source or path.name,
        cells,
        partial(analyze, kinds=kinds),
        tuple(budget for budget, own in grids.items() if all(grid.has_budget for grid in own)),
        axes.about.strip(),
    )


@dataclass
class _Faults:
    """Mistakes, each once; import paths that are not in ``trust`` are among them."""

    trust: frozenset[str]
    sentences: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, at: str, where: str, reason: str) -> None:
        """A mistake at the key ``where`` of the table ``at``; one that was told without a budget is not told again."""
        sentence = f"{at}{where}: {reason}"
        self.sentences.setdefault((where, reason), sentence if sentence.endswith((".", "?")) else f"{sentence}.")

    def explain(
        self, at: str, error: ValidationError, spec: type[BaseModel], word: str = "key", inside: str = ""
    ) -> None:
        """The mistakes that pydantic found in the ``spec`` at the key ``inside``; its fields are called ``word``."""
        for fault in error.errors(include_url=False):
            names = [str(part) for part in fault["loc"]]
            where = inside + ".".join(names)
            if fault["type"] == "extra_forbidden":
                self.add(at, where, str(unknown_name(word, names[-1], _fields(spec, names[:-1]))))
            else:
                came = "" if fault["type"] in ("missing", "value_error") else f", got {fault['input']!r}"
                self.add(at, where, f"{fault['msg'].removeprefix('Value error, ')}{came}")

    def report(self, path: Path) -> None:
        """Raise all of them, if there are any."""
        count = len(self.sentences)
        if count:
            counted = "a mistake" if count == 1 else f"{count} mistakes"
            raise InputError(f"The study file {path} has {counted}: " + " ".join(self.sentences.values()))


def _fields(spec: type[BaseModel], place: Sequence[str]) -> set[str]:
    """The fields of a spec, or of a spec inside it."""
    for part in place:
        inner = spec.model_fields[part].annotation
        spec = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else spec
    return set(spec.model_fields)


def _budgets(tables: Any, faults: _Faults) -> Mapping[str, Any]:
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        faults.add("", "budget", "write a table for each budget, for example [budget.smoke].")
        return {}
    for name in tables:
        try:
            check_budget(name)
        except InputError as error:
            faults.add("", "budget", str(error))
    return tables


def _grids(content: Mapping[str, Any], budget: Budget, faults: _Faults, at: str = "") -> list[Grid]:
    """The grids of a file's content: one, or those of its ``[[grid]]`` tables, each laid over the rest."""
    rest = {key: value for key, value in content.items() if key != "grid"}
    tables = content.get("grid", [{}])
    if not _is_tables(tables):
        faults.add(at, "grid", "write tables [[grid]] with the keys that differ from the rest.")
        tables = [{}]
    places = [at] if "grid" not in content else [f"{at}grid {number}." for number in range(1, len(tables) + 1)]
    return [_grid(deep_merge(rest, table), budget, faults, place) for table, place in zip(tables, places, strict=True)]


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(table, dict) for table in value)


def _grid(content: Mapping[str, Any], budget: Budget, faults: _Faults, at: str) -> Grid:
    """One grid; mistakes are added to ``faults``, and the grid is then not to be used."""
    rest = dict(content)
    measures = _measures(rest.pop("measure", {}), faults, at)
    models = _parts(rest.pop("model", None), "model", measures, faults, at)
    methods = _parts(rest.pop("method", None), "method", measures, faults, at)
    axes = _axes(rest, faults, at)
    _check_data(axes, faults, at)
    grid = Grid(axes, models or (Part(),), methods or (Part(),), measures, budget)
    if not models and axes.recipe is None:
        faults.add(at, "model", "write at least one table [[model]] with a name, or a recipe.")
    elif _recipe_is_known(axes, faults, at) and grid.has_budget:
        _check_trainings(grid, faults, at)
    return grid


def _axes(rest: Mapping[str, Any], faults: _Faults, at: str) -> Axes:
    """The axes; where keys are wrong, the mistakes are told and the other keys are read."""
    try:
        return Axes.model_validate(rest)
    except ValidationError as error:
        faults.explain(at, error, Axes)
        wrong = {fault["loc"][0] for fault in error.errors()}
        right = {key: value for key, value in rest.items() if key not in wrong}
        return Axes.model_validate({"name": "unnamed", "data": ("digits",), **right})


def _measures(tables: Any, faults: _Faults, at: str) -> dict[str, Measurement]:
    """The ``[measure.NAME]`` tables."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        faults.add(at, "measure", "write a table for each measurement, for example [measure.evaluate].")
        return {}
    measures = {}
    for name, table in tables.items():
        step = table.get("step", name if name in MEASUREMENTS else "evaluate")
        if step not in MEASUREMENTS:
            faults.add(at, f"measure.{name}.step", str(unknown_name("measurement", str(step), MEASUREMENTS)))
            continue
        try:
            keys = {key: value for key, value in table.items() if key != "step"}
            measures[name] = MEASUREMENTS[step].model_validate(keys)
        except ValidationError as error:
            faults.explain(at, error, MEASUREMENTS[step], "key", f"measure.{name}.")
    return measures


def _parts(tables: Any, kind: str, measures: Mapping[str, Measurement], faults: _Faults, at: str) -> tuple[Part, ...]:
    """The ``[[model]]`` or ``[[method]]`` tables; names and arguments are checked later, with the recipe."""
    if tables is None:
        return ()
    if not _is_tables(tables):
        faults.add(at, kind, f"write at least one table [[{kind}]] with a name.")
        return ()
    parts: list[Part] = []
    for number, table in enumerate(tables, 1):
        where, name, settings = f"{kind} {number}", table.get("name"), table.get("settings", {})
        if not isinstance(name, str):
            faults.add(at, where, "needs a name, for example name = 'lenet5'.")
            continue
        if not isinstance(settings, dict):
            faults.add(at, where, f"settings must be a table, got {settings!r} instead.")
            settings = {}
        label = str(table.get("label", name))
        if label in [other.label for other in parts]:
            faults.add(at, where, f"a {kind} before is called {label!r} too; give each a label of its own.")
        wanted = table.get("measure", ())
        chosen = tuple([wanted] if isinstance(wanted, str) else wanted)
        for measurement in chosen:
            if measurement not in {*measures, *MEASUREMENTS}:
                known = {*measures, *MEASUREMENTS}
                faults.add(at, where, str(unknown_name("measurement", str(measurement), known)))
        arguments = {key: value for key, value in table.items() if key not in PART_KEYS}
        parts.append(Part(name, label, arguments, settings, chosen))
    return tuple(parts)


def _recipe_is_known(axes: Axes, faults: _Faults, at: str) -> bool:
    if axes.recipe is None:
        return True
    try:
        if axes.recipe in RULES:
            raise InputError(f"{axes.recipe} follows from the data and the threat; write its [[model]] and [[method]].")
        named_recipe(axes.recipe)
    except InputError as error:
        faults.add(at, "recipe", str(error))
        return False
    return True


def _check_trainings(grid: Grid, faults: _Faults, at: str) -> None:
    """Every model with the first method, and every method with the first model."""
    width = next(iter(grid.axes.widths), None)
    for number, model in enumerate(grid.models, 1):
        plan = grid.plan(model, grid.methods[0], width)
        _check_component(MODELS, plan.model, plan.settings["model"], f"model {number}", faults, at)
        _check_settings(plan, faults, at)
    for number, method in enumerate(grid.methods, 1):
        plan = grid.plan(grid.models[0], method, width)
        _check_component(METHODS, plan.method, plan.settings["method"], f"method {number}", faults, at)
        _check_settings(plan, faults, at)


def _check_component(
    registry: Registry, name: str, values: Mapping[str, Any], where: str, faults: _Faults, at: str
) -> None:
    try:
        check_trust(name, faults.trust, "the file")
        arguments = registry.arguments(name, dict(values))
        if registry is METHODS and not is_import_path(name):
            registry.make(name, **arguments)  # it knows whether its threat can be understood
    except InputError as error:
        faults.add(at, where, str(error))


def _check_settings(plan: Plan, faults: _Faults, at: str) -> None:
    try:
        Recipe.model_validate({key: value for key, value in plan.settings.items() if key not in ("model", "method")})
    except ValidationError as error:
        faults.explain(at, error, Recipe, "setting", "settings.")


def _check_data(axes: Axes, faults: _Faults, at: str) -> None:
    names = [("data", name) for name in axes.data if not axes.optional]
    for key, name in [*names, *([("extra", axes.extra)] if axes.extra else [])]:
        try:
            base, _ = variant_chain.split(name)
            if base not in hub.KNOWN:
                with sources.only_local():
                    sources.locate(base)
        except InputError as error:
            faults.add(at, key, str(error))
    for variant in axes.variants:
        try:
            variant_chain.split(source("digits", variant, ALL_POINTS))
        except InputError as error:
            faults.add(at, "variants", str(error))
    for size in axes.sizes:
        if isinstance(size, int) and size < 1:
            faults.add(at, "sizes", f"a number of training points must be at least 1, got {size} instead.")
