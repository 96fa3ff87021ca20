"""The options that commands share: one name, one type, one meaning."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from radii.cli import terminal
from radii.errors import InputError, brief, unknown_name
from radii.files import check_chart, check_writable
from radii.models.io import NORMALIZATIONS
from radii.tables import listed, parse_number

if TYPE_CHECKING:
    from radii.change import Change
    from radii.runs.component_specs import DataSpec
    from radii.runs.model_source import ModelSource
    from radii.runs.store import Store
    from radii.threat import Ball

TAKE_CHANGES = ("evaluate", "attack", "certify", "assess")
MOST = 10**9  # of anything that is counted
LONGEST_SECONDS = 1e9  # thirty years
DEVICE = re.compile(r"(cpu|cuda|mps|xpu|hpu|xla|meta)(:\d+)?")


def between(low: float, high: float) -> Callable[[typer.CallbackParam, Any], Any]:
    """Checks a number, or several, that an option was given: NaN, infinity and others beyond the ends are refused."""

    def check(option: typer.CallbackParam, value: Any) -> Any:
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None and not low <= each <= high:
                ends = " to ".join(f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in (low, high))
                raise InputError(f"{option.opts[0]} must be from {ends}, got {brief(each)} instead.")
        return value

    return check


def _each(value: Any) -> list[Any]:
    """The values of an option that may be repeated, may be missing, or has one."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def registered(place: str) -> Callable[[Any], Any]:
    """Checks names against the registry at ``module:attribute``, whose module imports no torch."""
    module, _, attribute = place.partition(":")

    def check(value: Any) -> Any:
        for name in _each(value):
            getattr(import_module(module), attribute).check(name)
        return value

    return check


def one_of(*words: str) -> Callable[[typer.CallbackParam, Any], Any]:
    """Checks that an option has one of these ``words``."""

    def check(option: typer.CallbackParam, value: Any) -> Any:
        if value is not None and value not in words:
            raise InputError(f"{option.opts[0]} must be {listed(words, 'or')}, got {value!r} instead.")
        return value

    return check


def check_norm(value: str | None) -> str | None:
    """Refuse a norm that no threat has."""
    from radii.threat import NORM_NAMES

    if value is not None and value not in NORM_NAMES:
        raise unknown_name("norm", value, NORM_NAMES)
    return value


def check_budget_name(value: str | None) -> str | None:
    """Refuse a budget that nothing has."""
    from radii.budget import check_budget

    return value if value is None else check_budget(value)


def check_device(value: str) -> str:
    """Refuse a device that torch does not know; whether the machine has it is seen later."""
    if not DEVICE.fullmatch(value):
        raise unknown_name("device", value, ("cpu", "cuda", "cuda:1", "mps"))
    return value


def check_certificates(value: list[str] | None) -> list[str] | None:
    """Refuse methods that no certificate has."""
    from radii.certificates.methods import check_method

    for name in _each(value):
        check_method(name)
    return value


def check_recipe_name(value: str | None) -> str | None:
    """Refuse a recipe that nobody publishes."""
    from radii.training.recipes import check_recipe

    if value is not None:
        check_recipe(value)
    return value


