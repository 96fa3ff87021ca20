"""``radii audit``: what robustness the data itself allows, for one dataset or several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from radii.atomic import check_writable
from radii.cli import terminal
from radii.cli.terminal import Json, Plot

if TYPE_CHECKING:
    from radii.data.dataset import Data
    from radii.geometry.audit import Audit


def audit(
    datasets: Annotated[list[str], typer.Argument(metavar="DATASET…", help="mnist mnist+smooth:5 mnist+binarize")],
    norm: Annotated[str, typer.Option(help="linf, l2 or l1.")] = "linf",
    eps: Annotated[str | None, typer.Option(help="Radius, as 8/255; by default 8/255, 36/255 in l2, 1 in l1.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only the separation, not the shape of the data.")] = False,
    pairs: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the closest pairs: .png.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
    work: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep finished blocks here: a killed audit continues.")
    ] = None,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """How robust could any classifier on this data be? For example: radii audit mnist mnist+binarize."""
    from radii.data.sources import load
    from radii.geometry.audit import EPSILON
    from radii.geometry.audit import audit as measure
    from radii.geometry.figures import audit_table
    from radii.geometry.search.engine import Work
    from radii.threat import Ball, parse_radius

    radius = parse_radius(eps) if eps else EPSILON.get(norm, 1.0)
    ball = Ball.parse(f"{norm}:{radius!r}")
    if pairs is not None:
        check_writable(pairs)
    found: list[tuple[Audit, Data]] = []
    with terminal.progress_shown():
        for number, name in enumerate(datasets):
            data = load(name)
            place = Work(workers, None if work is None else work / f"{number}")
            found.append((measure(data, norm=ball.norm, epsilon=ball.radius, deep=not quick, work=place), data))
    console = terminal.show(json)
    title = f"audit, {ball.norm} {eps or ''}".rstrip()
    console.print(terminal.table(audit_table([(data.name, audited) for audited, data in found], title)))
    for audited, data in found:
        for sentence in audited.verdict:
            prefix = f"{data.name}: " if len(found) > 1 else ""
            console.print(escape(prefix + sentence), soft_wrap=True)
    if pairs is not None:
        _draw_pairs(*found[0], pairs)
    if plot is not None:
        _draw(found, plot)
    results = [audited.summary() | {"name": data.name} for audited, data in found]
    terminal.write_json(results[0] if len(results) == 1 else {"audits": results}, json)


def _draw_pairs(audited: Audit, data: Data, path: Path) -> None:
    from radii.geometry.pairs import closest_pairs, write_pairs

    write_pairs(closest_pairs(audited.train, data.train, data.train), path)


def _draw(found: list[tuple[Audit, Data]], path: Path) -> None:
    """An .html has all charts; a picture has the share of points for which each radius is possible."""
    from radii.geometry.figures import audit_charts
    from radii.report.charts import save
    from radii.report.galleries import closest_pairs_gallery
    from radii.report.html import Prose, Report, Section, write

    charts = audit_charts([(data.name, audited) for audited, data in found])
    if path.suffix.lower() != ".html":
        save(charts[0], path)
        return
    words = tuple(Prose(f"{data.name}: {text}") for audited, data in found for text in audited.verdict)
    sections = [Section("What the data allows", words), Section("Charts", charts)]
    pictures = tuple(closest_pairs_gallery(audited, data) for audited, data in found if data.train.is_image)
    if pictures:
        sections.append(Section("The closest pairs", pictures))
    write(Report(title="Audit of " + ", ".join(data.name for _, data in found), sections=tuple(sections)), path)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)
