"""``radii attack``: one attack on a model, its successes and their inputs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radii.cli import options, terminal
from radii.cli.evaluate import model_name
from radii.errors import InputError
from radii.tables import listing

if TYPE_CHECKING:
    from radii.runs.store import Run


def attack(
    model: options.ModelName,
    dataset: options.DatasetName,
    threat: options.Threat,
    name: Annotated[
        str | None, typer.Option("--attack", help="apgd-ce (square without gradients), apgd-dlr, apgd-t, fab-t, pgd, …")
    ] = None,
    points: options.Points = 1000,
    weights: options.Weights = None,
    interface: options.ModelInterface = options.PLAIN,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Adversarial inputs, labels and successes as .npz.")
    ] = None,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    json: options.Json = None,
) -> None:
    """Try one attack on test points; its result is an upper bound of robust accuracy, no more."""
    from radii.attacks.by_name import attack_by_name
    from radii.evaluation.accuracy import Accuracy
    from radii.runs.inputs import DataSpec
    from radii.runs.steps import AttackStep
    from radii.threat import Ball

    attack_by_name(name or "apgd-ce")  # a wrong name is reported before anything is loaded
    if out is not None and out.suffix != ".npz":
        raise InputError(f"--out must end in .npz, got {out.name!r} instead.")
    ball, folder = Ball.parse(threat), options.open_store(store, device)
    data = DataSpec.of(dataset)
    source = options.open_model(model, folder, data, interface, weights)
    name = name or ("square" if getattr(source, "answers_only", False) else "apgd-ce")
    step = AttackStep(model=source, data=data, ball=ball, attack=name, points=points, seed=seed)
    with terminal.progress_shown():
        run, seconds = terminal.compute(step, folder)
    result = run.result
    clean, unbroken = (Accuracy(result[key]["correct"], result[key]["total"]) for key in ("clean", "unbroken"))
    rows = [
        ("clean accuracy", clean),
        (f"accuracy under {name}", unbroken),
        ("broken by it", result["broken_by_attack"]),
        ("passes through the network", f"{result['passes']:,}"),
        ("seconds", seconds),
        ("run", run.id),
    ]
    title = f"{model_name(source)} on {dataset}, threat {ball}"
    terminal.show(json).print(terminal.table(listing(title, ("", "value [95% interval]"), rows)))
    asked = {"model": model_name(source), "dataset": dataset, "threat": str(ball), "attack": name, "seed": seed}
    terminal.write_json({"run": run.id, **asked, **result}, json)
    if out is not None:
        _write_inputs(run, out)


def _write_inputs(run: Run, path: Path) -> None:
    import numpy as np

    from radii.atomic import write_whole
    from radii.runs.steps.attack_step import load_adversarial

    arrays, buffer = load_adversarial(run.folder), io.BytesIO()
    x, y, broken = (arrays[name].numpy() for name in ("x_adv", "label", "broken"))
    np.savez_compressed(buffer, x=x, y=y, broken=broken)
    write_whole(path, buffer.getvalue())
