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
    from radii.report.charts import Chart
    from radii.report.pictures import Gallery

SUFFIXES = (".png", ".svg", ".pdf", ".html")


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
    names = [data.name for _, data in found]
    cells = table([audited for audited, _ in found])
    console.print(terminal.table(f"audit, {ball.norm} {eps or ''}".rstrip(), ["", *names], cells))
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


def table(found: list[Audit]) -> list[list[str]]:
    """One row per figure and one column per dataset; figures that nobody has are left out."""
    from radii.geometry.figures import figures

    columns = [figures(audited) for audited in found]
    names = dict.fromkeys(name for column in columns for name in column)
    return [[name, *(column.get(name, "–") for column in columns)] for name in names]


def _draw_pairs(audited: Audit, data: Data, path: Path) -> None:
    from radii.geometry.pairs import closest_pairs, write_pairs

    write_pairs(closest_pairs(audited.train, data.train, data.train), path)


def _draw(found: list[tuple[Audit, Data]], path: Path) -> None:
    """An .html has all charts; a picture has the share of points for which each radius is possible."""
    from radii.report.drawing import save
    from radii.report.html import Prose, Report, Section, write

    charts = _charts(found)
    if path.suffix.lower() != ".html":
        save(charts[0], path)
        return
    words = tuple(Prose(f"{data.name}: {text}") for audited, data in found for text in audited.verdict)
    sections = [Section("What the data allows", words), Section("Charts", tuple(charts))]
    pictures = tuple(_gallery(audited, data) for audited, data in found if data.train.is_image)
    if pictures:
        sections.append(Section("The closest pairs", pictures))
    write(Report(title="Audit of " + ", ".join(data.name for _, data in found), sections=tuple(sections)), path)


def _gallery(audited: Audit, data: Data) -> Gallery:
    """The closest pairs of training images: what sets the separation."""
    from radii.geometry.pairs import closest_pairs
    from radii.report.pictures import Example, Gallery, Picture, data_uri
    from radii.threat import format_radius

    examples = tuple(
        Example(
            f"{format_radius(float(f'{pair.distance:.3g}'))} apart",
            tuple(
                Picture(data_uri(image), f"{name}, image {index}")
                for image, name, index in zip((pair.point, pair.neighbor), pair.classes, pair.indices, strict=True)
            ),
        )
        for pair in closest_pairs(audited.train, data.train, data.train)
    )
    note = f"Each training image beside its nearest one of another class, in {audited.norm}, nearest first."
    return Gallery(data.name, examples, note)


def _charts(found: list[tuple[Audit, Data]]) -> list[Chart]:
    from radii.report.charts import Field, Rule, curves, points

    norm, epsilon = found[0][0].norm, found[0][0].epsilon
    shown = [(audited.test or audited.train, data.name) for audited, data in found]
    rule = (Rule(epsilon, "epsilon"),)
    possible = [row | {"data": name} for separated, name in shown for row in separated.curve()]
    charts = [
        curves(
            possible, Field("epsilon", f"radius ({norm})"), Field("share", "points", percent=True), "data",
            title="The share of points for which a radius is possible", rules=rule,
            note="A point counts where every other class is at least twice the radius away.",
        )
    ]  # fmt: skip
    shapes = [(audited.shape, data.name) for audited, data in found if audited.shape is not None]
    nearer = [row | {"data": name} for shape, name in shapes if shape.curve for row in shape.curve.rows()]
    if nearer:
        charts.append(
            points(
                nearer, Field("n", "training points", log=True), Field("mean", f"mean {norm} distance", log=True),
                "data",
                title="How near the nearest training point comes", note="A straight line falls by 1/d* per factor e.",
            )
        )  # fmt: skip
    held = [row | {"data": name} for shape, name in shapes for row in shape.spectrum.rows()]
    if held:
        charts.append(
            curves(
                held, Field("components", "principal components", log=True), Field("share", "variance", percent=True),
                "data", title="The variance in the first principal components",
            )
        )  # fmt: skip
    return charts


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)
