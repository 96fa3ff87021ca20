"""The options that commands share: one name, one type, one meaning."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from radii.atomic import check_chart, check_writable
from radii.cli import terminal
from radii.errors import InputError

if TYPE_CHECKING:
    from radii.runs.inputs import DataSpec
    from radii.runs.model_source import ModelSource
    from radii.runs.store import Store
    from radii.threat import Ball

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
Threat = Annotated[str, typer.Option("--threat", help=f"{_THREAT}.")]
OptionalThreat = Annotated[str | None, typer.Option("--threat", help=f"{_THREAT}.")]
Threats = Annotated[list[str] | None, typer.Option("--threat", help=f"{_THREAT}; may be repeated.")]
NormName = Annotated[str | None, typer.Option("--norm", help="l1, l2 or linf, at its usual radius; not with --threat.")]
_POINTS = typer.Option("--points", min=1, help="Class-balanced points of a split; all if it has fewer.")
Points = Annotated[int, _POINTS]
OptionalPoints = Annotated[int | None, _POINTS]
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
ModelOutputs = Annotated[str, typer.Option("--outputs", help="What MODEL returns: auto, logits or probabilities.")]
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
    typer.Option("--workers", min=0, help="Worker processes; 0 computes in this process; one per core by default."),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of this process; all cores by default.")]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", metavar="FOLDER", help="Folder of runs; $RADII_RUNS or ./radii-runs.")
]
_SUITE = typer.Option("--suite", help="Attacks: fast, standard, sampled, exhaustive, black-box or pgd.")
Suite = Annotated[str, _SUITE]
OptionalSuite = Annotated[str | None, _SUITE]
Complete = Annotated[
    float,
    typer.Option(
        "--complete", min=0, metavar="SECONDS", help="Complete verification of each point, for so many seconds at most."
    ),
]
Alpha = Annotated[float, typer.Option("--alpha", help="Largest probability of a wrong statement.")]
_SECONDS = typer.Option("--seconds", min=0.001, help="Time limit of each complete search.")
SearchSeconds = Annotated[float, _SECONDS]
OptionalSearchSeconds = Annotated[float | None, _SECONDS]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random stream.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.")]
_BUDGET = typer.Option("--budget", help="How much work: smoke, cpu, night or paper.")
BudgetName = Annotated[str, _BUDGET]
OptionalBudget = Annotated[str | None, _BUDGET]

Target = TypeVar("Target", Path | None, str | None)

# Options of earlier versions, by command
RENAMED: dict[str, dict[str, str]] = {
    "audit": {
        "--eps": "Write --threat NORM:RADIUS instead of --eps, for example --threat linf:8/255.",
        "--workers": "Write --threads instead of --workers: an audit has threads, not processes.",
        "--work": "Leave out --work: a killed audit continues by itself.",
    },
    "certify": {
        "--radius": "Write --threat NORM:RADIUS instead of --radius, for example --threat l2:36/255.",
        "--most": "Write --samples instead of --most.",
        "--together": "Write --simultaneous instead of --together.",
        "--no-proof": "Write --no-prove instead of --no-proof.",
    },
    "train": {
        "--epochs": "Settings are written KEY=VALUE: epochs=3 instead of --epochs 3.",
        "--lr": "Settings are written KEY=VALUE: optimizer.lr=0.1 instead of --lr 0.1.",
        "--batch-size": "Settings are written KEY=VALUE: batch_size=64 instead of --batch-size 64.",
        "--width": "Settings are written KEY=VALUE: model.width=32 instead of --width 32.",
    },
    "study": {"--out": "Write --store FOLDER instead of --out."},
}


def _drawable(path: Path | None) -> Path | None:
    """Refuse a file name that no chart can have before the command works for hours."""
    if path is not None:
        check_chart(path)
    return path


def writable(target: Target) -> Target:
    """Refuse a file that cannot be written before the command works for hours; ``-`` is stdout.

    Args:
        target: the file that an option names.

    Returns:
        The same file.
    """
    if target is not None and str(target) != "-":
        check_writable(Path(target))
    return target


Json = Annotated[
    str | None,
    typer.Option("--json", metavar="PATH|-", help="Write the result as JSON; - is stdout.", callback=writable),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg, .pdf or .html.", callback=_drawable)
]


def open_store(folder: Path | None, device: str = "cpu") -> Store:
    """The run store that ``--store`` or the environment names.

    Args:
        folder: the value of ``--store``.
        device: where networks are trained.
    """
    from radii.runs.store import Store

    return Store.default(device) if folder is None else Store(folder, device)


@dataclass(frozen=True)
class ModelInterface:
    """What a user says of a MODEL beside its name: ``--mean``, ``--std``, ``--outputs`` and ``--trust``.

    A command with a parameter ``interface`` has these options; see :func:`with_shared`.

    Args:
        mean: subtracted from the pixels.
        std: by which pixels are divided.
        outputs: what the model returns: auto, logits or probabilities.
        trust: import paths and files whose code may run.
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
    """The model that MODEL and its options name.

    Args:
        reference: MODEL as typed.
        store: where runs are looked up.
        data: what the model is used on.
        interface: the options of the model.
        weights: the value of ``--weights``.

    Returns:
        Where the model comes from, checked.

    Raises:
        InputError: there is no such model, or an option cannot be read.
    """
    from radii.models.classifier import parse_normalization
    from radii.runs.model_source import find_model

    outputs = interface.outputs
    if outputs not in ("auto", "logits", "probabilities"):
        raise InputError(f"--outputs must be auto, logits or probabilities, got {outputs!r} instead.")
    mean, std = parse_normalization(interface.mean, interface.std)
    return find_model(
        reference, weights=weights, trust=interface.trust or (), store=store, data=data, mean=mean, std=std,
        outputs=outputs,  # type: ignore[arg-type]  # checked above
    )  # fmt: skip


