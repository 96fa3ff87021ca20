"""``radii gate``: does a model reach its floors? Exit code 1 below one; decided on few points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from radii.cli import options, terminal
from radii.cli.evaluate import model_name

if TYPE_CHECKING:
    from radii.evaluation.gate_result import GateResult


def gate(
    model: options.ModelName,
    dataset: options.DatasetName,
    require: Annotated[
        list[str],
        typer.Option("--require", help='"clean>=0.9", "robust(linf:8/255)>=0.45", "proved(l2:0.5)>=0.3". Repeatable.'),
    ],
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The --json of a former gate: a significant drop fails, too.")
    ] = None,
    alpha: options.Alpha = 0.05,
    beta: Annotated[float, typer.Option(help="Misses at most, a margin below a floor.")] = 0.05,
    margin: Annotated[float, typer.Option(help="Zone below a floor in which either answer may come.")] = 0.05,
    least: Annotated[
        int, typer.Option(min=1, help="Points to measure in any case; more let the next gate notice smaller drops.")
    ] = 100,
    suite: options.OptionalSuite = None,
    points: options.OptionalPoints = None,
    weights: options.Weights = None,
    interface: options.ModelInterface = options.PLAIN,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    json: options.Json = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="JUnit XML.", callback=options.writable)] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A comment for a pull request.", callback=options.writable)
    ] = None,
    badge: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON for a shields.io badge.", callback=options.writable)
    ] = None,
) -> None:
    """Test requirements on points in random order until each is decided; exit code 1 if one fails."""
    from pydantic import ValidationError

    from radii.attacks.suite import members
    from radii.evaluation.gate_result import GateResult
    from radii.evaluation.requirement import Requirement
    from radii.runs.inputs import DataSpec
    from radii.runs.steps import Gate
    from radii.runs.steps.gate_step import FormerGate
    from radii.spec import explain

    for text in require:  # what is written wrong is reported before anything is loaded
        Requirement.parse(text)
    members(suite or "standard")
    folder = options.open_store(store, device)
    former = None if against is None else FormerGate.of(against)
    data = DataSpec.of(dataset)
    source = options.open_model(model, folder, data, interface, weights)
    suite = suite or ("black-box" if getattr(source, "answers_only", False) else "standard")
    try:
        step = Gate(
            model=source, data=data, requirements=tuple(require), alpha=alpha, beta=beta,
            margin=margin, suite=suite, least=least, points=points, seed=seed, against=former,
        )  # fmt: skip
    except ValidationError as error:
        raise explain(error, "gate") from error
    with terminal.progress_shown():
        run, seconds = terminal.compute(step, folder)
    result, setup = GateResult.of(run.result, run.id), {**run.result["setup"], "model": model_name(source)}
    console = terminal.show(json)
    console.print(terminal.table(result.table(f"{setup['model']} on {dataset}")))
    for own in result.results:
        console.print(escape(f"{own.requirement}: {own.sentence()}"), soft_wrap=True)
    console.print(f"{result.promise()} run {run.id}, seconds {seconds}", soft_wrap=True)
    terminal.write_json({**run.result, "setup": setup, "run": run.id, "environment": run.environment}, json)
    _write_files(result, setup, run.environment["seconds"], junit, markdown, badge)
    if not result.passed:
        raise typer.Exit(1)


def _write_files(
    result: GateResult,
    setup: Mapping[str, Any],
    seconds: float,
    junit: Path | None,
    markdown: Path | None,
    badge: Path | None,
) -> None:
    from json import dumps

    from radii.atomic import write_whole
    from radii.report import gate_files

    if junit is not None:
        write_whole(junit, gate_files.junit(result, setup, seconds).encode(errors="replace"))
    if markdown is not None:
        write_whole(markdown, gate_files.markdown(result, setup).encode(errors="replace"))
    if badge is not None:
        write_whole(badge, (dumps(gate_files.badge(result), ensure_ascii=False) + "\n").encode())
