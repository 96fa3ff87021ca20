"""``radii study``: list, run, resume and show studies, published ones and your own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape

from radii.cli import options, terminal
from radii.errors import InputError
from radii.tables import listing

if TYPE_CHECKING:
    from radii.budget import Budget
    from radii.runs.step import Step
    from radii.runs.store import Store
    from radii.studies.plan import StudyPlan
    from radii.studies.results import Evidence, Failure
    from radii.studies.runner import Request, StudyObserver
    from radii.studies.study import Study

app = typer.Typer(
    help="Run studies, published ones and your own; nothing is computed twice.",
    no_args_is_help=True,
    add_completion=False,
)

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Studies by name, or TOML files.")]
OptionalName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The most recent one if none is named.")]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="[WORDS]...", help="Only those of a paper and place: table 2, figure 3.")
]
OnlySteps = Annotated[list[str] | None, typer.Option("--step", metavar="RUN", help="Only this step and its inputs.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="List the steps and the expected time; compute and decode nothing."),
]


@app.command("list")
def list_(words: Words = None, store: options.StoreFolder = None, json: options.Json = None) -> None:
    """The studies there are, and what is measured of each; with words, those of a paper, a figure or a table."""
    from radii.studies.citations import cites
    from radii.studies.runner import find_study
    from radii.studies.study import STUDIES, study_records

    folder = options.open_store(store)
    own = [record.reference for record in study_records(folder) if record.name not in STUDIES]
    console, entries = terminal.show(json), []
    for name in [*STUDIES, *own]:
        try:
            study = find_study(name, folder)
            if not words or cites(f"{study.source}; {study.name} {study.title}", words):
                entries.append(_entry(study, folder))
        except InputError as error:  # a file that is gone, was changed, or runs code of its own
            terminal.complain(str(error))
    if words and not entries:
        raise InputError(
            f"No study is about {' '.join(words)!r}. `radii study list` has all of them with their sources."
        )
    for entry in entries:
        console.print(f"[bold]{entry['name']}[/]  {escape(entry['title'])}  [dim]{escape(entry['source'])}[/]")
        for budget, counts in entry["budgets"].items():
            total, count, data = counts["cells"], counts["measured"], counts["data"]
            cells = "cells not counted" if total is None else f"{total} cells"
            measured = f"{count} measured ({counts['origin']})" if count else "nothing measured"
            console.print(f"    {budget:<6} {cells}, {measured}{f'; {escape(data)}' if data else ''}")
    terminal.write_json({"studies": entries}, json)


def _entry(study: Study, store: Store) -> dict[str, Any]:
    """A study and, for every budget, its cells, what is measured, and what is missing of its data."""
    from radii.studies.results import latest

    budgets = {}
    for budget in study.budgets:
        evidence = latest(study, budget, store)
        cells, data = (evidence.planned, "") if evidence is not None else _planned(study, budget)
        measured = len(evidence.measured) if evidence is not None else 0
        origin = "" if evidence is None or not measured else "shipped" if evidence.shipped else "your own"
        budgets[budget] = {"cells": cells, "measured": measured, "origin": origin, "data": data}
    return {"name": study.name, "title": study.title, "source": study.source, "budgets": budgets}


def _planned(study: Study, budget: Budget) -> tuple[int | None, str]:
    """The number of cells, and what is missing of their data; nothing is fetched or decoded."""
    from radii.data.sources import only_local
    from radii.studies.plan import undecoded

    try:
        with only_local(decoded=True):
            steps = [cell.step for cell in study.cells(budget)]
    except InputError as error:
        return None, str(error)
    names = undecoded(steps)
    return len(steps), f"not decoded yet: {', '.join(names)}" if names else ""


@app.command()
def run(
    names: Names,
    budget: options.BudgetName = "cpu",
    executor: options.ExecutorName = "processes",
    address: options.Address = None,
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
    from radii.studies.study import check_study

    folder = options.open_store(store, device)
    for name in names:
        check_study(name, folder)
    from radii.studies.runner import Request

    only, trusted = tuple(step or ()), tuple(trust or ())
    request = Request(tuple(names), cast("Budget", budget), executor, workers, address, only, trusted)
    _run(request, folder, dry_run, json, plot)


@app.command()
def resume(
    name: OptionalName = None,
    budget: options.OptionalBudget = None,
    executor: options.ExecutorName = "processes",
    address: options.Address = None,
    workers: options.Workers = None,
    plot: options.Plot = None,
    device: options.Device = "cpu",
    trust: options.Trust = None,
    store: options.StoreFolder = None,
    json: options.Json = None,
) -> None:
    """Go on with a study that was interrupted or has failed steps."""
    from radii.studies.study import study_records

    folder = options.open_store(store, device)
    records = [record for record in study_records(folder) if name in (None, record.name, record.reference)]
    if not records:
        subject = f"The study {name!r} was never started" if name else "No study was started"
        raise InputError(f"{subject} in {folder.root}; `radii study run NAME` starts one.")
    at = records[0].budget if budget is None else cast("Budget", budget)
    from radii.studies.runner import Request

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
    from radii.studies.study import check_study

    _check_further_charts(plot)
    folder = options.open_store(store)
    check_study(name, folder)
    from radii.studies.results import latest
    from radii.studies.runner import find_study

    study = find_study(name, folder, trust or ())
    evidence = latest(study, cast("Budget | None", budget), folder)
    if evidence is None or not evidence.measured:
        raise InputError(f"Nothing is measured of {study.name} yet; `radii study run {name}` does it.")
    command = f"radii study run {name} --budget {evidence.budget}"
    terminal.write_json(_print_study(study, evidence, command, json, plot), json)


def _check_further_charts(plot: Path | None) -> None:
    """Refuse numbered charts beside ``plot`` that radii did not write: their names were not typed."""
    from radii.files import check_own

    if plot is None:
        return
    numbered = re.compile(rf"{re.escape(plot.stem)}-\d+{re.escape(plot.suffix)}")
    for path in plot.parent.iterdir() if plot.parent.is_dir() else ():
        if numbered.fullmatch(path.name):
            check_own(path, "further charts would replace it: choose another name by --plot FILE")


def _run(request: Request, store: Store, dry: bool, json: str | None, plot: Path | None) -> None:
    from radii.studies.runner import find_study, run_studies

    _check_further_charts(plot)
    studies = [find_study(name, store, request.trust) for name in request.references]
    if dry:
        _dry_run(studies, request, store, json)
        return
    with terminal.progress_shown():
        evidence = run_studies(studies, request, store, _progress())
    contents = [
        _print_study(study, own, request.command(), json, plot) for study, own in zip(studies, evidence, strict=True)
    ]
    failures = list({failure.run: failure for own in evidence for failure in own.failures}.values())
    _print_failures(failures, json)
    terminal.write_json({"studies": contents, "failures": [asdict(failure) for failure in failures]}, json)
    if failures:
        raise typer.Exit(1)


def _dry_run(studies: Sequence[Study], request: Request, store: Store, json: str | None) -> None:
    """Print the plan and the expected time; nothing is computed, fetched or decoded."""
    from radii.data.sources import only_local
    from radii.studies.plan import StepTimes, plan_studies

    with only_local(decoded=True):
        study_plan = plan_studies(studies, request.budget, store, StepTimes.known(store), request.only)
    _print_plan(study_plan, request.start_executor().width(), json)


def _print_plan(plan: StudyPlan, workers: int, json: str | None) -> None:
    """The steps with the time they took or are expected to take."""
    from radii.studies.plan import UNKNOWN, format_duration, undecoded

    several = len({name for names in plan.studies.values() for name in names}) > 1
    rows, content = [], []
    for step in plan.steps:
        named, done, seconds = not undecoded([step]), plan.store.is_done(step), plan.seconds(step)
        what, studies = step.describe(), plan.studies[step.run_id]
        rows.append(
            (
                _short(step.run_id) if named else "no name yet",
                what,
                UNKNOWN if seconds is None else format_duration(seconds),
                "done" if done else "to do",
                *([", ".join(studies)] if several else []),
            )
        )
        run = step.run_id if named else None
        content.append({"run": run, "what": what, "studies": studies, "done": done, "seconds": seconds})
    console = terminal.show(json)
    console.print(terminal.table(listing("Steps", ("run", "step", "time", "", *(["for"] if several else [])), rows)))
    console.print(_estimate(plan, plan.time_left(workers)))
    if names := undecoded(plan.steps):
        console.print(f"Not decoded yet: {', '.join(names)}. Their runs get names when a run decodes them.")
    left, unknown = plan.seconds_left(workers)
    figures = {"todo": len(plan.todo), "seconds": left, "unknown": unknown, "undecoded": list(undecoded(plan.steps))}
    terminal.write_json({"steps": content, **figures}, json)


def _short(run_id: str) -> str:
    """The beginning of a run's name that tells it from others; commands accept it."""
    kind, _, digits = run_id.rpartition("-")
    return f"{kind}-{digits[:8]}"