def parse_threats(
    threats: Sequence[str], norm: str | None, usual: Mapping[str, Sequence[str]], default: str
) -> list[Ball]:
    """The balls that ``--threat`` or ``--norm`` name, all of one norm.

    Args:
        threats: values of ``--threat``.
        norm: the value of ``--norm``: the usual radii of that norm.
        usual: radii by norm.
        default: the norm if the user names neither.

    Raises:
        InputError: both are given, the norms differ, or a value cannot be read.
    """
    from radii.threat import Ball

    if threats and norm:
        raise InputError("Give either --threat NORM:RADIUS or --norm NORM, not both.")
    named = norm or default
    balls = [Ball.parse(text) for text in threats or [f"{named}:{radius}" for radius in usual.get(named, ("1",))]]
    if len({ball.norm for ball in balls}) > 1:
        raise InputError(f"All threats must have one norm, got {', '.join(map(str, balls))}.")
    return balls


Label = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="The label column of a CSV or parquet DATASET.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out images of DATASET that cannot be read.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No tables, no progress: only errors, and --json if asked.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print where an error comes from.")]
SHARED: dict[str, tuple[Any, Any]] = {"quiet": (Quiet, False), "verbose": (Verbose, False)}
OF_DATASETS: dict[str, tuple[Any, Any]] = {"label": (Label, None), "skip_bad": (SkipBad, False)}
OF_MODELS: dict[str, tuple[Any, Any]] = {
    "mean": (Mean, None), "std": (Std, None), "outputs": (ModelOutputs, "auto"), "trust": (Trust, None)
}  # fmt: skip


def with_shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options that every command has, and those of every command with a DATASET or a MODEL.

    ``--label COLUMN`` and ``--skip-bad`` are written behind the dataset's name, as ``+label:COLUMN`` and
    ``+skip-bad``, so that every run knows them. A parameter ``interface`` becomes the options of a MODEL.

    Args:
        function: the command.
    """
    signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    names = [name for name in ("dataset", "datasets") if name in signature.parameters]
    of_model = OF_MODELS if "interface" in signature.parameters else {}
    added = {**of_model, **(OF_DATASETS if names else {}), **SHARED}
    added = {name: option for name, option in added.items() if name not in signature.parameters}

    @functools.wraps(function)
    def command(*args: Any, **values: Any) -> Any:
        said = {name: values.pop(name, None) for name in added}
        terminal.set_manner(quiet=bool(said["quiet"]), verbose=bool(said["verbose"]))
        ending = (f"+label:{said['label']}" if said.get("label") else "") + (
            "+skip-bad" if said.get("skip_bad") else ""
        )
        for name in names:
            value = values.get(name)
            if ending and value:
                values[name] = [each + ending for each in value] if isinstance(value, list) else value + ending
        if of_model:
            values["interface"] = ModelInterface(**{name: said[name] for name in of_model})
        return function(*args, **values)

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


def renamed(command: str, option: str) -> str | None:
    """The sentence for an option that had another name in earlier versions; None for others.

    Args:
        command: as typed, for example ``radii certify``.
        option: with its hyphens.
    """
    return next((RENAMED[word][option] for word in command.split() if option in RENAMED.get(word, {})), None)
