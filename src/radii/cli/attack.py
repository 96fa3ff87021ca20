"""``radii attack``: one attack on a model, its successes and their inputs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import typer

from radii.cli import terminal
from radii.cli.evaluate import DatasetName, Model, Points, Threat, Weights
from radii.cli.terminal import Device, Json, Seed, Trust
from radii.errors import InputError
from radii.tables import listing


def attack(
    model: Model,
    dataset: DatasetName,
    threat: Threat,
    name: Annotated[str, typer.Option("--attack", help="apgd-ce, apgd-dlr, apgd-t, fab-t, square, pgd, …")] = "apgd-ce",
    points: Points = 1000,
    weights: Weights = None,
    trust: Trust = None,
    out: Annotated[Path | None, typer.Option(help="Adversarial inputs, labels and successes as .npz.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = None,
) -> None:
    """Try one attack on test points; its result is an upper bound of robust accuracy, no more."""
    import numpy as np

    from radii.atomic import write_whole
    from radii.attacks.by_name import attack as attack_
    from radii.attacks.by_name import named
    from radii.data import sources
    from radii.evaluation.accuracy import accuracy
    from radii.evaluation.splits import choose
    from radii.models.classifier import predict
    from radii.runs.reference import find_model
    from radii.threat import Ball

    ball = Ball.parse(threat)
    named(name)  # a wrong name is told before anything is loaded
    if out is not None and out.suffix != ".npz":
        raise InputError(f"--out must end in .npz, got {out.name!r} instead.")
    data = sources.load(dataset)
    found = find_model(model, data, weights=weights, trust=trust or ())
    net = found.model.to(device)
    x, y = (tensor.to(device) for tensor in choose(data.test, points, seed))
    with terminal.progress_shown():
        clean = (predict(net, x) == y).cpu().numpy()
        result = attack_(net, x, y, ball, name=name, seed=seed)
    broken = result.broken.cpu().numpy()
    rows = [
        ("clean accuracy", accuracy(clean)),
        (f"accuracy under {name}", accuracy(~broken)),
        ("broken by it", int((broken & clean).sum())),
        ("passes through the network", f"{int(result.queries.sum()):,}"),
    ]
    console = terminal.show(json)
    console.print(
        terminal.table(listing(f"{found.name} on {dataset}, threat {ball}", ("", "value [95% interval]"), rows))
    )
    summary = {
        "model": found.name,
        "dataset": dataset,
        "threat": str(ball),
        "attack": name,
        "seed": seed,
        "clean": accuracy(clean).summary(),
        "unbroken": accuracy(~broken).summary(),
        "passes": int(result.queries.sum()),
    }
    terminal.write_json(summary, json)
    if out is not None:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, x=result.x_adv.cpu().numpy(), y=y.cpu().numpy(), broken=broken)
        write_whole(out, buffer.getvalue())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(attack)
