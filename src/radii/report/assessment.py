"""The report of an assessment: from its runs to a page that reads from top to bottom."""

from __future__ import annotations

from dataclasses import replace
from math import prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from radii.change import Change, radius_words, threat_words
from radii.data.corruptions import SEVERITIES
from radii.evaluation.accuracy import Accuracy, comparing, radius_quantile
from radii.evaluation.curves import curve_chart
from radii.evaluation.examples import worst_examples
from radii.evaluation.scores import CLASS_SHARES
from radii.registry import Registry
from radii.report.explorer import Explorer
from radii.report.findings import (
    bracket_finding,
    class_finding,
    confusions,
    corruption_finding,
    data_finding,
    data_radius,
    most_proved,
    training_finding,
    verdict,
)
from radii.report.galleries import Example, Gallery, Picture, data_uri, perturbation
from radii.report.glossary import words_section
from radii.report.html import Bar, Bars, Card, Cards, Commands, Prose, Report, Section
from radii.report.next_steps import command, issues
from radii.report.points import Neighbors, explorer
from radii.report.ranking import ordered
from radii.runs.step import Step
from radii.studies.assess import AssessedModel, Assessment
from radii.studies.assessment_defaults import REFERENCES
from radii.tables import MISSING, ChartSpec, Field, Rule, Table, Toward, format_radius, listed, round_toward, table
from radii.threat import NORM_NAMES, Ball

if TYPE_CHECKING:
    from radii.evaluation.scores import Scores
    from radii.studies.scaling_forecast import Forecast

GROWTH = (
    "The certified network on nested parts of the training data, two seeds each, all trained for the same number of "
    "steps: half of those above, so its accuracy is lower than above."
)
POINTS = (
    "Each square is a test point. Move the radius, choose a class or a state, and click a point to see what broke or "
    "proved it."
)
MEDIANS = "Medians are over all points; a wrongly classified point counts 0."
MOST_CLASSES = 20  # that have a bar
CORRUPTIONS = (
    "Accuracy on the test points of the report, corrupted by radii's own code: not comparable with published corrupted "
    "test sets. Nothing is proved about corruptions."
)
OTHER_COLORS = 3  # blue, orange and teal mean proved, broken and possible
SECTIONS = Registry("section", {})


def page(assessment: Assessment) -> Report:
    """The whole page: models, what to do next, curves, points, classes, examples, data, claims, how to reproduce."""
    best = most_proved(assessment)
    names, data = assessment.data.classes, assessment.data
    sections = [
        Section(
            bracket_finding(assessment),
            (_bracket(assessment), _headline(assessment, best), *_doubts(assessment)),
            f"{len(best.rows):,} test points, chosen evenly over the classes. For each model the true curve lies "
            "between its blue and its orange line. Blue is a guarantee. Orange is what the attacks could not break; "
            "stronger attacks may lower it.",
            "Radius",
        ),
        Section("Every test point", (_points(assessment),), POINTS, "Points"),
        Section(
            class_finding(best.scores, names),
            (_by_class(assessment, best), _confusions(best.scores, names)),
            short="Classes",
        ),
        Section(data_finding(assessment), (_separation(assessment),), " ".join(assessment.limits.verdict), "Data"),
        Section(training_finding(assessment), (_trainings(assessment), *_learning(assessment)), short="Training"),
    ]
    if data.train.is_image and data.shape[0] in (1, 3):
        pictures = tuple(_gallery(assessment, model) for model in assessment.models)
        sections.insert(3, Section("Images that break with the smallest change", pictures, short="Images"))
    if assessment.corrupted:
        sections.append(Section(corruption_finding(assessment), _corruptions(assessment), CORRUPTIONS, "Corruptions"))
    if assessment.forecast is not None:
        sections.append(Section("What more data would bring", _growth(assessment.forecast), GROWTH, "More data"))
    sections += published_sections(assessment).values()
    sections.append(words_section())
    sections.append(Section("How to reproduce", (_reproduction(assessment),), short="Reproduce"))
    own = listed([model.name for model in assessment.own])
    return Report(
        title=f"How robust is {own or 'a classifier'} on {assessment.source}?",
        subtitle=_subtitle(assessment),
        verdict=verdict(assessment),
        headline=(_models(assessment), issues(assessment)),
        sections=tuple(sections),
        facts=_facts(assessment),
    )