DatasetName = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="A name, a folder of images, CSV, parquet or .npz; +variant:arg may follow."
    ),
]
ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A run, a bundle, FILE.py:factory, module:factory, timm:NAME, hf:REPOSITORY, .onnx.",
    ),
]
_THREAT = "NORM:RADIUS[,nobox], for example linf:8/255 or l2:0.5"
_OR_CHANGE = f"{_THREAT}, or a change of images, as brightness:0.2"
Threat = Annotated[str, typer.Option("--threat", help=f"{_OR_CHANGE}.")]
OptionalThreat = Annotated[str | None, typer.Option("--threat", help=f"{_THREAT}.")]
OptionalThreatOrChange = Annotated[str | None, typer.Option("--threat", help=f"{_OR_CHANGE}.")]
Threats = Annotated[list[str] | None, typer.Option("--threat", help=f"{_OR_CHANGE}; may be repeated.")]
NormName = Annotated[
    str | None,
    typer.Option("--norm", help="l1, l2 or linf, at its usual radius; not with --threat.", callback=check_norm),
]
_POINTS = typer.Option(
    "--points", help="Class-balanced points of a split; all if it has fewer.", callback=between(1, MOST)
)
Points = Annotated[int, _POINTS]
OptionalPoints = Annotated[int | None, _POINTS]
_REQUIRE = typer.Option(
    "--require", help='A floor: "clean>=0.9", "robust(linf:8/255)>=0.45", "proved(l2:0.5)>=0.3". Repeatable.'
)
Require = Annotated[list[str], _REQUIRE]
OptionalRequire = Annotated[list[str] | None, _REQUIRE]
_WEIGHTS = "State dict (.pth, .pt) or safetensors for FILE.py:factory"
Weights = Annotated[Path | None, typer.Option("--weights", metavar="FILE", help=f"{_WEIGHTS}.")]
EveryWeights = Annotated[  # the first file belongs to the first model, and so on
    list[Path] | None, typer.Option("--weights", metavar="FILE", help=f"{_WEIGHTS}; may be repeated.")
]
Mean = Annotated[
    str | None,
    typer.Option("--mean", help="Subtracted from pixels in [0, 1]: imagenet, cifar10, mnist (std too), or numbers."),
]
Std = Annotated[str | None, typer.Option("--std", help="Pixels are divided by it; written as --mean.")]
ModelOutputs = Annotated[
    str,
    typer.Option(
        "--outputs",
        help="What MODEL returns: auto, logits or probabilities.",
        callback=one_of("auto", "logits", "probabilities"),
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="package.module:name",
        help="An import path in a file, or a .pt2 file, whose code may run; may be repeated.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        help="Worker processes; 0 computes in this process; one per core by default.",
        callback=between(0, 1024),
    ),
]
ExecutorName = Annotated[
    str,
    typer.Option(
        "--executor",
        help="processes, inline, ray or ray:local.",
        callback=one_of("processes", "inline", "ray", "ray:local"),
    ),
]
Address = Annotated[str | None, typer.Option("--address", help="HOST:PORT of a Ray head, with --executor ray.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", help="Threads of this process; all cores by default.", callback=between(1, 1024)),
]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", metavar="FOLDER", help="Folder of runs; $RADII_RUNS or ./radii-runs.")
]
_SUITE = typer.Option(
    "--suite",
    help="Attacks: fast, swift, standard, sampled, exhaustive, black-box, decisions or pgd.",
    callback=registered("radii.attacks:SUITES"),
)
Suite = Annotated[str, _SUITE]
OptionalSuite = Annotated[str | None, _SUITE]
Complete = Annotated[
    float,
    typer.Option(
        "--complete",
        metavar="SECONDS",
        help="Complete verification of each point, for so many seconds at most.",
        callback=between(0, LONGEST_SECONDS),
    ),
]
Alpha = Annotated[
    float, typer.Option("--alpha", help="Largest probability of a wrong statement.", callback=between(1e-12, 0.5))
]
_SECONDS = typer.Option(
    "--seconds", help="Time limit of each complete search.", callback=between(0.001, LONGEST_SECONDS)
)
SearchSeconds = Annotated[float, _SECONDS]
OptionalSearchSeconds = Annotated[float | None, _SECONDS]
Seed = Annotated[
    int, typer.Option("--seed", help="Seed of every random stream.", callback=between(-(2**63), 2**63 - 1))
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.", callback=check_device)]
_BUDGET = typer.Option("--budget", help="How much work: smoke, cpu, night or paper.", callback=check_budget_name)
BudgetName = Annotated[str, _BUDGET]
OptionalBudget = Annotated[str | None, _BUDGET]

Target = TypeVar("Target", Path | None, str | None)

# Options of earlier versions, by command
OPTION_HINTS: dict[str, dict[str, str]] = {  # for options that other programs have under these names
    "audit": {"--eps": "Write --threat NORM:RADIUS instead of --eps, for example --threat linf:8/255."},
    "certify": {"--radius": "Write --threat NORM:RADIUS instead of --radius, for example --threat l2:36/255."},
    "train": {
        "--epochs": "Settings are written KEY=VALUE: epochs=3 instead of --epochs 3.",
        "--lr": "Settings are written KEY=VALUE: optimizer.lr=0.1 instead of --lr 0.1.",
        "--batch-size": "Settings are written KEY=VALUE: batch_size=64 instead of --batch-size 64.",
        "--width": "Settings are written KEY=VALUE: model.width=32 instead of --width 32.",
    },
}


def _drawable(path: Path | None) -> Path | None:
    """Refuse a file name that no chart can have before the command works for hours."""
    if path is not None:
        check_chart(path)
    return path


def writable(target: Target) -> Target:
    """Refuse a file that cannot be written before the command works for hours; ``-`` is stdout."""
    if target is not None and str(target) != "-":
        check_writable(Path(target))
    return target


def own_by_default(context: typer.Context, option: typer.CallbackParam, target: Path) -> Path:
    """As :func:`writable`; a file that the user did not name must be radii's own, if it exists.

    Args:
        target: the file that it names, or its default.
    """
    writable(target)
    source = context.get_parameter_source(str(option.name))
    if source is not None and source.name == "DEFAULT":
        check_default(target, option.opts[0])
    return target


def check_default(target: Path, option: str) -> None:
    """Refuse a file that the user did not name and radii did not write."""
    from radii.files import check_own

    check_own(target, f"write to another file by {option} FILE, or replace this one by {option} {target}")


Json = Annotated[
    str | None,
    typer.Option("--json", metavar="PATH|-", help="Write the result as JSON; - is stdout.", callback=writable),
]
Markdown = Annotated[
    str | None,
    typer.Option("--markdown", metavar="PATH|-", help="A comment for a pull request; - is stdout.", callback=writable),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write one offline page.", callback=writable)]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg, .pdf or .html.", callback=_drawable)
]


