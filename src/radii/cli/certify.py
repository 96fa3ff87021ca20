"""``radii certify``: how far a network's predictions are proved to hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from radii.cli import options, terminal
from radii.cli.evaluate import model_name

if TYPE_CHECKING:
    from radii.runs.inputs import DataSpec
    from radii.runs.model_source import ModelSource
    from radii.runs.store import Store
    from radii.threat import Ball

USUAL_RADII = {
    "l2": ("36/255", "72/255", "108/255", "1"),
    "linf": ("1/255", "2/255", "4/255", "8/255"),
    "l1": ("0.5", "1", "2", "4"),
}
METHODS_HELP = (
    "auto, margin, smoothing, estimate, ibp, crown-ibp, crown, alpha-crown, sdp-crown, wong-kolter, nearest, complete."
)


def certify(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="As for evaluate, or `nearest` for the 1-nearest-neighbor rule.")
    ],
    dataset: options.DatasetName,
    method: Annotated[list[str] | None, typer.Option("--method", help=METHODS_HELP)] = None,
    threat: options.Threats = None,
    norm: options.NormName = None,
    points: options.OptionalPoints = None,
    sigma: Annotated[float | None, typer.Option(help="Smoothing: the noise that the model was trained with.")] = None,
    alpha: options.Alpha = 0.001,
    samples: Annotated[int, typer.Option(min=1, help="Smoothing: the most samples for one image.")] = 100_000,
    simultaneous: Annotated[bool, typer.Option("--simultaneous", help="Smoothing: one alpha for all images.")] = False,
    prove: Annotated[bool, typer.Option(help="Prove norms by Cholesky; --no-prove takes the cheaper bound.")] = True,
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
    from radii.certificates import CERTIFICATES
    from radii.certificates.choose import METHODS, check_method
    from radii.errors import InputError
    from radii.runs.certification import Certification, accuracy_table, certified_chart
    from radii.runs.inputs import DataSpec
    from radii.runs.steps.certify_step import Certify, NearestNeighborModel

    balls = options.parse_threats(threat or [], norm, USUAL_RADII, default="l2")
    names = list(dict.fromkeys(method or ["complete" if exact else "auto"]))
    if exact and names != ["complete"]:
        raise InputError(f"--exact is for --method complete, got {', '.join(names)} instead.")
    for name in names:
        check_method(name)
        if name not in (*METHODS, "auto"):
            CERTIFICATES.factory(name)  # a wrong name is reported before anything is loaded
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
            method="nearest" if nearest else name, norm=balls[0].norm, splits=("test",), sigma=sigma, alpha=alpha,
            most=samples, together=simultaneous, prove=prove, exact=exact, seconds=seconds,
        )
        for name in (["nearest"] if nearest else names)
    ]  # fmt: skip
    with terminal.progress_shown():
        runs = [terminal.compute(step, folder) for step in steps]
    spent = {run.result["method"]: time for run, time in runs}
    results = list({run.result["method"]: Certification.of(run) for run, _ in runs}.values())
    title = f"1-NN on {dataset}" if isinstance(source, NearestNeighborModel) else model_name(source)
    console, first = terminal.show(json), results[0].clean
    heading = f"{title} on {dataset}, {balls[0].norm}, {first.total} points"
    console.print(terminal.table(accuracy_table(results, heading)))
    for certification in results:
        for note in certification.notes:
            console.print(escape(note))
        if layers and certification.layers:
            console.print(terminal.table(certification.layer_table()))
        name = certification.name
        console.print(f"{name}: run {certification.run.id}, seconds {spent[name]}", soft_wrap=True)
    if plot is not None:
        terminal.draw(certified_chart(results, title, balls[0].norm), plot)
    content = {"model": title, "data": dataset, "points": first.total, "accuracy": first.value}
    terminal.write_json(content | {"certificates": [each.summary() for each in results]}, json)


def _write_properties(
    folder: Path, source: ModelSource, data: DataSpec, store: Store, balls: Sequence[Ball], choice: tuple[int, int]
) -> None:
    """The network as ONNX and a VNN-LIB property for every point and radius; ``choice`` is points and seed."""
    from radii.certificates.vnnlib import write_instances
    from radii.runs.inputs import choose_rows
    from radii.runs.model_source import load_model
    from radii.threat import Ball

    loaded = data.load()
    model = load_model(source, store, loaded).model
    x, _ = loaded.test.tensors(choose_rows(loaded.test, *choice))
    for ball in balls:
        write_instances(folder, model, x, Ball(ball.norm, ball.radius, loaded.test.box))
