"""``radii audit``: what robustness the data itself allows, for one dataset or several side by side."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from radii.cli import options, terminal

if TYPE_CHECKING:
    from radii.data.dataset import Data
    from radii.geometry.audit import Audit
    from radii.runs.store import Run

USUAL_RADIUS = {"linf": ("8/255",), "l2": ("36/255",), "l1": ("1",)}


def audit(
    datasets: Annotated[list[str], typer.Argument(metavar="DATASET…", help="mnist mnist+smooth:5 mnist+binarize")],
    threat: options.OptionalThreat = None,
    norm: options.NormName = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only the separation, not the shape of the data.")] = False,
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the closest pairs: .png.", callback=options.writable)
    ] = None,
    threads: options.Threads = None,
    store: options.StoreFolder = None,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """How robust could any classifier on this data be? For example: radii audit mnist mnist+binarize."""
    from radii.geometry.audit_tables import audit_table
    from radii.runs.component_specs import DataSpec
    from radii.runs.steps import AuditStep
    from radii.runs.steps.audit_step import load_audit

    (ball,) = options.parse_threats([threat] if threat else [], norm, USUAL_RADIUS, default="linf")
    folder = options.open_store(store)
    audits: list[tuple[Audit, Data]] = []
    runs: list[tuple[Run, str]] = []
    if threads is not None:
        os.environ["RADII_THREADS"] = str(threads)
    with terminal.progress_shown():
        for name in datasets:
            spec = DataSpec.of(name)
            step = AuditStep(data=spec, norm=ball.norm, epsilon=ball.radius, unit=ball.unit, deep=not quick)
            runs.append(terminal.compute(step, folder))
            audits.append((load_audit(runs[-1][0]), spec.load()))
    console = terminal.show(json)
    console.print(terminal.table(audit_table([(data.name, result) for result, data in audits], f"audit, {ball}")))
    for (_, data), (run, seconds) in zip(audits, runs, strict=True):
        console.print(escape(f"{data.name}: run {run.id}, seconds {seconds}"), soft_wrap=True)
    for result, data in audits:
        for sentence in result.verdict:
            prefix = f"{data.name}: " if len(audits) > 1 else ""
            console.print(escape(prefix + sentence), soft_wrap=True)
    if pairs is not None:
        _draw_pairs(*audits[0], pairs)
    if plot is not None:
        _draw(audits, plot)
    results = [
        result.summary() | {"name": data.name, "run": run.id}
        for (result, data), (run, _) in zip(audits, runs, strict=True)
    ]
    terminal.write_json(results[0] if len(results) == 1 else {"audits": results}, json)


def _draw_pairs(audited: Audit, data: Data, path: Path) -> None:
    from radii.geometry.audit_tables import closest_pairs, write_pairs

    write_pairs(closest_pairs(audited.train, data.train, data.train), path)


def _draw(audits: list[tuple[Audit, Data]], path: Path) -> None:
    """An .html has all charts; a picture has the share of points for which each radius is possible."""
    from radii.geometry.audit_tables import audit_charts
    from radii.report.galleries import closest_pairs_gallery
    from radii.report.html import Prose, Report, Section, write

    charts = audit_charts([(data.name, result) for result, data in audits])
    if path.suffix.lower() != ".html":
        terminal.draw(charts[0], path)
        return
    words = tuple(Prose(f"{data.name}: {text}") for result, data in audits for text in result.verdict)
    sections = [Section("What the data allows", words), Section("Charts", charts)]
    pictures = tuple(closest_pairs_gallery(result, data) for result, data in audits if data.train.is_image)
    if pictures:
        sections.append(Section("The closest pairs", pictures))
    write(Report(title="Audit of " + ", ".join(data.name for _, data in audits), sections=tuple(sections)), path)
