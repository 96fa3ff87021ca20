"""``radii study``: list, run, resume and show the papers' experiments and your own."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from radii.atomic import check_writable
from radii.cli import terminal
from radii.cli.terminal import Device, Json, Plot, Trust
from radii.errors import InputError, unknown_name
from radii.tables import listing

if TYPE_CHECKING:
    from radii.runs.store import Store
    from radii.studies.plan import Line, Remaining, Survey
    from radii.studies.results import Evidence
    from radii.studies.runner import Outcome, Request
    from radii.studies.study import Study

app = typer.Typer(help="Run the papers' studies and your own; nothing is computed twice.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Studies by name, or TOML files.")]
Maybe = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The most recent one if none is named.")]
BudgetName = Annotated[str, typer.Option("--budget", help="smoke (seconds), cpu (up to an hour) or paper.")]
MaybeBudget = Annotated[str | None, typer.Option("--budget", help="smoke, cpu or paper; the greatest measured.")]
Where = Annotated[str, typer.Option("--executor", help="processes, here, ray or ray:local.")]
Address = Annotated[str | None, typer.Option(help="HOST:PORT of a Ray cluster's head, with --executor ray.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Steps side by side; one per core.")]
Only = Annotated[list[str] | None, typer.Option("--step", metavar="RUN", help="Only this step and its inputs.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="List the steps and the expected time; compute nothing.")]
Out = Annotated[Path | None, typer.Option(help="Folder of runs; $RADII_RUNS or ./radii-runs.")]


@app.command("list")
def list_(out: Out = None, json: Json = None) -> None:
    """The studies there are, and what is measured of each."""
    from radii.studies.started import named, started
    from radii.studies.study import STUDIES

    store = _store(out)
    own = [record.reference for record in started(store) if record.name not in STUDIES]
    console, found = terminal.show(json), []
    for name in [*STUDIES, *own]:
        try:
            found.append(_entry(named(name, store), store))
        except InputError as error:  # a file that is gone, was changed, or runs code of its own
            terminal.complain(str(error))
    for entry in found:
        console.print(f"[bold]{entry['name']}[/]  {escape(entry['title'])}  [dim]{escape(entry['source'])}[/]")
        for budget, told in entry["budgets"].items():
            cells = "cells not counted: its data is not here" if told["cells"] is None else f"{told['cells']} cells"
            measured = f"{told['measured']} measured ({told['origin']})" if told["measured"] else "nothing measured"
            console.print(f"    {budget:<6} {cells}, {measured}")
    terminal.write_json(found, json)


def _entry(study: Study, store: Store) -> dict[str, Any]:
    """A study and, for every budget, its cells and what is measured."""
    from radii.data.sources import only_local
    from radii.studies.runner import latest
    from radii.studies.study import BUDGETS

    budgets = {}
    for budget in BUDGETS:
        found = latest(study, budget, store)
        try:
            with only_local(decoded=True):
                cells = found.planned if found is not None else len(study.cells(budget))
        except InputError:
            cells = None
        measured = len(found.measured) if found is not None else 0
        budgets[budget] = {"cells": cells, "measured": measured, "origin": _origin(found, store)}
    return {"name": study.name, "title": study.title, "source": study.source, "budgets": budgets}


def _origin(found: Evidence | None, store: Store) -> str:
    if found is None or not found.measured:
        return ""
    return "your own" if not found.origin or Path(found.origin).is_relative_to(store.root) else "shipped"


@app.command()
def run(
    names: Names,
    budget: BudgetName = "cpu",
    executor: Where = "processes",
    address: Address = None,
    workers: Workers = None,
    step: Only = None,
    dry_run: Dry = False,
    plot: Plot = None,
    trust: Trust = None,
    device: Device = "cpu",
    out: Out = None,
    json: Json = None,
) -> None:
    """Compute what is missing of one or several studies; steps that they share are computed once."""
    from radii.studies.runner import Request

    only, trusted = tuple(step or ()), tuple(trust or ())
    request = Request(tuple(names), budget, executor, workers, address, only, trusted)  # type: ignore[arg-type]
    _run(request, _store(out, device), dry_run, json, plot)


@app.command()
def resume(
    name: Maybe = None,
    budget: MaybeBudget = None,
    executor: Where = "processes",
    address: Address = None,
    workers: Workers = None,
    plot: Plot = None,
    trust: Trust = None,
    device: Device = "cpu",
    out: Out = None,
    json: Json = None,
) -> None:
    """Go on with a study that was interrupted or has failed steps."""
    from radii.studies.runner import Request
    from radii.studies.started import started

    store = _store(out, device)
    begun = [record for record in started(store) if name in (None, record.name, record.reference)]
    if not begun:
        told = f"The study {name!r} was never started" if name else "No study was started"
        raise InputError(f"{told} in {store.root}; `radii study run NAME` starts one.")
    chosen = begun[0]
    wanted, trusted = budget or chosen.budget, tuple(trust or ())
    request = Request((chosen.reference,), wanted, executor, workers, address, (), trusted)  # type: ignore[arg-type]
    _run(request, store, False, json, plot)


@app.command()
def show(
    name: str,
    budget: MaybeBudget = None,
    plot: Plot = None,
    trust: Trust = None,
    out: Out = None,
    json: Json = None,
) -> None:
    """What a study found: its table, as far as it is measured; with --plot its charts."""
    from radii.studies.runner import latest
    from radii.studies.started import named
    from radii.studies.study import BUDGETS

    if plot is not None:
        check_writable(plot)
    if budget is not None and budget not in BUDGETS:
        raise unknown_name("budget", budget, BUDGETS)
    store = _store(out)
    study = named(name, store, trust or ())
    found = latest(study, budget, store)  # type: ignore[arg-type]
    if found is None or not found.measured:
        raise InputError(f"Nothing is measured of {study.name} yet; `radii study run {name}` does it.")
    command = f"radii study run {name} --budget {found.budget}"
    content = _tell(study, found, command, json, plot)
    terminal.write_json(content, json)


def _store(out: Path | None, device: str = "cpu") -> Store:
    from radii.runs.store import Store

    return Store.default(device) if out is None else Store(out, device)


def _run(request: Request, store: Store, dry: bool, json: str | None, plot: Path | None) -> None:
    from radii.data.sources import only_local
    from radii.runs.executors import chosen
    from radii.studies.plan import survey
    from radii.studies.runner import run_studies
    from radii.studies.started import named
    from radii.studies.step_times import Rates

    if plot is not None:
        check_writable(plot)
    studies = [named(name, store, request.trust) for name in request.references]
    width = chosen(request.executor, request.workers, request.address).width()
    if dry:
        with only_local(), terminal.progress_shown():
            known = Rates.known(store)
            planned = survey(studies, request.budget, store, known, request.only)
        _show_plan(planned, planned.remaining(known, width), json)
        return
    with terminal.progress_shown():
        outcome = run_studies(studies, request, store, begun=_begin, told=_Finished())
    contents = [
        _tell(study, found, request.command(), json, plot)
        for study, found in zip(studies, outcome.evidence, strict=True)
    ]
    _show_failures(outcome, json)
    told = {"studies": contents, "failures": [asdict(failure) for failure in outcome.failures]}
    terminal.write_json(told, json)
    if outcome.failures:
        raise typer.Exit(1)


def _show_plan(planned: Survey, left: Remaining, json: str | None) -> None:
    """The steps with what they took or may take."""
    from radii.studies.plan import describe, duration

    several = len({name for line in planned.lines for name in line.studies}) > 1
    rows = [
        (
            _short(line.step.run_id),
            describe(line.step),
            "unknown" if line.seconds is None else duration(line.seconds),
            "done" if line.done else "to do",
            *([", ".join(line.studies)] if several else []),
        )
        for line in planned.lines
    ]
    console = terminal.show(json)
    made = terminal.table(listing("Steps", ("run", "step", "time", "", *(["for"] if several else [])), rows))
    for column in made.columns:
        column.justify = "right" if column.header == "time" else "left"
    console.print(made)
    console.print(_estimate(planned, left))
    content = {
        "steps": [
            {
                "run": line.step.run_id,
                "what": describe(line.step),
                "studies": line.studies,
                "done": line.done,
                "seconds": line.seconds,
            }
            for line in planned.lines
        ],
        "todo": len(planned.todo),
        "seconds": left.seconds,
        "unknown": left.unknown,
    }
    terminal.write_json(content, json)


def _short(run_id: str) -> str:
    """As much of a run's name as tells it from others; commands take the beginning of a name."""
    kind, _, digits = run_id.rpartition("-")
    return f"{kind}-{digits[:8]}"