def open_store(folder: Path | None, device: str = "cpu") -> Store:
    """The run store that ``--store`` or the environment names."""
    from radii.runs.store import Store

    return Store.default(device) if folder is None else Store(folder, device)


@dataclass(frozen=True)
class ModelInterface:
    """What a user says of a MODEL beside its name: ``--mean``, ``--std``, ``--outputs`` and ``--trust``.

    A command with a parameter ``interface`` has these options; see :func:`with_shared`.

    Args:
        mean: subtracted from the pixels.
        std: by which pixels are divided.
    """

    mean: str | None = None
    std: str | None = None
    outputs: str = "auto"
    trust: list[str] | None = None


PLAIN = ModelInterface()


def open_model(
    reference: str,
    store: Store,
    data: DataSpec | None,
    interface: ModelInterface = PLAIN,
    weights: Path | None = None,
) -> ModelSource:
    """The model that MODEL and its options name."""
    from radii.runs.model_source import find_model

    mean, std = parse_normalization(interface.mean, interface.std)
    return find_model(
        reference, weights=weights, trust=interface.trust or (), store=store, data=data, mean=mean, std=std,
        outputs=interface.outputs,  # type: ignore[arg-type]  # checked by its option
    )  # fmt: skip


def suite_for(threat: Ball | Change, suite: str | None) -> str | None:
    """``suite``, or that of changes of images, which take no other."""
    if getattr(threat, "kind", None) is None:
        return suite
    if suite is not None:
        raise InputError(f"Changes of images are attacked by a grid of their strengths; leave --suite {suite} out.")
    return "grid"


def parse_threats(
    threats: Sequence[str], norm: str | None, usual: Mapping[str, Sequence[str]], default: str
) -> list[Ball]:
    """The balls that ``--threat`` or ``--norm`` name, all of one norm."""
    from radii.threat import Ball

    if threats and norm:
        raise InputError("Give either --threat NORM:RADIUS or --norm NORM, not both.")
    named = norm or default
    balls = [Ball.parse(text) for text in threats or [f"{named}:{radius}" for radius in usual.get(named, ("1",))]]
    if len({(ball.norm, ball.unit) for ball in balls}) > 1:
        raise InputError(f"All threats must have one norm and one unit, got {', '.join(map(str, balls))}.")
    return balls


Label = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="The label column of a CSV or parquet DATASET.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out images of DATASET that cannot be read.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No tables, no progress: only errors, and --json if asked.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print where an error comes from.")]
Latex = Annotated[
    Path | None, typer.Option("--latex", metavar="FILE", help="Write the tables as LaTeX.", callback=writable)
]
OF_TABLES: dict[str, tuple[Any, Any]] = {"latex": (Latex, None)}  # of every command that has --json
SHARED: dict[str, tuple[Any, Any]] = {"quiet": (Quiet, False), "verbose": (Verbose, False)}
OF_DATASETS: dict[str, tuple[Any, Any]] = {"label": (Label, None), "skip_bad": (SkipBad, False)}
OF_MODELS: dict[str, tuple[Any, Any]] = {
    "mean": (Mean, None), "std": (Std, None), "outputs": (ModelOutputs, "auto"), "trust": (Trust, None)
}  # fmt: skip


