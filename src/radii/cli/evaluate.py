"""``radii evaluate``: how robust is this model on this data, between what is proved and what is broken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.markup import escape

from radii.cli import options, terminal
from radii.tables import listing

if TYPE_CHECKING:
    from radii.data.dataset import Data
    from radii.evaluation.scores import Scores
    from radii.runs.model_source import ModelSource
    from radii.runs.steps import Evaluate

Split = Literal["train", "test"]


def evaluate(
    model: options.ModelName,
    dataset: options.DatasetName,
    threat: options.Threat,
    suite: options.OptionalSuite = None,
    points: options.Points = 1000,
    split: Annotated[
        str,
        typer.Option(
            help="test, train, or both with their differences.", callback=options.one_of("test", "train", "both")
        ),
    ] = "test",
    weights: options.Weights = None,
    interface: options.ModelInterface = options.PLAIN,
    surrogate: Annotated[str | None, typer.Option(help="A second model, for a transfer attack.")] = None,
    lipschitz: Annotated[bool, typer.Option("--lipschitz", help="Also estimate the local Lipschitz constant.")] = False,
    certify: Annotated[bool, typer.Option(help="First prove what `radii certify --method auto` can prove.")] = True,
    complete: options.Complete = 0.0,
    pictures: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the worst examples into one .png file.", callback=options.writable),
    ] = None,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Clean accuracy, the bracket of robust accuracy, broken radii and reasons to doubt them."""
    from radii.attacks.suite import members
    from radii.change import threat_of
    from radii.runs.component_specs import DataSpec
    from radii.runs.steps import Evaluate
    from radii.runs.steps.evaluate_step import load_scores

    members(suite or "standard")  # a wrong name is reported before anything is loaded
    ball, folder = threat_of(threat), options.open_store(store, device)
    data = DataSpec.of(dataset)
    source = options.open_model(model, folder, data, interface, weights)
    other = (
        None
        if surrogate is None
        else options.open_model(surrogate, folder, data, options.ModelInterface(trust=interface.trust))
    )
    suite = options.suite_for(ball, suite) or getattr(source, "suite", "") or "standard"
    names = cast(tuple[Split, ...], ("train", "test") if split == "both" else (split,))
    steps = {
        name: Evaluate(
            model=source, data=data, ball=ball, suite=suite, points=points, seed=seed, split=name, certify=certify,
            lipschitz=lipschitz, surrogate=other, complete=complete,
        )
        for name in names
    }  # fmt: skip
    with terminal.progress_shown():
        runs = {name: terminal.compute(step, folder) for name, step in steps.items()}
    scores = {name: load_scores(run)[0] for name, (run, _) in runs.items()}
    console, loaded, title = terminal.show(json), data.load(), model_name(source)
    for name, result in scores.items():
        _print_scores(console, f"{title} on {dataset} ({name}), threat {ball}, suite {suite}", result, loaded.classes)
        run, seconds = runs[name]
        if refusal := run.read(Evaluate.Result).no_certificate_because:
            console.print(f"Nothing is proved: {escape(refusal)}")
        console.print(f"run {run.id}, seconds {seconds}", soft_wrap=True)
    ids = {name: run.id for name, (run, _) in runs.items()}
    content = {"model": title, "dataset": dataset, "runs": ids}
    terminal.write_json(content | _summary(scores, console), json)
    if plot is not None:
        from radii.evaluation.curves import curve_chart

        terminal.draw(curve_chart({str(name): own for name, own in scores.items()}, f"{title} on {dataset}"), plot)
    if pictures is not None:
        _write_pictures(pictures, scores[names[-1]], steps[names[-1]], loaded, console)


def model_name(source: ModelSource) -> str:
    """A model in a title: the run of a training, the name of a file, an import path."""
    return getattr(source, "run_id", None) or source.label


def _summary(scores: dict[Split, Scores], console: Console) -> dict[str, Any]:
    """The JSON content: one split with its table of points, or both splits with their gaps, which are printed."""
    if len(scores) == 1:
        ((split, result),) = scores.items()
        return {"split": split, **result.summary(), "table": result.points.records()}
    from radii.evaluation.scores import SplitScores

    gaps = SplitScores(scores["train"], scores["test"]).gaps
    rows = [(name, f"{gap:+.3f}") for name, gap in gaps.items() if gap is not None]
    console.print(terminal.table(listing("Gaps, train minus test", ("", ""), rows)))
    return {**{name: result.summary() for name, result in scores.items()}, "gaps": gaps}


def _print_scores(console: Console, title: str, scores: Scores, classes: tuple[str, ...]) -> None:
    """The summary, the classes and the alarms, for people."""
    console.print(terminal.table(scores.table(title)))
    by_class = scores.class_table(classes)
    console.print(terminal.table(by_class))
    console.print(by_class.note)
    if scores.survivor_bound is not None:
        console.print(escape(str(scores.survivor_bound)))
    for note in scores.notes:
        console.print(escape(note))
    for alarm in scores.alarms:
        console.print(f"[bold yellow]alarm, {escape(alarm.name)}:[/] {escape(alarm.message)}", soft_wrap=True)


def _write_pictures(path: Path, scores: Scores, step: Evaluate, data: Data, console: Console) -> None:
    from radii.data.gallery import encode
    from radii.evaluation.examples import sheet, worst_examples
    from radii.files import write_whole

    split = data.test if step.split == "test" else data.train
    examples = worst_examples(scores, split.tensors(step.rows(data))[0])
    if not examples:
        console.print("No correctly classified point was broken: there are no pictures.")
        return
    write_whole(path, encode(sheet(examples), path))
    for example in examples:
        console.print(
            f"point {example.point}: {example.prediction} becomes {example.adversarial_prediction} "
            f"at distance {example.radius:.4g}"
        )
