"""``radii certify``: how far a network's predictions are proved to hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from radii.certificates.methods import AUTO, CERTIFICATES, METHODS, method_names
from radii.cli import options, terminal
from radii.cli.evaluate import model_name

if TYPE_CHECKING:
    from radii.change import Change
    from radii.runs.component_specs import DataSpec
    from radii.runs.model_source import ModelSource
    from radii.runs.store import Store
    from radii.threat import Ball

USUAL_RADII = {
    "l2": ("36/255", "72/255", "108/255", "1"),
    "linf": ("1/255", "2/255", "4/255", "8/255"),
    "l1": ("0.5", "1", "2", "4"),
}
METHODS_HELP = f"{', '.join(method_names())}, or an import path; may be repeated."


def certify(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="As for evaluate, or `nearest` for the 1-nearest-neighbor rule.")
    ],
    dataset: options.DatasetName,
    method: Annotated[
        list[str] | None, typer.Option("--method", help=METHODS_HELP, callback=options.check_certificates)
    ] = None,
    threat: options.Threats = None,
    norm: options.NormName = None,
    points: options.OptionalPoints = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="Smoothing: the noise that the model was trained with.", callback=options.between(1e-6, 1e6)),
    ] = None,
    alpha: options.Alpha = 0.001,
    samples: Annotated[
        int, typer.Option(help="Smoothing: the most samples for one image.", callback=options.between(1, options.MOST))
    ] = 100_000,
    simultaneous: Annotated[bool, typer.Option("--simultaneous", help="Smoothing: one alpha for all images.")] = False,
    prove: Annotated[
        bool, typer.Option(help="Prove each layer's norm (slower, tighter); --no-prove: faster, looser.")
    ] = True,
    layers: Annotated[bool, typer.Option("--layers", help="Show the Lipschitz bound of every layer.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Complete: the true radius of each point, by bisection.")
    ] = False,
    seconds: options.SearchSeconds = 60.0,
    weights: options.Weights = None,
    interface: options.ModelInterface = options.PLAIN,
    vnnlib: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write ONNX and VNN-LIB files of these points here.")
    ] = None,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    plot: options.Plot = None,
    json: options.Json = None,
) -> None:
    """Certified accuracy over the radius, with its interval; several methods go into one chart.

    `auto` picks the strongest method that the model allows and says why.
    """
    from radii.change import radius_words
    from radii.errors import InputError
    from radii.runs.certification import Certification, accuracy_table, certified_chart
    from radii.runs.component_specs import DataSpec
    from radii.runs.steps.certify_step import Certify, NearestNeighborModel

    changes = _changes(threat or [], method, vnnlib)
    change = changes[-1] if changes else None
    balls = changes or options.parse_threats(threat or [], norm, USUAL_RADII, default="l2")
    names = list(dict.fromkeys(method or ["complete" if exact else AUTO]))
    if change is not None:
        names = [AUTO]
    if exact and change is None and names != ["complete"]:
        raise InputError(f"--exact is for --method complete, got {', '.join(names)} instead.")
    for name in names:
        if name not in (AUTO, *METHODS):
            CERTIFICATES.factory(name)  # a wrong name is reported before anything is loaded
    if vnnlib is not None:
        from radii.verification.vnnlib import check_folder

        check_folder(vnnlib)
    folder, data = options.open_store(store, device), DataSpec.of(dataset)
    nearest = model == "nearest" or names == ["nearest"]
    source: ModelSource | NearestNeighborModel = NearestNeighborModel()
    if not nearest:
        source = options.open_model(model, folder, data, interface, weights)
    count = points or len(data.load().test)
    if vnnlib is not None and not isinstance(source, NearestNeighborModel):
        _write_properties(vnnlib, source, data, folder, balls, (count, seed))
    steps = [
        Certify(
            model=source, data=data, radii=tuple(ball.radius for ball in balls), points=count, seed=seed,
            method="nearest" if nearest else name, norm=getattr(balls[0], "norm", "l2"), splits=("test",), sigma=sigma,
            alpha=alpha, unit=getattr(balls[0], "unit", ""),
            most=samples, together=simultaneous, prove=prove, exact=exact, seconds=seconds, change=change,
        )
        for name in (["nearest"] if nearest else names)
    ]  # fmt: skip
    with terminal.progress_shown():
        runs = [terminal.compute(step, folder) for step in steps]
    certifications = [(Certification.of(run), time) for run, time in runs]
    spent = {own.name: time for own, time in certifications}
    results = list({own.name: own for own, _ in certifications}.values())
    title = f"1-NN on {dataset}" if isinstance(source, NearestNeighborModel) else model_name(source)
    console, first = terminal.show(json), results[0].test.clean
    heading = f"{title} on {dataset}, {radius_words(balls[0])}, {first.total} points"
    console.print(terminal.table(accuracy_table(results, heading)))
    for certification in results:
        for note in certification.notes:
            console.print(escape(note))
        if layers and (constants := certification.layer_table()) is not None:
            console.print(terminal.table(constants))
        name = certification.name
        console.print(f"{name}: run {certification.run.id}, seconds {spent[name]}", soft_wrap=True)
    if plot is not None:
        terminal.draw(certified_chart(results, title, radius_words(balls[0])), plot)
    content = {"model": title, "data": dataset, "points": first.total, "accuracy": first.value}
    terminal.write_json(content | {"certificates": [each.summary() for each in results]}, json)


def _changes(threats: Sequence[str], method: Sequence[str] | None, vnnlib: Path | None) -> list[Change]:
    """One change of images with rising strengths; none if the threats are balls."""
    from radii.change import Change, radius_words, threat_of
    from radii.errors import InputError

    read = [threat_of(text) for text in threats]
    changes = [each for each in read if isinstance(each, Change)]
    if not changes:
        return []
    if len({radius_words(each) for each in read}) > 1:
        raise InputError(f"All threats must be one change of images, got {', '.join(map(str, read))}.")
    if method or vnnlib is not None:
        said = "--vnnlib" if vnnlib is not None else f"--method {' '.join(method or ())}"
        raise InputError(f"{changes[0]} is proved by its linear pieces, or by splitting parameters; leave {said} out.")
    return sorted(changes, key=lambda each: each.radius)


def _write_properties(
    folder: Path,
    source: ModelSource,
    data: DataSpec,
    store: Store,
    balls: Sequence[Ball | Change],
    choice: tuple[int, int],
) -> None:
    """The network as ONNX and a VNN-LIB property for every point and radius; ``choice`` is points and seed."""
    from radii.data.threat_on_data import ball_on
    from radii.runs.component_specs import choose_rows
    from radii.runs.model_source import load_model
    from radii.threat import Ball
    from radii.verification.vnnlib import write_instances

    loaded = data.load()
    model = load_model(source, store, loaded).model
    x, _ = loaded.test.tensors(choose_rows(loaded.test, *choice))
    for ball in balls:
        assert isinstance(ball, Ball), "changes are refused before"
        write_instances(folder, model, x, ball_on(ball, loaded).changed(box=loaded.test.box))