def with_shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options that every command has, and those of every command with a DATASET or a MODEL.

    ``--label COLUMN`` and ``--skip-bad`` are written behind the dataset's name, as ``+label:COLUMN`` and
    ``+skip-bad``, so that every run knows them. A parameter ``interface`` becomes the options of a MODEL.
    """
    signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    names = [name for name in ("dataset", "datasets") if name in signature.parameters]
    of_model = OF_MODELS if "interface" in signature.parameters else {}
    of_tables = OF_TABLES if "json" in signature.parameters else {}
    added = {**of_model, **of_tables, **(OF_DATASETS if names else {}), **SHARED}
    added = {name: option for name, option in added.items() if name not in signature.parameters}

    @functools.wraps(function)
    def command(*args: Any, **values: Any) -> Any:
        said = {name: values.pop(name, None) for name in added}
        terminal.set_verbosity(quiet=bool(said["quiet"]), verbose=bool(said["verbose"]))
        ending = (f"+label:{said['label']}" if said.get("label") else "") + (
            "+skip-bad" if said.get("skip_bad") else ""
        )
        for name in names:
            value = values.get(name)
            if ending and value:
                values[name] = [each + ending for each in value] if isinstance(value, list) else value + ending
        if of_model:
            values["interface"] = ModelInterface(**{name: said[name] for name in of_model})
        _check_words(values, function.__name__)
        try:
            return function(*args, **values)
        finally:
            if said.get("latex") is not None:
                terminal.write_latex(said["latex"])

    parameters = [each for each in signature.parameters.values() if each.name != "interface"]
    own = [each.replace(annotation=hints[each.name]) for each in parameters]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    command.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    hints.pop("interface", None)
    command.__annotations__ = hints | {name: annotation for name, (annotation, _) in added.items()}
    return command


def _check_words(values: Mapping[str, Any], command: str) -> None:
    """Refuse a wrong threat, requirement, dataset or model among a command's values.

    Args:
        values: by the names of the command's parameters.
        command: its name; only those of ``TAKE_CHANGES`` take changes of images as threats.
    """
    from radii.change import threat_of
    from radii.sparse_threat import attack_threat_of
    from radii.threat import Ball

    def typed(*names: str) -> list[str]:
        return [text for name in names for text in _each(values.get(name)) if text]

    for text in typed("threat"):
        if command == "attack":
            attack_threat_of(text)
        else:
            threat_of(text) if command in TAKE_CHANGES else Ball.parse(text)
    if requirements := typed("require"):
        from radii.evaluation.requirement import Requirement

        for text in requirements:
            Requirement.parse(text)
    if datasets := typed("dataset", "datasets", "extra", "on"):
        from radii.data.sources import check_name

        for text in datasets:
            check_name(text)
    if "interface" in values and "nearest" not in (values.get("model"), *typed("method")):
        _check_models(values, typed("surrogate"))


def _check_models(values: Mapping[str, Any], others: list[str]) -> None:
    """Refuse a wrong MODEL, ``--weights``, ``--mean`` or ``--std``."""
    from radii.models.io import check_model_name

    parse_normalization(values["interface"].mean, values["interface"].std)
    names, weights = _each(values.get("model")), _each(values.get("weights"))
    weights += [None] * (len(names) + len(others) - len(weights))
    for name, own in zip([*names, *others], weights, strict=False):
        check_model_name(name, own, open_store(values.get("store")).named)


def parse_normalization(mean: str | None, std: str | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std per channel from the words of a user; empty where nothing is said.

    >>> parse_normalization("0.5", "0.25")
    ((0.5,), (0.25,))
    """
    if mean is not None and std is None and mean in NORMALIZATIONS:
        return NORMALIZATIONS[mean]
    means = () if mean is None else _numbers(mean, "--mean", 0)
    stds = () if std is None else _numbers(std, "--std", 1)
    if any(value <= 0 for value in stds):
        raise InputError(f"--std must be positive in every channel, got {std} instead.")
    return means, stds


def _numbers(text: str, option: str, place: int) -> tuple[float, ...]:
    if text in NORMALIZATIONS:
        return NORMALIZATIONS[text][place]
    try:
        values = tuple(parse_number(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(isfinite(value) for value in values):
        names = ", ".join(NORMALIZATIONS)
        raise InputError(f"{option} must be one of {names}, or numbers as 0.485,0.456,0.406, got {text!r} instead.")
    return values


def option_hint(command: str, option: str) -> str | None:
    """The sentence for an option that is written in another way here; None for others."""
    return next((OPTION_HINTS[word][option] for word in command.split() if option in OPTION_HINTS.get(word, {})), None)
