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

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from radii.attacks import SUITES
from radii.attacks.suite import FORMER_NAMES
from radii.budget import BUDGETS, check_budget
from radii.data import hub, sources, variant_chain
from radii.errors import InputError, unknown_name
from radii.models import MODELS
from radii.registry import Registry, check_trust, is_import_path
from radii.spec import read_toml
from radii.studies.grid import Axes, CertifyMeasure, EvaluateMeasure, Grid, Measure, Part, ProveMeasure, analyze, source
from radii.studies.study import STUDIES, Study
from radii.threat import Ball
from radii.training.objectives import METHODS
from radii.training.recipes import laid_over
from radii.training.schedule import Recipe

TABLES = ("model", "method", "budget")
FIELDS = {
    (): {*Axes.model_fields, *TABLES},
    ("measure",): set(Measure.model_fields),
    ("measure", "evaluate"): set(EvaluateMeasure.model_fields),
    ("measure", "beside"): set(EvaluateMeasure.model_fields),
    ("measure", "certify"): set(CertifyMeasure.model_fields),
    ("measure", "prove"): set(ProveMeasure.model_fields),
}
PART_KEYS = ("name", "label", "settings", "measure")  # keys of [[model]] and [[method]] that are not arguments


def load(path: Path, trust: Collection[str] = ()) -> Study:
    """The study that a file describes; nothing that it names is called.

    Args:
        path: the TOML file.
        trust: import paths that the file may name as models and methods.

    Raises:
        InputError: all mistakes of the file.
    """
    content = read_toml(path, "study file")
    budgets = content.pop("budget", {})
    faults = _Faults(frozenset(trust))
    if not isinstance(budgets, dict):
        faults.add("budget", "write a table for each budget, for example [budget.smoke].")
        budgets = {}
    for name in budgets:
        try:
            check_budget(name)
        except InputError as error:
            faults.add("budget", str(error))
    plain = _grid(content, faults)
    grids = {
        budget: _grid(laid_over(content, budgets[budget]), faults, f"budget.{budget}.") if budget in budgets else plain
        for budget in BUDGETS
    }
    if faults.sentences:
        raise InputError(f"The study file {path} has {_count(faults.sentences)}: " + " ".join(faults.sentences))
    axes = plain.axes
    return Study(
        axes.name,
        axes.title or f"Grid of {path.name}",
        axes.source or path.name,
        lambda budget: grids[budget].cells(),
        analyze,
        BUDGETS,
    )


def _count(sentences: Mapping[str, None]) -> str:
    return "a mistake" if len(sentences) == 1 else f"{len(sentences)} mistakes"


@dataclass
class _Faults:
    """Mistakes, each once; import paths that are not in ``trust`` are among them."""

    trust: frozenset[str] = frozenset()
    sentences: dict[str, None] = field(default_factory=dict)

    def add(self, where: str, reason: str) -> None:
        sentence = f"{where}: {reason}"
        self.sentences[sentence if sentence.endswith((".", "?")) else f"{sentence}."] = None


_NO_GRID = Grid(Axes(name="nothing", data=("digits",)), (), ())


def _grid(content: Mapping[str, Any], faults: _Faults, at: str = "") -> Grid:
    """The grid of a file's content; mistakes are added to ``faults``, and the grid is then not to be used."""
    rest = dict(content)
    models = _parts(rest.pop("model", None), "model", MODELS, faults, at)
    methods = _parts(rest.pop("method", [{"name": "natural"}]), "method", METHODS, faults, at)
    try:
        axes = Axes.model_validate(rest)
    except ValidationError as error:
        _explain(error, faults, at)
        return _NO_GRID
    if axes.name in STUDIES:
        faults.add(f"{at}name", f"{axes.name!r} is the name of a study that comes with radii; choose another.")
    _check_data(axes, faults, at)
    _check_measure(axes.measure, faults, at)
    for settings in (axes.settings, *(laid_over(axes.settings, part.settings) for part in (*models, *methods))):
        _check_settings(settings, faults, at)
    return Grid(axes, models, methods)


def _explain(error: ValidationError, faults: _Faults, at: str) -> None:
    for fault in error.errors(include_url=False):
        place = tuple(part for part in fault["loc"] if isinstance(part, str))
        where = at + ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            faults.add(where, str(unknown_name("key", place[-1], FIELDS.get(place[:-1], set()))))
        else:
            came = "" if fault["type"] == "missing" else f", got {fault['input']!r}"
            faults.add(where, f"{fault['msg'].removeprefix('Value error, ')}{came}")