def _facts(assessment: Assessment) -> dict[str, str]:
    """When and with what it was measured."""
    met = {model.scores.attacks for model in assessment.models}
    return {
        "measured": f"{max(model.evaluation.committed for model in assessment.models):%Y-%m-%d}",
        "attacks": met.pop() if len(met) == 1 else "differ, see below",
        "points": f"{len(assessment.models[0].rows):,}",
        "test data": f"sha256 {assessment.data.test.digest[:12]}",
        "radii": assessment.models[0].evaluation.environment["versions"]["radii"],
    }


def _models(assessment: Assessment) -> Bars:
    """A line for each model: the user's own first, the most proved first, references named as such."""
    alike = len({model.scores.attacks for model in assessment.models}) == 1
    bars = []
    for model in ordered(assessment.models):
        own = model.scores
        notes = (*_identity(model), *(() if alike else (own.attacks,)))
        tag = "reference, trained here" if model.name in REFERENCES else ""
        bars.append(Bar(model.name, own.clean, own.robust, None, tag, notes, own.certificate_method is not None))
    title = f"Share of test points within {_threat_words(assessment.ball)}"
    note = (
        "Proved: no change within ε can alter the answer. Open: neither proved nor broken. Broken: an attack found an "
        "error. Robust accuracy lies between the proved and the unbroken share, which is proved and open together; the "
        "line below each bar is its 95% interval: where the share of all inputs of this kind may be. "
        f"{_size(assessment)}{_who(assessment)}"
    )
    return Bars(title, tuple(bars), note, _outcome(assessment))


def _who(assessment: Assessment) -> str:
    """What the references on this page are; empty where there are none."""
    found = [f"{name} ({REFERENCES[name]})" for name in REFERENCES if name in [own.name for own in assessment.models]]
    return f" Networks that radii trained for comparison: {', '.join(found)}." if found else ""


def _identity(model: AssessedModel) -> tuple[str, ...]:
    """What tells this model from any other: its file and hash, or the run that trained it."""
    if model.training is not None:
        return (_run(model.training.id),)
    source = model.source
    if source is None:
        return ()
    if isinstance(source, Step):
        return (_run(source.run_id),)
    file = getattr(source, "weights", "") or getattr(source, "path", "")
    name = f"{Path(file).name} " if file and Path(file).name != model.name else ""
    return (f"{name}sha256 {source.sha256[:12]}",)


def _run(name: str) -> str:
    """A run by the beginning of its hash, which commands take."""
    kind, _, content = name.rpartition("-")
    return f"run {kind}-{content[:8]}"


def _points(assessment: Assessment) -> Explorer:
    """Every test point under every model."""
    models = ordered(assessment.models)
    rows, limits = models[0].rows, assessment.limits
    near = None
    if limits.nearest is not None:
        near = Neighbors(assessment.data.train, limits.nearest[rows], limits.distances["test"][rows])
    scores = {model.name: model.scores for model in models if np.array_equal(model.rows, rows)}
    return explorer(scores, assessment.data.test, rows, f"{len(rows):,} test points", near)


def _threat_words(threat: Ball | Change) -> str:
    """``L2, ε = 0.5``."""
    return f"{threat_words(threat)}, ε = {format_radius(threat.radius)}"


def _subtitle(assessment: Assessment) -> str:
    """Dataset, sizes and threat in one line."""
    count = len(assessment.data.train) + len(assessment.data.test)
    shape = "×".join(
        str(side) for side in (assessment.data.shape[1:] if assessment.data.train.is_image else assessment.data.shape)
    )
    kind = f"images of {shape} pixels" if assessment.data.train.is_image else f"points of {shape} features"
    said = f"{count:,} {kind} in {len(assessment.data.classes)} classes · threat {_threat_words(assessment.ball)}"
    reason = assessment.why_threat.partition(" ")[2]  # without the threat itself
    return f"{said}: {reason}" if reason else said