def _estimate(planned: Survey, left: Remaining) -> str:
    from radii.studies.plan import told_time

    done = len(planned.lines) - len(planned.todo)
    if not planned.todo:
        return f"{len(planned.lines)} steps, all done."
    return f"{len(planned.lines)} steps, {done} done; expected time for the rest: {told_time(left)}."


def _begin(planned: Survey, left: Remaining) -> None:
    terminal.errors.print(_estimate(planned, left))


class _Finished:
    """One line on stderr for every step that ended."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, line: Line, error: BaseException | None, left: Remaining) -> None:
        from radii.studies.plan import describe, duration, told_time

        self._count += 1
        took = "[bold red]failed[/]" if error is not None or line.seconds is None else duration(line.seconds)
        what = escape(describe(line.step))
        terminal.errors.print(f"{self._count:>4}  {what}  {took}  [dim]{told_time(left)} left[/]", soft_wrap=True)


def _show_failures(outcome: Outcome, json: str | None) -> None:
    if not outcome.failures:
        return
    console = terminal.show(json)
    failed = "A step" if len(outcome.failures) == 1 else f"{len(outcome.failures)} steps"
    console.print(f"[bold red]{failed} failed[/]; what was measured is kept.")
    for failure in outcome.failures:
        console.print(f"  {escape(failure.what)}: {escape(failure.error)}", soft_wrap=True)
        console.print(f"    retry: {escape(failure.retry)}", soft_wrap=True)


def _tell(study: Study, found: Evidence, command: str, json: str | None, plot: Path | None) -> dict[str, Any]:
    """Table on stdout, charts into files; the JSON content of the study."""
    from radii.report.study_page import save
    from radii.studies import results

    findings = study.analyze(found.measured)
    console = terminal.show(json)
    if findings.table.rows:
        title = f"{study.title} · {study.source} · budget {found.budget}"
        console.print(terminal.table(replace(findings.table, title=title)))
    missing = "" if found.complete else f", {found.planned - len(found.measured)} missing"
    console.print(f"{len(found.measured)} of {found.planned} cells measured{missing}; {found.seconds:.0f} s of work.")
    if plot is not None:
        for path in save(study, found, findings, command, plot):
            console.print(f"written: {escape(str(path))}")
    return results.to_json(found, study, command)


def register(main: typer.Typer) -> None:
    """Add the commands."""
    main.add_typer(app, name="study")
