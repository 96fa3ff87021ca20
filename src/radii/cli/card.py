"""``radii card``: a model card from a run or a JSON result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from radii.cli import options, terminal


def card(
    result: Annotated[str, typer.Argument(metavar="RUN|JSON", help="An evaluate or gate run, or its --json.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The card, .md.", callback=options.own_by_default)
    ] = Path("MODEL_CARD.md"),
    store: options.StoreFolder = None,
) -> None:
    """Write a model card: front matter for the Hugging Face hub, and the figures in words."""
    from radii.errors import InputError
    from radii.spec import read_json

    path = Path(result)
    if path.suffix == ".json" and not path.is_file():
        raise InputError(f"There is no file {path}; radii gate … --json {path} writes one.")
    content = read_json(path, "a result of radii") if path.is_file() else _of_run(result, store)
    from radii.files import write_sealed
    from radii.report.result_files import card as card_

    write_sealed(out, card_(content, result).encode(errors="replace"))
    terminal.show().print(f"card: {out}", markup=False)


def _of_run(reference: str, store: Path | None) -> dict[str, Any]:
    """The result of a run with the names of its model and data."""
    from radii.errors import InputError

    run = options.open_store(store).find(reference)
    from radii.runs.step import from_json
    from radii.runs.steps import Evaluate, Gate

    step = from_json(run.spec)
    if not isinstance(step, Evaluate | Gate):
        raise InputError(f"The run {run.id} is neither an evaluation nor a gate.")
    names = {"model": step.model.label, "dataset": step.data.source}
    return {**names, **run.result.to_json(), "environment": run.environment}
