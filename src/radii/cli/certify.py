"""``radii certify``: how far a network's predictions are proved to hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radii.cli import terminal
from radii.cli.terminal import Json, Plot, Seed, Trust
from radii.tables import ChartSpec, Field, listing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from radii.certificates.certificate import Certificate
    from radii.data.dataset import Data, Dataset
    from radii.evaluation.accuracy import CurvePoint
    from radii.runs.reference import Found

PAPER_RADII = ("36/255", "72/255", "108/255", "1")
METHODS_HELP = "auto, margin, smoothing, estimate, ibp, crown-ibp, crown, alpha-crown, wong-kolter, nearest."


def certify(
    model: Annotated[str, typer.Argument(help="A run, a bundle, package.module:factory, or `nearest` for 1-NN.")],
    dataset: Annotated[str, typer.Argument(help="A name, a folder, .npz or parquet; +variant:arg may follow.")],
    method: Annotated[list[str] | None, typer.Option(help=METHODS_HELP)] = None,
    radius: Annotated[list[str] | None, typer.Option(help="A radius, as 36/255; may be repeated.")] = None,
    norm: Annotated[str, typer.Option(help="l2, or linf (crown, ibp, nearest).")] = "l2",
    points: Annotated[int | None, typer.Option(min=1, help="Only so many test points, balanced.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Smoothing: the noise the model was trained with.")] = None,
    alpha: Annotated[float, typer.Option(help="Smoothing: error probability of a statement.")] = 0.001,
    most: Annotated[int, typer.Option(min=1, help="Smoothing: samples an image at most.")] = 100_000,
    together: Annotated[bool, typer.Option("--together", help="Smoothing: one alpha for all images.")] = False,
    proof: Annotated[bool, typer.Option(help="Prove norms by Cholesky; --no-proof takes the cheaper bound.")] = True,
    layers: Annotated[bool, typer.Option("--layers", help="Show the Lipschitz bound of every layer.")] = False,
    weights: Annotated[Path | None, typer.Option(help="Safetensors file for an import path.")] = None,
    trust: Trust = None,
    vnnlib: Annotated[Path | None, typer.Option(help="Folder for ONNX and VNN-LIB files of the same points.")] = None,
    seed: Seed = 0,
    plot: Plot = None,
    json: Json = None,
) -> None:
    """Certified accuracy over the radius, with its interval; several methods go into one chart.

    `auto` picks the strongest method that the model allows and says why.
    """
    from radii.data import sources
    from radii.threat import parse_radius

    names = radius or list(PAPER_RADII)
    radii = [parse_radius(text) for text in names]
    data = sources.load(dataset)
    test = data.test if points is None else data.test.subset(min(points, len(data.test)))
    with terminal.progress_shown():
        found, chosen, why = _chosen(model, data, method or ["auto"], norm, sigma, weights, trust or [])
        if vnnlib is not None:
            _write_properties(vnnlib, found, test, norm, radii)
        if chosen == ["margin"] and norm == "l2":
            _by_margin(found, test, names, radii, proof, layers, plot, json)
            return
        options = {
            "norm": norm, "sigma": sigma, "alpha": alpha, "samples": most, "simultaneous": together, "seed": seed
        }  # fmt: skip
        proved = _certificates(found, chosen, data, test, radii, options)
    _show_several(found, test, proved, why, names, radii, plot, json)


def _chosen(
    model: str, data: Data, methods: list[str], norm: str, sigma: float | None, weights: Path | None, trust: list[str]
) -> tuple[Found, list[str], str]:
    """The model, the methods that `auto` stands for, and the reason."""
    from radii.certificates.choose import METHODS
    from radii.errors import unknown_name
    from radii.models.zoo.distance import DistanceClassifier
    from radii.runs.reference import Found, find_model
    from radii.threat import Ball

    known = Ball.parse(f"{norm}:1").norm
    for name in methods:
        if name not in (*METHODS, "auto"):
            raise unknown_name("certificate", name, (*METHODS, "auto"))
    if model == "nearest" or methods == ["nearest"]:
        classifier = DistanceClassifier(*data.train.tensors(slice(0, 2)), 1.0, known, len(data.classes))
        return Found(classifier, f"1-NN on {data.train.name}"), ["nearest"], "distances to stored points alone"
    found = find_model(model, data, weights=weights, trust=trust)
    if "auto" not in methods:
        return found, methods, ""
    chosen, why = _automatic(found, data.shape, known, sigma)
    return found, [chosen if name == "auto" else name for name in methods], f"{chosen}: {why}"


def _automatic(found: Found, shape: tuple[int, ...], norm: str, sigma: float | None) -> tuple[str, str]:
    """The method that `auto` stands for and the reason; `auto` itself is the strongest proof of each point."""
    from radii.certificates.choose import trained_bound

    if sigma is not None and norm == "l2":
        return "smoothing", f"noise of sigma {sigma:g} was given, and smoothing certifies any model under it"
    if norm == "l2" and trained_bound(found.model, shape):
        return "margin", "the network was built for a small Lipschitz constant, so a margin is a radius"
    return "auto", "for each point the strongest of margins, intervals, CROWN and alpha-CROWN"


def _write_properties(folder: Path, found: Found, test: Dataset, norm: str, radii: list[float]) -> None:
    from radii.certificates.vnnlib import write_instances
    from radii.threat import Ball

    for radius in radii:
        ball = Ball.parse(f"{norm}:{radius!r}")
        write_instances(folder, found.model, test.tensors()[0], Ball(ball.norm, radius, test.box))


def _certificates(
    found: Found, methods: list[str], data: Data, test: Dataset, radii: list[float], options: dict[str, Any]
) -> dict[str, Certificate]:
    from radii.certificates.choose import certify as certify_

    stored = data.train.tensors() if "nearest" in methods else None
    x, _ = test.tensors()
    return {
        name: certify_(found.model, x, name, radii=radii, box=data.train.box, stored=stored, **options)
        for name in dict.fromkeys(methods)
    }


def _show_several(
    found: Found,
    test: Dataset,
    proved: dict[str, Certificate],
    why: str,
    names: list[str],
    radii: list[float],
    plot: Path | None,
    json: str | None,
) -> None:
    y = test.tensors()[1]
    right = {name: (made.prediction == y).numpy() for name, made in proved.items()}
    rows = [
        (text, *(_accuracy(right[name] & made.covers(radius).numpy()) for name, made in proved.items()))
        for text, radius in zip(names, radii, strict=True)
    ]
    columns = ("radius", *(f"{name}{'' if made.is_certified else ' (not certified)'}" for name, made in proved.items()))
    console = terminal.show(json)
    norm = next(iter(proved.values())).norm
    console.print(terminal.table(listing(f"{found.name} on {test.name}, {norm}, {len(test)} points", columns, rows)))
    for line in ([f"Chosen: {why}."] if why else []) + [line for made in proved.items() for line in _told(*made)]:
        console.print(line)
    if plot is not None:
        series = {name: np_radius(made) for name, made in proved.items()}
        _draw(plot, right, series, found.name, norm)
    terminal.write_json(
        {
            "model": found.name,
            "data": test.name,
            "points": len(test),
            "chosen": why,
            "certificates": [_summary(made, right[name], radii, name) for name, made in proved.items()],
        },
        json,
    )


def _accuracy(held: NDArray[np.bool_]) -> str:
    from radii.evaluation.accuracy import accuracy

    return str(accuracy(held))


def np_radius(made: Certificate) -> NDArray[np.float64]:
    """Radii as a numpy vector, 0 where the method abstains."""
    return (made.radius * (made.prediction >= 0)).numpy()


def _told(name: str, made: Certificate) -> list[str]:
    """What a person should know beside the table."""
    if not made.is_certified:
        return [f"{name} is an estimate from frequencies: nothing about it is certified."]
    samples = getattr(made, "samples", None)
    told = [f"{name}: {made.kind}" + (f", alpha {made.alpha:g}" if made.alpha is not None else "") + "."]
    if samples is not None:
        told.append(f"{name}: {float(samples.double().mean()):,.0f} samples an image; {made.assumptions[-1]}.")
    return told


def _summary(made: Certificate, right: NDArray[np.bool_], radii: list[float], name: str) -> dict[str, Any]:
    from radii.certificates.population import certified_accuracy_of_distribution
    from radii.evaluation.accuracy import accuracy

    rows = []
    for radius in radii:
        held = accuracy(right & made.covers(radius).numpy())
        row: dict[str, Any] = {"radius": radius, "accuracy": held.value, "interval": list(held.interval)}
        if made.is_certified:
            count, alpha = held.correct, made.alpha or 0.0
            row["population_at_least"] = certified_accuracy_of_distribution(count, held.total, alpha)
        rows.append(row)
    samples = getattr(made, "samples", None)
    return {
        "name": name,
        "method": made.method,
        "kind": made.kind,
        "norm": made.norm,
        "alpha": made.alpha,
        "assumptions": list(made.assumptions),
        "samples": None if samples is None else float(samples.double().mean()),
        "certified" if made.is_certified else "estimated": rows,
    }


def _by_margin(
    found: Found,
    test: Dataset,
    names: list[str],
    radii: list[float],
    proof: bool,
    layers: bool,
    plot: Path | None,
    json: str | None,
) -> None:
    """Two certificates of one network: the textbook one (margin over √2 L) and the tighter, pairwise one."""
    from radii.certificates.lipschitz import certify as certify_
    from radii.evaluation.accuracy import certified_curve
    from radii.models.lipschitz.network_bound import lipschitz_bound

    x, y = test.tensors()
    bound = lipschitz_bound(found.model, test.shape, prove=proof)
    tight = certify_(found.model, x, bound)
    textbook = certify_(found.model, x, bound, form="sqrt2")
    correct = (tight.prediction == y).numpy()
    console = terminal.show(json)
    if layers:
        rows = [(layer.name, layer.kind, layer.method, f"{layer.value:.6g}") for layer in bound.layers]
        console.print(terminal.table(listing("Lipschitz bounds", ("layer", "kind", "how", "constant"), rows)))
    curves = {
        name: certified_curve(correct, proved.radius.numpy(), [0.0, *radii])
        for name, proved in (("certified", tight), ("by the √2 rule", textbook))
    }
    shares = [[point.bracket.proved for point in curve] for curve in curves.values()]
    lines = zip(["0 (clean)", *names], *shares, strict=True)
    title = f"{found.name} on {test.name}, L2, certified"
    console.print(terminal.table(listing(title, ("radius", *curves), [tuple(line) for line in lines])))
    how = "proved" if bound.is_proved else "bounded (fallback)"
    console.print(f"Lipschitz constant {how}: {bound.value:.6g}; before the head {bound.features:.6g}.")
    if plot is not None:
        series = {"pairwise": tight.radius.numpy(), "√2 rule": textbook.radius.numpy()}
        _draw(plot, dict.fromkeys(series, correct), series, found.name, "l2")
    terminal.write_json(_result(found.name, test.name, tight, curves, bound), json)


def _result(name: str, data: str, tight: Any, curves: dict[str, tuple[CurvePoint, ...]], bound: Any) -> dict[str, Any]:
    """The figures as JSON data; the first point of each curve is clean accuracy."""
    clean, *_ = pairwise = [point.bracket.proved for point in curves["certified"]]
    textbook = [point.bracket.proved.value for point in curves["by the √2 rule"]]
    radii = [point.radius for point in curves["certified"]]
    return {
        "model": name,
        "data": data,
        "points": clean.total,
        "accuracy": clean.value,
        "certified": [
            {"radius": radius, "accuracy": share.value, "by_sqrt2": other}
            for radius, share, other in list(zip(radii, pairwise, textbook, strict=True))[1:]
        ],
        "kind": tight.kind,
        "norm": tight.norm,
        "assumptions": list(tight.assumptions),
        "lipschitz": {
            "value": bound.value,
            "features": bound.features,
            "proved": bound.is_proved,
            "layers": [{"name": b.name, "kind": b.kind, "value": b.value, "method": b.method} for b in bound.layers],
        },
    }


def _draw(
    path: Path, right: dict[str, NDArray[np.bool_]], proved: dict[str, NDArray[np.float64]], name: str, norm: str
) -> None:
    """Certified accuracy over the radius with its 95% interval, one series for each certificate."""
    import numpy as np

    from radii.evaluation.accuracy import ROBUST_ACCURACY, certified_curve, curve_rows
    from radii.report.charts import save

    radii = np.linspace(0, max(float(radius.max()) for radius in proved.values()), 101).tolist()
    curves = {series: certified_curve(right[series], radius, radii) for series, radius in proved.items()}
    spec = ChartSpec(
        "curves",
        [row for series, curve in curves.items() for row in curve_rows(curve, ("proved",), certificate=series)],
        Field("radius", f"{norm.replace('l', 'L', 1)} radius"),
        replace(ROBUST_ACCURACY, title="certified accuracy"),
        "certificate",
        f"Certified accuracy of {name}",
        "Right and proved, with 95% intervals for the population; estimates are marked in their name.",
        step=True,
    )
    save(spec, path)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(certify)
