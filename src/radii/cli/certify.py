"""``radii certify``: how far a network's predictions are proved to hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radii.cli import terminal
from radii.cli.terminal import Json, Plot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAPER_RADII = ("36/255", "72/255", "108/255", "1")


def certify(
    model: Annotated[str, typer.Argument(help="A run, a bundle or package.module:factory.")],
    dataset: Annotated[str, typer.Argument(help="A name, a folder, .npz or parquet; +variant:arg may follow.")],
    radius: Annotated[list[str] | None, typer.Option(help="L2 radius, as 36/255; may be repeated.")] = None,
    points: Annotated[int | None, typer.Option(min=1, help="Only so many test points, balanced.")] = None,
    proof: Annotated[bool, typer.Option(help="Prove norms by Cholesky; --no-proof takes the cheaper bound.")] = True,
    layers: Annotated[bool, typer.Option("--layers", help="Show the bound of every layer.")] = False,
    weights: Annotated[Path | None, typer.Option(help="Safetensors file for an import path.")] = None,
    trust: Annotated[str | None, typer.Option(help="The import path that a bundle may run.")] = None,
    plot: Plot = None,
    json: Json = None,
) -> None:
    """Certified accuracy over L2 radii, from a proved bound of the network's Lipschitz constant.

    Two certificates of the same network: the textbook one (margin over √2 L),
    and the tighter one with proved layer norms and the head's row differences.
    """
    from radii.certify.margin import certify as certify_
    from radii.data import sources
    from radii.models.bounds import lipschitz_bound
    from radii.study.reference import find_model
    from radii.threat import parse_radius

    names = radius or list(PAPER_RADII)
    radii = [parse_radius(text) for text in names]
    data = sources.load(dataset)
    found = find_model(model, data, weights=weights, trusted=trust)
    test = data.test if points is None else data.test.subset(min(points, len(data.test)))
    x, y = test.tensors()
    with terminal.progress_shown():
        bound = lipschitz_bound(found.model, data.shape, prove=proof)
        tight = certify_(found.model, x, bound)
        textbook = certify_(found.model, x, bound, form="sqrt2")
    correct = (tight.prediction == y).numpy()
    console = terminal.show(json)
    if layers:
        rows = [(layer.name, layer.kind, layer.method, f"{layer.value:.6g}") for layer in bound.layers]
        console.print(terminal.table("Lipschitz bounds", ("layer", "kind", "how", "constant"), rows))
    shown = _table(names, radii, correct, tight.radius.numpy(), textbook.radius.numpy())
    console.print(
        terminal.table(
            f"{found.name} on {test.name}, L2, certified", list(shown[0]), [tuple(r.values()) for r in shown]
        )
    )
    how = "proved" if bound.is_proved else "bounded (fallback)"
    console.print(f"Lipschitz constant {how}: {bound.value:.6g}; before the head {bound.features:.6g}.")
    if plot is not None:
        _draw(plot, correct, {"pairwise": tight.radius.numpy(), "√2 rule": textbook.radius.numpy()}, found.name)
    terminal.write_json(_result(found.name, test.name, len(test), radii, correct, tight, textbook, bound), json)


def _table(
    names: list[str],
    radii: list[float],
    correct: NDArray[np.bool_],
    tight: NDArray[np.float64],
    textbook: NDArray[np.float64],
) -> list[dict[str, Any]]:
    from radii.metrics.accuracy import accuracy

    rows = [{"radius": "0 (clean)", "certified": accuracy(correct), "by the √2 rule": accuracy(correct)}]
    for name, radius in zip(names, radii, strict=True):
        held = [accuracy(correct & (proved >= radius) & (proved > 0)) for proved in (tight, textbook)]
        rows.append({"radius": name, "certified": held[0], "by the √2 rule": held[1]})
    return rows


def _result(
    name: str,
    data: str,
    count: int,
    radii: list[float],
    correct: NDArray[np.bool_],
    tight: Any,
    textbook: Any,
    bound: Any,
) -> dict[str, Any]:
    def share(proved: NDArray[np.float64], radius: float) -> float:
        return float((correct & (proved >= radius) & (proved > 0)).mean())

    return {
        "model": name,
        "data": data,
        "points": count,
        "accuracy": float(correct.mean()),
        "certified": [
            {"radius": r, "accuracy": share(tight.radius.numpy(), r), "by_sqrt2": share(textbook.radius.numpy(), r)}
            for r in radii
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


def curve_rows(
    correct: NDArray[np.bool_], proved: dict[str, NDArray[np.float64]], steps: int = 100
) -> list[dict[str, Any]]:
    """Certified accuracy over the radius as tidy rows, one series per certificate."""
    largest = max(float(radius.max()) for radius in proved.values())
    rows = []
    for series, radius in proved.items():
        for number in range(steps + 1):
            at = largest * number / steps
            held = correct & (radius >= at) & ((radius > 0) | (at == 0))
            rows.append({"radius": at, "accuracy": float(held.mean()), "certificate": series})
    return rows


def _draw(path: Path, correct: NDArray[np.bool_], proved: dict[str, NDArray[np.float64]], name: str) -> None:
    from radii.report.charts import curves
    from radii.report.drawing import save
    from radii.report.rows import Field

    chart = curves(
        curve_rows(correct, proved),
        Field("radius", "L2 radius"),
        Field("accuracy", "certified accuracy", percent=True),
        "certificate",
        title=f"Certified accuracy of {name}",
        step=True,
    )
    save(chart, path)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(certify)
