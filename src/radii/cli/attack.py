"""``radii attack``: one attack on a model, its successes and their inputs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radii.cli import options, terminal
from radii.cli.evaluate import model_name
from radii.errors import InputError
from radii.tables import listing

if TYPE_CHECKING:
    from rich.console import Console

    from radii.runs.steps import AttackStep
    from radii.runs.store import Run


def attack(
    model: options.ModelName,
    dataset: options.DatasetName,
    threat: options.Threat,
    name: Annotated[
        str | None,
        typer.Option(
            "--attack",
            help="apgd-ce (square without gradients), apgd-dlr, apgd-t, fab-t, pgd, …",
            callback=options.registered("radii.attacks:ATTACKS"),
        ),
    ] = None,
    points: options.Points = 1000,
    weights: options.Weights = None,
    interface: options.ModelInterface = options.PLAIN,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Adversarial inputs, labels and successes as .npz.",
            callback=options.writable,
        ),
    ] = None,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    json: options.Json = None,
) -> None:
    """Try one attack on test points; its result is an upper bound of robust accuracy, no more."""
    if out is not None and out.suffix != ".npz":
        raise InputError(f"--out must end in .npz, got {out.name!r} instead.")
    from radii.attacks.by_name import attack_by_name, checked_name
    from radii.runs.component_specs import DataSpec
    from radii.runs.steps import AttackStep
    from radii.sparse_threat import attack_threat_of
    from radii.threat import Ball

    attack_by_name(name or "apgd-ce")  # what an import path names must be an attack
    ball, folder = attack_threat_of(threat), options.open_store(store, device)
    data = DataSpec.of(dataset)
    source = options.open_model(model, folder, data, interface, weights)
    if not isinstance(ball, Ball):
        name = checked_name(name, ball)
    name = name or ("square" if getattr(source, "answers_only", False) else "apgd-ce")
    step = AttackStep(model=source, data=data, ball=ball, attack=name, points=points, seed=seed)
    with terminal.progress_shown():
        run, seconds = terminal.compute(step, folder)
    result = run.read(AttackStep.Result)
    rows = [
        ("clean accuracy", result.clean),
        (f"accuracy under {name}", result.unbroken),
        ("broken by it", result.broken_by_attack),
        ("passes through the network", f"{result.passes:,}"),
        ("seconds", seconds),
        ("run", run.id),
    ]
    title = f"{model_name(source)} on {dataset}, threat {ball}"
    console = terminal.show(json)
    console.print(terminal.table(listing(title, ("", "value [95% interval]"), rows)))
    change = _smallest_change(run, step, console)
    asked = {"model": model_name(source), "dataset": dataset, "threat": str(ball), "attack": name, "seed": seed}
    terminal.write_json({"run": run.id, **asked, **result.to_json(), **change}, json)
    if out is not None:
        _write_inputs(run, out)


def _smallest_change(run: Run, step: AttackStep, console: Console) -> dict[str, Any]:
    """Of a table: the smallest change that broke a point, printed as a row of features, and as JSON data."""
    from radii.runs.steps.attack_step import smallest_change

    found = smallest_change(run, step)
    if found is None:
        return {}
    change, ball, label = found
    own = change.table(ball, label)
    console.print(terminal.table(own))
    console.print(own.note)
    return {"smallest_change": change.to_json()}


def _write_inputs(run: Run, path: Path) -> None:
    import numpy as np

    from radii.files import write_whole
    from radii.runs.record_files import read_record
    from radii.runs.steps.attack_step import INPUTS, AdversarialInputs

    inputs, buffer = read_record(run.folder / INPUTS, AdversarialInputs), io.BytesIO()
    np.savez_compressed(buffer, x=inputs.x_adv, y=inputs.label, broken=inputs.broken)
    write_whole(path, buffer.getvalue())