def _size(assessment: Assessment) -> str:
    """What a distance of ε is to an eye."""
    ball, data = assessment.ball, assessment.data
    epsilon, values = format_radius(ball.radius), prod(data.shape)
    if isinstance(ball, Change):
        return f"A radius is a {radius_words(ball)}; clipping to [0, 1] is part of the change."
    if not data.train.is_image:
        return "Distances count in units of each feature." if ball.scale or ball.unit else ""
    if ball.norm == "linf":
        return f"ε = {epsilon} changes every pixel by at most {ball.radius:.1%} of its range."
    each = ball.radius / (values if ball.norm == "l1" else sqrt(values))
    one = f", or one by {ball.radius:.0%}" if ball.radius < 1 else ""
    return f"ε = {epsilon} changes all {values:,} pixel values by {each:.1%} of their range{one}, or anything between."


def _headline(assessment: Assessment, best: AssessedModel) -> Cards:
    """The three radii of the subject, and the one that the data allows."""
    distances = assessment.limits.distances["test"]
    possible = radius_quantile(distances / 2, np.ones(len(distances), bool))
    proved, broken = (best.scores.median_radius(bound) for bound in ("proved", "broken"))
    beyond = "; farther out, being right around one point is being wrong around another" if possible < broken else ""
    tried, found = best.scores.certificate_method is not None, bool(np.isfinite(broken))
    held = "half of the points are proved at least up to this distance" if tried else "no certificate was tried or fits"
    lost = "half of the points were broken at or below this distance" if found else "fewer than half were broken"
    cards = [
        Card("proved", _number(proved, "down"), held, "proved", "≤"),
        _truth(assessment, best),
        Card("broken", _number(broken, "up") if found else MISSING, lost, "broken"),
    ]
    if isinstance(assessment.ball, Ball):  # the distances of the data are in its norm
        cards.append(Card("possible", _number(possible), f"half the distance to another class{beyond}", "possible"))
    return Cards(tuple(cards), f"{best.name}: median radius over all test points (0 if misclassified)")


def _truth(assessment: Assessment, best: AssessedModel) -> Card:
    """For how many points proved and broken radius meet: of the subject, then of the other classifiers."""
    known = {model.name: model.scores.radius_known() for model in (best, *assessment.models)}
    if not any(share.correct for share in known.values()):
        return Card(
            "true",
            "?",
            "the exact radius is not computed; --complete 10 searches for it, 10 seconds per point",
            "true",
            "≤",
        )
    others = "".join(
        f"; {name}: {share.correct} of {share.total}" for name, share in known.items() if name != best.name
    )
    mine = known[best.name]
    said = f"{mine.correct} of {mine.total} predictions have a known true radius (to 1%){others}"
    return Card("true", f"{mine.value:.0%}", said, "true", "≤")


def _separation(assessment: Assessment) -> ChartSpec:
    """Histogram of the possible radius of training and test points."""
    names = {"train": "training points", "test": "test points"}
    rows = [
        {"radius": d / 2, "split": names[split]}
        for split, values in assessment.limits.distances.items()
        for d in values
    ]
    share = assessment.limits.share_possible
    around = assessment.around
    epsilon = data_radius(assessment)
    title = (
        f"All points are far enough apart: {epsilon} is possible for every test point"
        if share == 1
        else f"{epsilon} is possible for {share:.1%} of the test points"
    )
    return ChartSpec(
        "histogram",
        rows,
        Field("radius", f"possible radius: half the {NORM_NAMES[around.norm]} distance to another class"),
        series="split",
        first_color=OTHER_COLORS,
        title=title,
        note="Two points of different classes cannot both be robust beyond half their distance. The smallest is "
        f" {_number(assessment.limits.least_distance / 2)}.",
        rules=[Rule(around.radius, epsilon)],
    )


