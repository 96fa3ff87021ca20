"""``radii study``: list, run, resume and show the papers' experiments and your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from radii.cli import options, terminal
from radii.errors import InputError
from radii.tables import listing

if TYPE_CHECKING:
    from radii.runs.store import Store
    from radii.studies.plan import PlannedStep, StudyPlan, TimeLeft
    from radii.studies.results import Evidence
    from radii.studies.runner import Outcome, Request, StudyObserver
    from radii.studies.study import Study

app = typer.Typer(
    help="Run the papers' studies and your own; nothing is computed twice.", no_args_is_help=True, add_completion=False
)

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Studies by name, or TOML files.")]
OptionalName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The most recent one if none is named.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="processes, inline, ray or ray:local.")]
Address = Annotated[str | None, typer.Option("--address", help="HOST:PORT of a Ray head, with --executor ray.")]
OnlySteps = Annotated[list[str] | None, typer.Option("--step", metavar="RUN", help="Only this step and its inputs.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="List the steps and the expected time, measured on a few batches if need be."),
]


@app.command("list")
def list_(store: options.StoreFolder = None, json: options.Json = None) -> None:
    """The studies there are, and what is measured of each."""
    from radii.studies.study import STUDIES
    from radii.studies.study_lookup import find_study, study_records

    folder = options.open_store(store)
    own = [record.reference for record in study_records(folder) if record.name not in STUDIES]
    console, entries = terminal.show(json), []
    for name in [*STUDIES, *own]:
        try:
            entries.append(_entry(find_study(name, folder), folder))
        except InputError as error:  # a file that is gone, was changed, or runs code of its own
            terminal.complain(str(error))
    for entry in entries:
        console.print(f"[bold]{entry['name']}[/]  {escape(entry['title'])}  [dim]{escape(entry['source'])}[/]")
        for budget, counts in entry["budgets"].items():
            total = counts["cells"]
            cells = "cells not counted: its data is not here" if total is None else f"{total} cells"
            count = counts["measured"]
            measured = f"{count} measured ({counts['origin']})" if count else "nothing measured"
            console.print(f"    {budget:<6} {cells}, {measured}")
    terminal.write_json(entries, json)


def _entry(study: Study, store: Store) -> dict[str, Any]:
    """A study and, for every budget, its cells and what is measured."""
    from radii.data.sources import only_local
    from radii.studies.results import latest

    budgets = {}
    for budget in study.budgets:
        evidence = latest(study, budget, store)
        try:
            with only_local(decoded=True):
                cells = evidence.planned if evidence is not None else len(study.cells(budget))
        except InputError:
            cells = None
        measured = len(evidence.measured) if evidence is not None else 0
        origin = "" if evidence is None or not measured else "shipped" if evidence.shipped else "your own"
        budgets[budget] = {"cells": cells, "measured": measured, "origin": origin}
    return {"name": study.name, "title": study.title, "source": study.source, "budgets": budgets}


@app.command()
def run(
    names: Names,
    budget: options.BudgetName = "cpu",
    executor: ExecutorName = "processes",
    address: Address = None,
    workers: options.Workers = None,
    step: OnlySteps = None,
    dry_run: DryRun = False,
    plot: options.Plot = None,
    device: options.Device = "cpu",
    trust: options.Trust = None,
    store: options.StoreFolder = None,
    json: options.Json = None,
) -> None:
    """Compute what is missing of one or several studies; steps that they share are computed once."""
    from radii.budget import check_budget
    from radii.studies.runner import Request

    only, trusted = tuple(step or ()), tuple(trust or ())
    request = Request(tuple(names), check_budget(budget), executor, workers, address, only, trusted)
    _run(request, options.open_store(store, device), dry_run, json, plot)


@app.command()
def resume(
    name: OptionalName = None,
    budget: options.OptionalBudget = None,
    executor: ExecutorName = "processes",
    address: Address = None,
    workers: options.Workers = None,
    plot: options.Plot = None,
    device: options.Device = "cpu",
    trust: options.Trust = None,
    store: options.StoreFolder = None,
    json: options.Json = None,
) -> None:
    """Go on with a study that was interrupted or has failed steps."""
    from radii.budget import check_budget
    from radii.studies.runner import Request
    from radii.studies.study_lookup import study_records

    folder = options.open_store(store, device)
    records = [record for record in study_records(folder) if name in (None, record.name, record.reference)]
    if not records:
        subject = f"The study {name!r} was never started" if name else "No study was started"
        raise InputError(f"{subject} in {folder.root}; `radii study run NAME` starts one.")
    at = records[0].budget if budget is None else check_budget(budget)
    request = Request((records[0].reference,), at, executor, workers, address, (), tuple(trust or ()))
    _run(request, folder, False, json, plot)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A study by name, or a TOML file.")],
    budget: options.OptionalBudget = None,
    plot: options.Plot = None,
    trust: options.Trust = None,
    store: options.StoreFolder = None,
    json: options.Json = None,
) -> None:
    """What a study found: its table, as far as it is measured; with --plot its charts."""
    from radii.budget import check_budget
    from radii.studies.results import latest
    from radii.studies.study_lookup import find_study

    at, folder = None if budget is None else check_budget(budget), options.open_store(store)
    study = find_study(name, folder, trust or ())
    evidence = latest(study, at, folder)
    if evidence is None or not evidence.measured:
        raise InputError(f"Nothing is measured of {study.name} yet; `radii study run {name}` does it.")
    command = f"radii study run {name} --budget {evidence.budget}"
    terminal.write_json(_print_study(study, evidence, command, json, plot), json)


def _run(request: Request, store: Store, dry: bool, json: str | None, plot: Path | None) -> None:
    from radii.studies.runner import run_studies
    from radii.studies.study_lookup import find_study

    studies = [find_study(name, store, request.trust) for name in request.references]
    if dry:
        _dry_run(studies, request, store, json)
        return
    with terminal.progress_shown():
        outcome = run_studies(studies, request, store, _progress())
    contents = [
        _print_study(study, evidence, request.command(), json, plot)
        for study, evidence in zip(studies, outcome.evidence, strict=True)
    ]
    _print_failures(outcome, json)
    failures = [asdict(failure) for failure in outcome.failures]
    terminal.write_json({"studies": contents, "failures": failures}, json)
    if outcome.failures:
        raise typer.Exit(1)


def _dry_run(studies: Sequence[Study], request: Request, store: Store, json: str | None) -> None:
    """Print the plan and the expected time; steps like nothing measured are timed on a few batches."""
    from radii.data.sources import only_local
    from radii.studies.plan import StepTimes, plan_studies

    with only_local(), terminal.progress_shown():
        times = StepTimes.known(store)
        study_plan = plan_studies(studies, request.budget, store, times, request.only, rehearsed=True)
        on_gpu = None
        if request.budget in ("night", "paper"):
            from radii.studies.operation_count import gpu_seconds

            on_gpu = gpu_seconds(planned.step for planned in study_plan.todo)
    _print_plan(study_plan, study_plan.time_left(times, request.start_executor().width()), on_gpu, json)


def _print_plan(plan: StudyPlan, left: TimeLeft, on_gpu: float | None, json: str | None) -> None:
    """The steps with the time they took or are expected to take; ``on_gpu``: what one GPU would take."""
    from radii.studies.plan import format_duration

    several = len({name for planned in plan.steps for name in planned.studies}) > 1
    rows = [
        (
            _short(planned.step.run_id),
            planned.step.describe(),
            "unknown" if planned.seconds is None else format_duration(planned.seconds),
            "done" if planned.done else "to do",
            *([", ".join(planned.studies)] if several else []),
        )
        for planned in plan.steps
    ]
    console = terminal.show(json)
    console.print(terminal.table(listing("Steps", ("run", "step", "time", "", *(["for"] if several else [])), rows)))
    console.print(_estimate(plan, left))
    if on_gpu:
        from radii.studies.operation_count import KERNEL, THROUGHPUT

        console.print(
            f"On one GPU, by counted operations: about {format_duration(on_gpu)}. Assumed are {THROUGHPUT:.0e} "
            f"multiply-adds a second and {KERNEL * 1e6:.0f} µs to start a kernel; nothing was run on one."
        )
    content = {
        "steps": [
            {
                "run": planned.step.run_id,
                "what": planned.step.describe(),
                "studies": planned.studies,
                "done": planned.done,
                "seconds": planned.seconds,
            }
            for planned in plan.steps
        ],
        "todo": len(plan.todo),
        "seconds": left.seconds,
        "unknown": left.unknown,
        "gpu_seconds": on_gpu,
    }
    terminal.write_json(content, json)


def _short(run_id: str) -> str:
    """The beginning of a run's name that tells it from others; commands accept it."""
    kind, _, digits = run_id.rpartition("-")
    return f"{kind}-{digits[:8]}"


