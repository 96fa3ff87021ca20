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
    require: options.Require,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The --json of a former gate: a significant drop fails, too.")
    ] = None,
    alpha: options.Alpha = 0.05,
    beta: Annotated[
        float,
        typer.Option(
            help="Largest chance to pass a model that is --margin below its floor.",
            callback=options.between(1e-12, 0.5),
        ),
    ] = 0.05,
    margin: Annotated[
        float,
        typer.Option(help="How far below its floor a model may be and still pass.", callback=options.between(0, 1)),
    ] = 0.05,
    least: Annotated[
        int,
        typer.Option(
            help="Points to measure in any case; more let the next gate notice smaller drops.",
            callback=options.between(1, options.MOST),
        ),
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
    markdown: options.Markdown = None,
    badge: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON for a shields.io badge.", callback=options.writable)
    ] = None,
) -> None:
    """Test requirements on points in random order until each is decided; exit code 1 if one fails."""
    from pydantic import ValidationError

    from radii.attacks.suite import members
    from radii.evaluation.requirement import Requirement
    from radii.runs.component_specs import DataSpec
    from radii.runs.steps import Gate
    from radii.runs.steps.gate_step import FormerGate
    from radii.spec import explain

    terminal.check_one_stdout(json, markdown)
    for text in require:  # what is written wrong is reported before anything is loaded
        Requirement.parse(text)
    members(suite or "standard")
    folder = options.open_store(store, device)
    former = None if against is None else FormerGate.of(against)
    data = DataSpec.of(dataset)
    source = options.open_model(model, folder, data, interface, weights)
    suite = suite or (getattr(source, "suite", "") or "standard")
    try:
        step = Gate(
            model=source, data=data, requirements=tuple(require), alpha=alpha, beta=beta,
            margin=margin, suite=suite, least=least, points=points, seed=seed, against=former,
        )  # fmt: skip
    except ValidationError as error:
        raise explain(error, "gate") from error
    with terminal.progress_shown():
        run, seconds = terminal.compute(step, folder)
    whole = run.read(Gate.Result)
    result, setup = whole.gate, whole.setup.model_dump() | {"model": model_name(source)}
    console = terminal.show("-" if markdown == "-" else json)
    console.print(terminal.table(result.table(f"{setup['model']} on {dataset}")))
    for own in result.results:
        console.print(escape(f"{own.requirement}: {own.sentence()}"), soft_wrap=True)
    console.print(f"{result.promise()} run {run.id}, seconds {seconds}", soft_wrap=True)
    terminal.write_json({**whole.to_json(), "setup": setup, "run": run.id, "environment": run.environment}, json)
    _write_files(result, setup, run.environment["seconds"], junit, markdown, badge)
    if not result.passed:
        raise typer.Exit(1)


def _write_files(
    result: GateResult,
    setup: Mapping[str, Any],
    seconds: float,
    junit: Path | None,
    markdown: str | None,
    badge: Path | None,
) -> None:
    from json import dumps

    from radii.files import write_whole
    from radii.report import result_files

    if junit is not None:
        write_whole(junit, result_files.junit(result, setup, seconds).encode(errors="replace"))
    if markdown is not None:
        terminal.write_plain(result_files.markdown(result, setup), markdown)
    if badge is not None:
        write_whole(badge, (dumps(result_files.badge(result), ensure_ascii=False) + "\n").encode())