def _trainings(assessment: Assessment) -> Table:
    """What was trained and how well it fits; of the user's own models their clean accuracy."""
    rows: list[dict[str, Any]] = []
    for model in assessment.models:
        if (fit := model.fit) is None:
            clean = model.scores.clean
            rows.append({"classifier": model.name, "network": "your own", "test_accuracy": clean.value, **clean.ends()})
            continue
        test = Accuracy(round(fit.result.test_accuracy * len(assessment.data.test)), len(assessment.data.test))
        rows.append(
            {
                "classifier": model.name,
                "network": fit.step.model.name,
                "method": fit.step.method.name,
                "parameters": fit.result.parameters,
                "seconds": fit.seconds,
                "train_accuracy": fit.result.train_accuracy,
                "test_accuracy": fit.result.test_accuracy,
                **test.ends(),
            }
        )
    columns: list[Field | str] = [
        "classifier",
        "network",
        "method",
        "parameters",
        "seconds",
        Field("train_accuracy", percent=True),
        Field("test_accuracy", percent=True, low="low", high="high"),
    ]
    trained = [model.name for model in assessment.models if model.fit is not None]
    title = f"Trained here as references: {listed(trained)}" if trained else "Your own models"
    return table(rows, columns, title)


def _learning(assessment: Assessment) -> tuple[ChartSpec, ...]:
    """Accuracy over the epochs of the classifiers trained here."""
    rows = [
        {**row, "classifier": model.name}
        for model in assessment.models
        if model.fit is not None
        for row in model.fit.accuracy_rows()
    ]
    if not rows:
        return ()
    ends = {row["classifier"]: row["accuracy"] for row in rows if row["split"] == "test"}
    chart = ChartSpec(
        "curves",
        rows,
        Field("epoch"),
        Field("accuracy", percent=True),
        "split",
        dash="classifier",
        first_color=OTHER_COLORS,
        title=f"Test accuracy ends at {listed([f'{end:.1%} ({name})' for name, end in ends.items()])}",
        note="Training accuracy is a running mean over each epoch, test accuracy is measured after it. A dot is a test "
        "accuracy that was measured at the end only.",
    )
    return (chart,)


def _bracket(assessment: Assessment) -> ChartSpec:
    """Robust accuracy over the radius: what is proved and what attacks left, for each classifier."""
    scores = {model.name: model.scores for model in assessment.models}
    chart = curve_chart(scores, assessment.source, "classifier")
    at = f"At ε = {format_radius(assessment.ball.radius)}"
    shares = {name: own.robust.proved.value for name, own in scores.items() if own.certificate_method is not None}
    if not shares:
        left = ", ".join(f"{own.robust.unbroken.value:.0%} of {name}" for name, own in scores.items())
        return replace(chart, title=f"{at} attacks left {left}")
    first, *others = sorted(shares, key=lambda name: -shares[name])
    said = f"{first} is proved right on {shares[first]:.0%} of the points"
    return replace(chart, title=", ".join([f"{at} {said}", *(f"{name} on {shares[name]:.0%}" for name in others)]))


def _outcome(assessment: Assessment) -> Table:
    """The bracket at the threat's radius, in numbers."""
    columns = ("classifier", "clean", "proved", "unbroken", "kept", "attacks", "certificate", "passes")
    title = f"Robust accuracy under {_threat_words(assessment.ball)}, with 95% intervals"
    note = (
        "Attacks: the suite that each classifier met, and what was tried beside it. Passes: images through the network."
    )
    return replace(assessment.table().select(*columns, title=title), note=note)


def _doubts(assessment: Assessment) -> list[Prose]:
    """Models that met unlike attacks, reasons to doubt what attacks left standing, and notes on the certificates."""
    said = list(assessment.warnings)
    for model in assessment.models:
        said += [f"{model.name}: {alarm.message}" for alarm in model.scores.alarms]
        said += [f"{model.name}: {note}" for note in model.scores.notes]
    return [Prose(text) for text in said]


def _by_class(assessment: Assessment, best: AssessedModel) -> Bars:
    """The best classifier class by class, the weakest first; the table of numbers is behind a click."""
    classes = sorted(best.scores.per_class(), key=lambda own: own.strength)
    level = comparing(len(classes), len(CLASS_SHARES))
    tried = best.scores.certificate_method is not None
    bars = []
    for own in classes[:MOST_CLASSES]:
        proved, unbroken = (share.ends(confidence=level) for share in (own.robust.proved, own.robust.unbroken))
        ends = proved["low"], unbroken["high"]
        bars.append(Bar(assessment.data.classes[own.label], own.clean, own.robust, ends, tried=tried))
    title = f"{best.name} under {_threat_words(assessment.ball)}"
    table = best.scores.class_table(assessment.data.classes, title)
    numbers = replace(table, note=f"{table.note} {MEDIANS}")
    left_out = len(classes) - len(bars)
    shown = f"The {len(bars)} weakest classes; {left_out} more are in the numbers. " if left_out else ""
    note = f"{shown}The weakest class comes first. Intervals are made for comparing classes."
    return Bars(title, tuple(bars), note, numbers)


