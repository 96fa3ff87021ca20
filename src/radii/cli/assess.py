"""``radii assess``: from a dataset, and one's own models, to one report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from radii.cli import options, terminal
from radii.errors import InputError

if TYPE_CHECKING:
    from radii.report.live import LiveReport
    from radii.runs.model_source import ModelSource
    from radii.runs.store import Store
    from radii.studies.assess import Assessment, AssessmentPlan

LINGER = 10  # seconds in which a browser may fetch the finished page


def assess(
    dataset: options.DatasetName,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MODEL", help="Your own model, as in evaluate; may be repeated."),
    ] = None,
    weights: options.EveryWeights = None,
    interface: options.ModelInterface = options.PLAIN,
    references: Annotated[bool, typer.Option(help="Train radii's three classifiers and show them, too.")] = True,
    threat: options.OptionalThreatOrChange = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training data.", callback=options.between(1, options.MOST))
    ] = None,
    points: options.Points = 500,
    suite: options.Suite = "standard",
    forecast: Annotated[
        bool | None, typer.Option(help="Forecast what more data would bring; by default on small data only.")
    ] = None,
    complete: options.Complete = 0.0,
    require: options.OptionalRequire = None,
    corruptions: Annotated[
        bool, typer.Option("--corruptions", help="Add accuracies under fifteen common corruptions of images.")
    ] = False,
    workers: options.Workers = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The report, .html.", callback=options.own_by_default)
    ] = Path("report.html"),
    live: Annotated[bool, typer.Option("--live", help="Serve the growing report on this machine.")] = False,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    json: options.Json = None,
) -> None:
    """Measure a dataset, reference classifiers and your model; write one HTML report."""
    from radii.attacks.suite import members
    from radii.evaluation.requirement import Requirement
    from radii.files import write_sealed
    from radii.report.assessment import page
    from radii.report.html import render
    from radii.runs.executors import run_steps
    from radii.studies.assess import AssessmentRequest

    members(suite)  # what is written wrong is reported before anything is loaded
    for text in require or ():
        Requirement.parse(text)
    folder = options.open_store(store, device)
    own = _own_models(dataset, folder, model or [], weights or [], interface)
    request = AssessmentRequest(
        dataset, threat, own, references, epochs, points, suite, seed, forecast, complete, require or (), corruptions
    )
    with terminal.progress_shown():
        plan = request.plan(folder)
    console = terminal.show(json)
    if plan.why_threat:
        console.print(escape(f"Threat {plan.why_threat}. Choose another by --threat."), soft_wrap=True)
    with _serving(plan, folder) if live else nullcontext() as growing:
        with terminal.progress_shown():
            run_steps(plan.steps, folder, workers)
        assessment = plan.assessment(folder)
        text = render(page(assessment))
        write_sealed(out, text.encode())
        if growing is not None:
            growing.finish(text)
            growing.fetched.wait(LINGER)
    _print(assessment, out, json)


def _own_models(
    dataset: str,
    store: Store,
    names: list[str],
    weights: list[Path],
    interface: options.ModelInterface,
) -> dict[str, ModelSource]:
    """The user's models by the name that the report gives them."""
    from radii.cli.evaluate import model_name
    from radii.runs.component_specs import DataSpec

    if len(weights) > len(names):
        raise InputError(f"Every --weights belongs to a --model, got {len(weights)} and {len(names)} of them.")
    data, found = DataSpec.of(dataset), {}
    for number, name in enumerate(names):
        own = weights[number] if number < len(weights) else None
        source = options.open_model(name, store, data, interface, own)
        label = model_name(source)
        found[label if label not in found else f"{label} ({number + 1})"] = source
    return found


@contextmanager
def _serving(plan: AssessmentPlan, store: Store) -> Iterator[LiveReport]:
    """The growing report on loopback; its address is said on stderr."""
    from radii.report.live import LiveReport, served

    growing = LiveReport(plan, store)
    with served(growing) as address:
        terminal.errors.print(f"The growing report: {address}", soft_wrap=True)
        yield growing


def _print(assessment: Assessment, out: Path, json: str | None) -> None:
    """Table, verdict and the place of the report, for people; all figures as JSON."""
    from radii.report.assessment import published_sections
    from radii.report.findings import verdict

    console = terminal.show(json)
    columns = ("classifier", "clean", "proved", "unbroken", "proved_radius", "broken_radius")
    console.print(terminal.table(assessment.table().select(*columns)))
    console.print(escape(verdict(assessment)), soft_wrap=True)
    for warning in assessment.warnings:
        console.print(escape(f"Warning: {warning}"), soft_wrap=True)
    if assessment.forecast is not None:
        outlook = assessment.forecast if isinstance(assessment.forecast, str) else assessment.forecast.verdict
        console.print(escape(f"What more data would bring: {outlook}"), soft_wrap=True)
    console.print(f"report: {escape(str(out))}")
    extra = {name: section.rows() for name, section in published_sections(assessment).items()}
    terminal.write_json(assessment.summary() | extra, json)
