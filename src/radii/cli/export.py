"""``radii export``: a model for use without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radii.cli import options, terminal
from radii.errors import InputError
from radii.tables import listing


def export(
    model: options.ModelName,
    out: Annotated[Path, typer.Argument(help="FILE.onnx or FILE.pt2.")],
    certificate: Annotated[bool, typer.Option(help="Prove the Lipschitz constants and put them in the file.")] = True,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="DATASET", help="Says the input shape and classes of a model of yours."),
    ] = None,
    weights: options.Weights = None,
    interface: options.ModelInterface = options.PLAIN,
    store: options.StoreFolder = None,
    json: options.Json = None,
) -> None:
    """Write a model as ONNX or .pt2, its constrained layers folded to plain ones, its certificate inside."""
    from radii.models.io import check_export

    check_export(out)
    from radii.models.io.export import export as export_
    from radii.runs.component_specs import DataSpec
    from radii.runs.model_source import load_model

    folder, spec = options.open_store(store), None if on is None else DataSpec.of(on)
    data = None if spec is None else spec.load()
    source = options.open_model(model, folder, spec, interface, weights)
    if getattr(source, "format", "bundle") != "bundle":
        raise InputError(f"{model} is exported already; give a run, a bundle or FILE.py:factory.")
    loaded = load_model(source, folder, data)
    if not loaded.has_gradients:
        raise InputError(f"{model} only answers; it has no layers that could be written.")
    if data is not None:
        shape, classes, box = data.shape, data.classes, data.train.box
    elif (own := loaded.architecture) is not None:
        shape, classes, box = own.input_shape, own.classes, own.box
    else:
        raise InputError(f"{model} does not say its input shape and classes; name a dataset: --on DATASET.")
    with terminal.progress_shown():
        card = export_(loaded.model, out, shape, classes, box=box, certificate=certificate)
    rows: list[tuple[str, object]] = [("file", out), ("inputs", "x".join(map(str, shape)))]
    if certificate:
        proved = card["certificate"]
        rows.append(("Lipschitz constant", f"{proved['value']:.6g}"))
        for key, how in (("evaluation_error", "at most"), ("estimated_evaluation_error", "estimated")):
            error = f"{proved[key]:.2g}" if key in proved else "no bound"
            rows.append((f"float32 error of logits, {how}", error))
    terminal.show(json).print(terminal.table(listing(f"exported {loaded.name}", ("", ""), rows)))
    terminal.write_json({"file": str(out), **card}, json)
