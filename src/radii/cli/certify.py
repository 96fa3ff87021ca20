"""``radii certify``: how far a network's predictions are proved to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radii.cli import options, terminal
from radii.cli.evaluate import model_name
from radii.tables import ChartSpec, Field, listing

if TYPE_CHECKING:
    from radii.runs.inputs import DataSpec
    from radii.runs.model_source import ModelSource
    from radii.runs.store import Run, Store
    from radii.threat import Ball

USUAL_RADII = {
    "l2": ("36/255", "72/255", "108/255", "1"),
    "linf": ("1/255", "2/255", "4/255", "8/255"),
    "l1": ("0.5", "1", "2", "4"),
}
METHODS_HELP = "auto, margin, smoothing, estimate, ibp, crown-ibp, crown, alpha-crown, wong-kolter, nearest, complete."


def certify(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="As for evaluate, or `nearest` for the 1-nearest-neighbor rule.")
    ],
    dataset: options.DatasetName,
    method: Annotated[list[str] | None, typer.Option("--method", help=METHODS_HELP)] = None,
    threat: options.Threats = None,
    norm: options.NormName = None,
    points: options.OptionalPoints = None,
    sigma: Annotated[float | None, typer.Option(help="Smoothing: the noise the model was trained with.")] = None,
    alpha: Annotated[float, typer.Option(help="Smoothing: error probability of a statement.")] = 0.001,
    most: Annotated[int, typer.Option(min=1, help="Smoothing: samples an image at most.")] = 100_000,
    together: Annotated[bool, typer.Option("--together", help="Smoothing: one alpha for all images.")] = False,
    proof: Annotated[bool, typer.Option(help="Prove norms by Cholesky; --no-proof takes the cheaper bound.")] = True,
    layers: Annotated[bool, typer.Option("--layers", help="Show the Lipschitz bound of every layer.")] = False,
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    outputs: options.ModelOutputs = "auto",
    trust: options.Trust = None,
    vnnlib: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="ONNX and VNN-LIB files of the same points.")
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
    from radii.certificates.choose import METHODS
    from radii.errors import unknown_name
    from radii.runs.inputs import DataSpec
    from radii.runs.steps.certify_step import Certify, NearestNeighborModel

    balls = options.parse_threats(threat or [], norm, USUAL_RADII, default="l2")
    names = list(dict.fromkeys(method or ["auto"]))
    for name in names:
        if name not in (*METHODS, "auto"):
            raise unknown_name("certificate", name, (*METHODS, "auto"))
    folder, data = options.open_store(store, device), DataSpec.of(dataset)
    nearest = model == "nearest" or names == ["nearest"]
    source: ModelSource | NearestNeighborModel = NearestNeighborModel()
    if not nearest:
        source = options.open_model(
            model, folder, data, weights=weights, trust=trust, mean=mean, std=std, outputs=outputs
        )
    count = points or len(data.load().test)
    if vnnlib is not None and not isinstance(source, NearestNeighborModel):
        _write_properties(vnnlib, source, data, folder, balls, (count, seed))
    steps = [
        Certify(
            model=source, data=data, radii=tuple(ball.radius for ball in balls), points=count, seed=seed,
            method="nearest" if nearest else name, norm=balls[0].norm, splits=("test",), sigma=sigma, alpha=alpha,
            most=most, together=together, prove=proof,
        )
        for name in (["nearest"] if nearest else names)
    ]  # fmt: skip
    with terminal.progress_shown():
        runs = {run.result["method"]: (run, seconds) for run, seconds in (terminal.compute(s, folder) for s in steps)}
    title = f"1-NN on {dataset}" if isinstance(source, NearestNeighborModel) else model_name(source)
    _print(title, dataset, balls, runs, layers, json)
    if plot is not None:
        _draw(plot, {name: run for name, (run, _) in runs.items()}, title, balls[0].norm)
    certificates = [_summary(name, run, balls) for name, (run, _) in runs.items()]
    first = certificates[0]["clean"]
    content = {"model": title, "data": dataset, "points": first["total"], "accuracy": first["value"]}
    terminal.write_json(content | {"certificates": certificates}, json)


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


def _print(
    title: str, dataset: str, balls: Sequence[Ball], runs: dict[str, tuple[Run, str]], layers: bool, json: str | None
) -> None:
    """A row per radius and a column per method, then what a reader must know beside the table."""
    columns: dict[str, list[str]] = {}
    for name, (run, _) in runs.items():
        result = run.result
        test = result["test"]
        label = name if result["kind"] != "estimate" else f"{name} (not certified)"
        columns[label] = [_share(test["clean"]), *map(_share, test.get("certified") or test["estimated"])]
        if "certified_by_sqrt2" in test:
            columns[f"{name} by the √2 rule"] = [_share(test["clean"]), *map(_share, test["certified_by_sqrt2"])]
    from radii.threat import format_radius

    labels = ["0 (clean)", *(format_radius(ball.radius) for ball in balls)]
    console = terminal.show(json)
    count = next(iter(runs.values()))[0].result["test"]["clean"]["total"]
    heading = f"{title} on {dataset}, {balls[0].norm}, {count} points"
    rows = list(zip(labels, *columns.values(), strict=True))
    console.print(terminal.table(listing(heading, ("radius", *columns), rows)))
    for name, (run, seconds) in runs.items():
        for line in _notes(name, run.result):
            console.print(line)
        if layers and "bound" in run.result:
            each = [(b["name"], b["kind"], b["method"], f"{b['value']:.6g}") for b in run.result["bound"]["layers"]]
            console.print(terminal.table(listing("Lipschitz bounds", ("layer", "kind", "how", "constant"), each)))
        console.print(f"{name}: run {run.id}, seconds {seconds}", soft_wrap=True)


def _share(summary: dict[str, Any]) -> str:
    from radii.evaluation.accuracy import Accuracy

    return str(Accuracy(summary["correct"], summary["total"]))


def _notes(name: str, result: dict[str, Any]) -> list[str]:
    """What a reader must know beside the table."""
    notes = [f"Chosen: {name}: {result['why']}."] if result["why"] else []
    if result["kind"] == "estimate":
        return [*notes, f"{name} is an estimate from frequencies: nothing about it is certified."]
    alpha = f", alpha {result['alpha']:g}" if result["alpha"] is not None else ""
    notes.append(f"{name}: {result['kind']}{alpha}.")
    if result["samples"] is not None:
        notes.append(f"{name}: {result['samples']:,.0f} samples an image; {result['assumptions'][-1]}.")
    if (bound := result.get("bound")) is not None:
        how = "proved" if bound["proved"] else "bounded (fallback)"
        notes.append(f"Lipschitz constant {how}: {bound['value']:.6g}; before the head {bound['features']:.6g}.")
    return notes


def _summary(name: str, run: Run, balls: Sequence[Ball]) -> dict[str, Any]:
    """One method as JSON data."""
    result = run.result
    test = result["test"]
    word = "estimated" if result["kind"] == "estimate" else "certified"
    rows = [
        {
            "radius": ball.radius,
            "accuracy": share["value"],
            "interval": share["interval"],
            **{key: share[key] for key in ("population_at_least",) if key in share},
        }
        for ball, share in zip(balls, test[word], strict=True)
    ]
    for row, share in zip(rows, test.get("certified_by_sqrt2", ()), strict=False):
        row["by_sqrt2"] = share["value"]
    keys = ("kind", "norm", "alpha", "assumptions", "samples", "why")
    return {
        "name": name,
        "run": run.id,
        "method": result["certificate"],
        **{key: result[key] for key in keys},
        "clean": test["clean"],
        word: rows,
        **({"lipschitz": result["bound"]} if "bound" in result else {}),
    }


def _draw(path: Path, runs: dict[str, Run], name: str, norm: str) -> None:
    """Certified accuracy over the radius with its 95% interval, one series for each method."""
    import numpy as np

    from radii.evaluation.accuracy import ROBUST_ACCURACY, certified_curve, curve_rows
    from radii.report.charts import save
    from radii.runs.steps.certify_step import load_certified_points

    points = {method: load_certified_points(run) for method, run in runs.items()}
    radii = np.linspace(0, max(float(each.radius.max()) for each in points.values()), 101).tolist()
    curves = {method: certified_curve(each.right, each.radius, radii) for method, each in points.items()}
    spec = ChartSpec(
        "curves",
        [row for method, curve in curves.items() for row in curve_rows(curve, ("proved",), certificate=method)],
        Field("radius", f"{norm.replace('l', 'L', 1)} radius"),
        replace(ROBUST_ACCURACY, title="certified accuracy"),
        "certificate",
        f"Certified accuracy of {name}",
        "Right and proved, with 95% intervals for the population; estimates are marked in their name.",
        step=True,
    )
    save(spec, path)