def _parts(tables: Any, kind: str, registry: Registry, faults: _Faults, at: str) -> tuple[Part, ...]:
    """The ``[[model]]`` or ``[[method]]`` tables, names and arguments checked."""
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        faults.add(f"{at}{kind}", f"write at least one table [[{kind}]] with a name.")
        return ()
    parts: list[Part] = []
    for number, table in enumerate(tables, 1):
        where = f"{at}{kind} {number}"
        part = _part(table, where, faults)
        if part is None:
            continue
        try:
            check_trust(part.name, faults.trust, "the file")
            arguments = registry.arguments(part.name, dict(part.arguments))
            if registry is METHODS and not is_import_path(part.name):
                registry.make(part.name, **arguments)  # it knows whether its threat can be understood
        except InputError as error:
            faults.add(where, str(error))
        if part.label in [other.label for other in parts]:
            faults.add(where, f"a {kind} before is called {part.label!r} too; give each a label of its own.")
        parts.append(part)
    return tuple(parts)


def _part(table: Mapping[str, Any], where: str, faults: _Faults) -> Part | None:
    name, settings, measure = table.get("name"), table.get("settings", {}), table.get("measure", [])
    if not isinstance(name, str):
        faults.add(where, "needs a name, for example name = 'lenet5'.")
        return None
    if not isinstance(settings, dict):
        faults.add(where, f"settings must be a table, got {settings!r} instead.")
        settings = {}
    chosen = tuple([measure] if isinstance(measure, str) else measure)
    for wanted in chosen:
        if wanted not in Measure.model_fields:
            faults.add(where, str(unknown_name("measurement", str(wanted), Measure.model_fields)))
    arguments = {key: value for key, value in table.items() if key not in PART_KEYS}
    return Part(name, str(table.get("label", name)), arguments, settings, chosen)


def _check_data(axes: Axes, faults: _Faults, at: str) -> None:
    for key, name in (*(("data", name) for name in axes.data), *((("extra", axes.extra),) if axes.extra else ())):
        try:
            base, _ = variant_chain.split(name)
            if base not in hub.KNOWN:
                with sources.only_local():
                    sources.locate(base)
        except InputError as error:
            faults.add(f"{at}{key}", str(error))
    for variant in axes.variants:
        try:
            variant_chain.split(source("digits", variant, 0))
        except InputError as error:
            faults.add(f"{at}variants", str(error))
    for size in axes.sizes:
        if size < 1:
            faults.add(f"{at}sizes", f"a number of training points must be at least 1, got {size} instead.")


def _check_measure(measure: Measure, faults: _Faults, at: str) -> None:
    for name, wanted in (("evaluate", measure.evaluate), ("beside", measure.beside), ("prove", measure.prove)):
        if wanted is None:
            continue
        try:
            ball = Ball.parse(wanted.threat)
        except InputError as error:
            faults.add(f"{at}measure.{name}.threat", str(error))
            continue
        if name == "prove" and ball.norm not in ("l2", "linf"):
            faults.add(f"{at}measure.prove.threat", f"bounds exist for l2 and linf balls, got {ball} instead.")
    if (proofs := measure.certify) is not None and (proofs.method in ("smoothing", "estimate")) != bool(proofs.sigma):
        faults.add(f"{at}measure.certify.sigma", "write it for the methods smoothing and estimate, and only for them.")
    for name, attacks in (("evaluate", measure.evaluate), ("beside", measure.beside)):
        if attacks is not None and attacks.suite not in {*SUITES, *FORMER_NAMES}:
            faults.add(f"{at}measure.{name}.suite", str(unknown_name("suite", attacks.suite, SUITES)))


def _check_settings(settings: Mapping[str, Any], faults: _Faults, at: str) -> None:
    try:
        Recipe.model_validate(settings)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            place = [str(part) for part in fault["loc"]]
            where = ".".join([f"{at}settings", *place])
            if fault["type"] == "extra_forbidden":
                faults.add(where, str(unknown_name("setting", place[-1], _settings(place[:-1]))))
            else:
                faults.add(where, f"{fault['msg'].removeprefix('Value error, ')}, got {fault['input']!r}")


def _settings(place: list[str]) -> set[str]:
    """The names of settings there are under ``optimizer``, ``augmentation`` or at the top."""
    known: Any = Recipe()
    for part in place:
        known = getattr(known, part, known)
    return set(type(known).model_fields)