def _confusions(scores: Scores, names: tuple[str, ...]) -> Table | Prose:
    """Which class broken points are read as; a sentence where there are none."""
    pairs = confusions(scores, names)
    return pairs if pairs.rows else Prose(f"{pairs.title} within ε.")


def _gallery(assessment: Assessment, model: AssessedModel, count: int = 4) -> Gallery:
    """The correctly classified points with the nearest errors: clean, perturbation, adversarial."""
    rows, names = model.rows, assessment.data.classes
    examples = []
    for worst in worst_examples(model.scores, assessment.data.test.tensors(rows)[0], count):
        strip = (
            Picture(data_uri(worst.clean), f"read as {names[worst.prediction]}"),
            Picture(perturbation(worst.clean, worst.adversarial), "difference"),
            Picture(data_uri(worst.adversarial), f"read as {names[worst.adversarial_prediction]}"),
        )
        proved = model.scores.points.proved_radius[worst.point]
        note = f"proved {_number(proved, 'down')} ≤ true ≤ broken {_number(worst.radius, 'up')}"
        label = names[int(model.scores.points.label[worst.point])]
        examples.append(Example(f"Class {label}, point {int(rows[worst.point])}", strip, note))
    epsilon = f"ε = {format_radius(assessment.ball.radius)}"
    title = (
        f"{model.name}: the points that break first" if examples else f"{model.name}: no point broke within {epsilon}"
    )
    return Gallery(
        title,
        tuple(examples),
        f"By the {model.scores.suite} suite within {_threat_words(assessment.ball)}. Differences have their contrast "
        "enhanced.",
    )


def _corruptions(assessment: Assessment) -> tuple[Table, ...]:
    """Accuracy by kind and severity, a table for each model."""
    tables = []
    for name, own in assessment.corrupted.items():
        rows: list[dict[str, Any]] = [
            {"kind": each.kind, "mean": sum(each.correct) / (len(each.correct) * own.points)}
            | {str(level): count / own.points for level, count in enumerate(each.correct, 1)}
            for each in own.kinds
        ]
        levels = [Field(str(level), f"severity {level}", percent=True) for level in range(1, SEVERITIES + 1)]
        title = f"{name}: clean {own.clean / own.points:.1%}, mean over all kinds and severities {own.mean:.1%}"
        tables.append(table(rows, ["kind", *levels, Field("mean", percent=True)], title))
    return tuple(tables)


def _growth(forecast: Forecast | str) -> tuple[ChartSpec | Prose, ...]:
    """Proved accuracy over the number of training points, and how much data five more points need."""
    if isinstance(forecast, str):
        return (Prose(f"No forecast: {forecast}"),)
    return forecast.chart(), Prose(f"Five more points of proved accuracy: {forecast.verdict}")


def published_sections(assessment: Assessment) -> dict[str, Section]:
    """What other packages say about it: entry points ``(assessment) -> Section | None`` of the group radii.sections."""
    made = {name: SECTIONS.entry(name)(assessment) for name in SECTIONS}
    return {name: section for name, section in made.items() if section is not None}


def _reproduction(assessment: Assessment) -> Commands:
    """The command that made this page and where its runs are."""
    environment = assessment.models[0].evaluation.environment
    shown = {
        **environment["versions"],
        "python": environment["python"],
        "seed": str(assessment.seed),
        "threads per worker": str(environment["threads"]),
        "audit": assessment.audit.id,
    }
    for model in assessment.models:
        shown |= {} if model.training is None else {f"{model.name} training": model.training.id}
        shown[f"{model.name} evaluation"] = model.evaluation.id
    return Commands((command(assessment), "radii runs"), shown)


def _number(value: float, toward: Toward = "nearest") -> str:
    """Two significant digits; what is proved must be rounded down, what is broken up."""
    return f"{round_toward(value, 2, toward):g}" if np.isfinite(value) else "∞"