def _estimate(plan: StudyPlan, left: TimeLeft) -> str:
    done = len(plan.steps) - len(plan.todo)
    if not plan.todo:
        return f"{len(plan.steps)} steps, all done."
    return f"{len(plan.steps)} steps, {done} done; expected time for the rest: {left}."


def _progress() -> StudyObserver:
    """An observer that prints the plan's size and one line for every step that ended, on stderr."""
    from radii.studies.plan import format_duration
    from radii.studies.runner import StudyObserver

    class Progress(StudyObserver):
        count = 0

        def planned(self, plan: StudyPlan, left: TimeLeft) -> None:
            terminal.errors.print(_estimate(plan, left))

        def step_ended(self, step: PlannedStep, error: BaseException | None, left: TimeLeft) -> None:
            self.count += 1
            failed = error is not None or step.seconds is None
            time = "[bold red]failed[/]" if failed else format_duration(step.seconds or 0.0)
            what = escape(step.step.describe())
            terminal.errors.print(f"{self.count:>4}  {what}  {time}  [dim]{left} left[/]", soft_wrap=True)

    return Progress()


def _print_failures(outcome: Outcome, json: str | None) -> None:
    if not outcome.failures:
        return
    console = terminal.show(json)
    failed = "A step" if len(outcome.failures) == 1 else f"{len(outcome.failures)} steps"
    console.print(f"[bold red]{failed} failed[/]; what was measured is kept.")
    for failure in outcome.failures:
        console.print(f"  {escape(failure.what)}: {escape(failure.error)}", soft_wrap=True)
        console.print(f"    retry: {escape(failure.retry)}", soft_wrap=True)


def _print_study(study: Study, evidence: Evidence, command: str, json: str | None, plot: Path | None) -> dict[str, Any]:
    """Table on stdout, charts into files; the JSON content of the study."""
    from radii.report.study_page import save
    from radii.studies import results

    findings = study.analyze(evidence.measured)
    console = terminal.show(json)
    if findings.table.rows:
        title = f"{study.title} · {study.source} · budget {evidence.budget}"
        console.print(terminal.table(replace(findings.table, title=title)))
    missing = "" if evidence.complete else f", {evidence.planned - len(evidence.measured)} missing"
    cells = f"{len(evidence.measured)} of {evidence.planned} cells measured{missing}"
    console.print(f"{cells}; the runs took {evidence.duration}.")
    if plot is not None:
        for path in save(study, evidence, findings, command, plot):
            console.print(f"written: {escape(str(path))}")
    return results.to_json(evidence, study, command)
