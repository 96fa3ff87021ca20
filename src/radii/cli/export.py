"""``radii export``: a model for use without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radii.cli import terminal
from radii.cli.options import Json, StoreFolder, Trust, open_store
from radii.errors import InputError
from radii.tables import listing


def export(
    model: Annotated[str, typer.Argument(help="A run or a bundle.")],
    out: Annotated[Path, typer.Argument(help="FILE.onnx or FILE.pt2.")],
    certificate: Annotated[bool, typer.Option(help="Prove the Lipschitz constants and put them in the file.")] = True,
    trust: Trust = None,
    store: StoreFolder = None,
    json: Json = None,
) -> None:
    """Write a model as ONNX or .pt2, its constrained layers folded to plain ones, its certificate inside."""
    from radii.models.io.export import export as export_
    from radii.runs.model_source import find_model, load_model

    folder = open_store(store)
    source = find_model(model, trust=trust or (), store=folder)
    loaded = load_model(source, folder)
    if loaded.architecture is None:
        raise InputError(f"{model} is exported already; give a run or a bundle.")
    shape, classes = loaded.architecture.input_shape, loaded.architecture.classes
    with terminal.progress_shown():
        card = export_(loaded.model, out, shape, classes, box=loaded.architecture.box, certificate=certificate)
    rows: list[tuple[str, object]] = [("file", out), ("inputs", "x".join(map(str, shape)))]
    if certificate:
        proved = card["certificate"]
        rows.append(("Lipschitz constant", f"{proved['value']:.6g}"))
        for key, how in (("evaluation_error", "at most"), ("estimated_evaluation_error", "estimated")):
            error = f"{proved[key]:.2g}" if key in proved else "no bound"
            rows.append((f"float32 error of logits, {how}", error))
    terminal.show(json).print(terminal.table(listing(f"exported {loaded.name}", ("", ""), rows)))
    terminal.write_json({"file": str(out), **card}, json)
