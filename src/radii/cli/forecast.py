"""``radii forecast``: how much data a target needs, as far as the data measured can tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from radii.cli import terminal
from radii.cli.options import MOST, Json, Plot, between
from radii.errors import InputError

if TYPE_CHECKING:
    from radii.studies.scaling_forecast import Forecast


def _share(value: float | None) -> float | None:
    """Refuse a target that is no share; somebody who writes 70 means 0.7."""
    if value is None or 0 < value < 1:
        return value
    guess = f" Did you mean {value / 100:g}?" if 2 <= value < 100 else ""
    raise InputError(f"--target must be an accuracy between 0 and 1, got {value:g} instead.{guess}")


def forecast(
    source: Annotated[str, typer.Argument(help="A study by name, its result (.json), or a .csv of n, seed, value.")],
    target: Annotated[float | None, typer.Option(help="The accuracy wanted, as 0.7.", callback=_share)] = None,
    at: Annotated[
        list[float] | None,
        typer.Option(metavar="N", help="Forecast at N training points; may repeat.", callback=between(1, 1e15)),
    ] = None,
    factor: Annotated[
        list[float] | None,
        typer.Option(
            metavar="F", help="Forecast at F times the largest size; may repeat.", callback=between(1e-6, 1e9)
        ),
    ] = None,
    curve: Annotated[str | None, typer.Option(help="Only curves with these words in their name.")] = None,
    classes: Annotated[
        int | None, typer.Option(help="Classes, which a CSV does not say.", callback=between(2, MOST))
    ] = None,
    test_points: Annotated[
        int | None, typer.Option(help="Test points, which a CSV does not say.", callback=between(1, MOST))
    ] = None,
    ceiling: Annotated[
        float, typer.Option(help="The highest accuracy thinkable, as the clean accuracy.", callback=between(0, 1))
    ] = 1.0,
    floor: Annotated[
        float | None, typer.Option(help="Where curves start; 1/classes unless given.", callback=between(0, 1))
    ] = None,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """How much data does a target need? For example: radii forecast data-scaling --target 0.7."""
    from radii.studies.scaling_forecast import forecast as forecast_

    forecasts = forecast_(
        source,
        target,
        at=at or (),
        factors=factor or (() if at else (2.0, 4.0)),
        classes=classes,
        test_points=test_points,
        ceiling=ceiling,
        floor=floor,
    )
    names = [one.title for one in forecasts]
    forecasts = tuple(one for one in forecasts if curve is None or curve.lower() in one.title.lower())
    if not forecasts:
        raise InputError(f"No curve of {source} has {curve!r} in its name; there are: {'; '.join(names)}.")
    console = terminal.show(json)
    for one in forecasts:
        console.print(terminal.table(one.table()))
        console.print(escape(one.verdict), soft_wrap=True)
    if plot is not None:
        _draw(forecasts, plot)
    terminal.write_json({"source": source, "curves": [one.summary() for one in forecasts]}, json)


def _draw(forecasts: tuple[Forecast, ...], path: Path) -> None:
    """An .html has all curves; a picture has one."""
    from radii.report.html import Prose, Report, Section, write

    if path.suffix.lower() == ".html":
        sections = tuple(Section(one.title, (one.chart(), Prose(one.verdict))) for one in forecasts)
        write(Report(title="How much data is needed?", sections=sections), path)
        return
    if len(forecasts) > 1:
        names = "; ".join(one.title for one in forecasts)
        raise InputError(f"A picture shows one curve; choose by --curve, or draw all into an .html: {names}.")
    terminal.draw(forecasts[0].chart(), path)