def _estimate(plan: StudyPlan, left: str) -> str:
    todo = len(plan.todo)
    if not todo:
        return f"{len(plan.steps)} steps, all done."
    return f"{len(plan.steps)} steps, {len(plan.steps) - todo} done; expected time for the rest: {left}."


def _progress() -> StudyObserver:
    """An observer that prints the plan's size and one line for every step that ended, on stderr."""
    from radii.studies.plan import format_duration
    from radii.studies.runner import StudyObserver

    class Progress(StudyObserver):
        count = 0

        def planned(self, plan: StudyPlan, left: str) -> None:
            terminal.errors.print(_estimate(plan, left))

        def step_ended(self, step: Step, seconds: float | None, left: str) -> None:
            self.count += 1
            time = "[bold red]failed[/]" if seconds is None else format_duration(seconds)
            what = escape(step.describe())
            terminal.errors.print(f"{self.count:>4}  {what}  {time}  [dim]left: {left}[/]", soft_wrap=True)

    return Progress()


def _print_failures(failures: Sequence[Failure], json: str | None) -> None:
    if not failures:
        return
    console = terminal.show(json)
    failed = "A step" if len(failures) == 1 else f"{len(failures)} steps"
    console.print(f"[bold red]{failed} failed[/]; what was measured is kept.")
    for failure in failures:
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
