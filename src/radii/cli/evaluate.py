"""``radii evaluate``: how robust is this model on this data, between what is proved and what is broken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from radii.cli import terminal
from radii.cli.terminal import Device, Json, Plot, Seed, Trust
from radii.errors import InputError
from radii.tables import listing

if TYPE_CHECKING:
    from torch import Tensor, nn

    from radii.certificates.certificate import Certificate
    from radii.evaluation.scores import Scores
    from radii.threat import Ball

Model = Annotated[str, typer.Argument(help="A run, a bundle, package.module:factory, .pt2 or .onnx.")]
DatasetName = Annotated[str, typer.Argument(help="A name, a folder, .npz or parquet; +variant:arg may follow.")]
Threat = Annotated[str, typer.Option(help="NORM:RADIUS[,nobox], for example linf:8/255 or l2:0.5.")]
Points = Annotated[int, typer.Option(min=1, help="Points of the split, class-balanced; all if it has fewer.")]
Weights = Annotated[Path | None, typer.Option(help="Safetensors for package.module:factory.")]


def evaluate(
    model: Model,
    dataset: DatasetName,
    threat: Threat,
    suite: Annotated[str, typer.Option(help="fast, standard, audited, exhaustive, black-box or pgd.")] = "standard",
    points: Points = 1000,
    split: Annotated[str, typer.Option(help="test, train or both (then with gaps).")] = "test",
    weights: Weights = None,
    trust: Trust = None,
    surrogate: Annotated[str | None, typer.Option(help="A second model, for a transfer attack.")] = None,
    lipschitz: Annotated[bool, typer.Option("--lipschitz", help="Also the local Lipschitz constant.")] = False,
    certify: Annotated[bool, typer.Option(help="Prove first: margins, intervals, CROWN, alpha-CROWN.")] = True,
    pictures: Annotated[Path | None, typer.Option(help="The worst examples as one .png.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = None,
    plot: Plot = None,
) -> None:
    """Clean accuracy, the bracket of robust accuracy, broken radii and reasons to doubt them."""
    from radii.data import sources
    from radii.evaluation.evaluate import evaluate as evaluate_
    from radii.evaluation.splits import SplitScores, choose
    from radii.runs.reference import find_model
    from radii.threat import Ball

    ball = Ball.parse(threat)
    if split not in ("test", "train", "both"):
        raise InputError(f"--split must be test, train or both, got {split!r} instead.")
    data = sources.load(dataset)
    found = find_model(model, data, weights=weights, trust=trust or ())
    if not found.has_gradients and suite != "black-box":
        raise InputError(f"{model} gives no gradients: use --suite black-box.")
    net = found.model.to(device)
    other = None if surrogate is None else find_model(surrogate, data, trust=trust or ()).model.to(device)
    scores: dict[str, Scores] = {}
    console = terminal.show(json)
    with terminal.progress_shown():
        for name in ("train", "test") if split == "both" else (split,):
            part = data.train if name == "train" else data.test
            x, y = (tensor.to(device) for tensor in choose(part, points, seed))
            certificate, refusal = _certificate(net, x, ball) if certify else (None, None)
            scores[name] = evaluate_(
                net, x, y, ball, suite=suite, certificate=certificate, seed=seed, surrogate=other, lipschitz=lipschitz
            )
    for name, result in scores.items():
        _tell(console, f"{found.name} on {dataset} ({name}), threat {ball}, suite {suite}", result, data.classes)
    if certify and refusal:
        console.print(f"Nothing is proved: {escape(refusal)}")
    summary = {name: result.summary() for name, result in scores.items()}
    if split == "both":
        gaps = SplitScores(scores["train"], scores["test"]).gaps
        rows = [(name, f"{gap:+.3f}") for name, gap in gaps.items() if gap is not None]
        console.print(terminal.table(listing("Gaps, train minus test", ("", ""), rows)))
        terminal.write_json({"model": found.name, "dataset": dataset, **summary, "gaps": gaps}, json)
    else:
        only = {**summary[split], "table": scores[split].points.records()}
        terminal.write_json({"model": found.name, "dataset": dataset, "split": split, **only}, json)
    if plot is not None:
        from radii.evaluation.scores import curve_chart
        from radii.report.charts import save

        save(curve_chart(scores, f"{found.name} on {dataset}"), plot)
    if pictures is not None:
        _write_pictures(pictures, scores[name], x, console)


def _certificate(model: nn.Module, x: Tensor, ball: Ball) -> tuple[Certificate | None, str | None]:
    """The strongest proof of each point, or None and why there is none."""
    from radii.certificates.choose import choose

    chosen = choose(model, x, ball)
    return chosen.certificate, None if chosen.certificate else " ".join(chosen.refusals)


def _tell(console: Console, title: str, scores: Scores, classes: tuple[str, ...]) -> None:
    """The summary, the classes and the alarms, for people."""
    console.print(terminal.table(scores.table(title)))
    console.print(terminal.table(scores.class_table(classes)))
    if scores.audit is not None:
        console.print(escape(str(scores.audit)))
    for note in scores.notes:
        console.print(escape(note))
    for alarm in scores.alarms:
        console.print(f"[bold yellow]alarm, {escape(alarm.name)}:[/] {escape(alarm.message)}", soft_wrap=True)


def _write_pictures(path: Path, scores: Scores, x: Tensor, console: Console) -> None:
    from radii.atomic import write_whole
    from radii.data.gallery import encoded
    from radii.evaluation.examples import sheet, worst_examples

    examples = worst_examples(scores, x)
    if not examples:
        console.print("No correctly classified point was broken: there are no pictures.")
        return
    write_whole(path, encoded(sheet(examples), path))
    for example in examples:
        console.print(
            f"point {example.point}: {example.prediction} becomes {example.adversarial_prediction} "
            f"at distance {example.radius:.4g}"
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(evaluate)
