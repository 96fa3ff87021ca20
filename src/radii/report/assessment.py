"""The report of an assessment: from its runs to a page that reads from top to bottom."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from radii.evaluation.accuracy import ROBUST_ACCURACY, Accuracy, radius_quantile
from radii.evaluation.examples import worst_examples
from radii.report.findings import (
    advice,
    bracket_finding,
    class_finding,
    confusions,
    data_finding,
    most_proved,
    training_finding,
)
from radii.report.galleries import Example, Gallery, Picture, data_uri, perturbation
from radii.report.html import Card, Cards, Commands, Prose, Report, Section
from radii.report.observations import observations
from radii.rounding import Toward, format_radius, round_toward
from radii.studies.assess import AssessedModel, Assessment
from radii.tables import ChartSpec, Field, Rule, Table, table
from radii.threat import Ball

if TYPE_CHECKING:
    from radii.studies.scaling_forecast import Forecast

GROWTH = (
    "The certified network on nested parts of the training data, two seeds each, all trained for the same number of "
    "steps: half of those above, so the last of them proves somewhat less than the classifier above."
)
MEDIANS = "Medians are over all points; a wrongly classified point counts 0."
OTHER_COLORS = 3  # blue, orange and teal mean proved, broken and possible
NORM_NAMES = {"l1": "L1", "l2": "L2", "linf": "L∞"}


def page(assessment: Assessment) -> Report:
    """The whole page: advice, three radii, data, classifiers, bracket, classes, examples, claims, how to reproduce.

    Args:
        assessment: the data, the classifiers and their results.

    Returns:
        The report, to be rendered by :func:`radii.report.html.render`.
    """
    best = most_proved(assessment)
    names = assessment.data.classes
    sections = [
        Section(
            bracket_finding(assessment),
            (_bracket(assessment), _outcome(assessment), *_doubts(assessment)),
            f"{len(best.rows):,} test points, chosen evenly over the classes. The truth lies between the two lines "
            "of a pattern: no attack can go below the proved one, and the other is what attacks left standing.",
        ),
        Section(class_finding(best.scores, names), (_by_class(assessment, best), confusions(best.scores, names))),
        Section(data_finding(assessment), (_separation(assessment),), " ".join(assessment.limits.verdict)),
        Section(training_finding(assessment), (_trainings(assessment), *_learning(assessment))),
    ]
    if assessment.data.train.is_image and assessment.data.shape[0] in (1, 3):
        pictures = tuple(_gallery(assessment, model) for model in assessment.models)
        sections.insert(2, Section("The first to break", pictures))
    if assessment.forecast is not None:
        sections.append(Section("What more data would bring", _growth(assessment.forecast), GROWTH))
    if seen := on_claims(assessment).rows:
        lead = "Claims that these figures bear on."
        sections.append(Section(f"Statements of papers: {len(seen)} judged", (on_claims(assessment),), lead))
    sections.append(Section("How to reproduce", (_reproduction(assessment),)))
    own = " and ".join(model.name for model in assessment.own)
    return Report(
        title=f"How robust is {own or 'a classifier'} on {assessment.source}?",
        subtitle=_subtitle(assessment),
        verdict=advice(assessment),
        headline=(_headline(assessment, best),),
        sections=tuple(sections),
    )


def _threat_words(ball: Ball) -> str:
    """``L2, ε = 0.5``."""
    return f"{NORM_NAMES[ball.norm]}, ε = {format_radius(ball.radius)}"


def _subtitle(assessment: Assessment) -> str:
    """Dataset, sizes and threat in one line."""
    count = len(assessment.data.train) + len(assessment.data.test)
    shape = "×".join(
        str(side) for side in (assessment.data.shape[1:] if assessment.data.train.is_image else assessment.data.shape)
    )
    kind = f"images of {shape} pixels" if assessment.data.train.is_image else f"points of {shape} features"
    said = f"{count:,} {kind} in {len(assessment.data.classes)} classes · threat {_threat_words(assessment.ball)}"
    reason = assessment.why_threat.partition(" ")[2]  # without the threat itself
    return f"{said} {reason}" if reason else said


def _headline(assessment: Assessment, best: AssessedModel) -> Cards:
    """The three radii of the subject, and the one that the data allows.

    Args:
        assessment: the assessment.
        best: the classifier that the report is about.
    """
    distances = assessment.limits.distances["test"]
    possible = radius_quantile(distances / 2, np.ones(len(distances), bool))
    proved, broken = (best.scores.median_radius(bound) for bound in ("proved", "broken"))
    beyond = "; farther out, being right around one point is being wrong around another" if possible < broken else ""
    cards = (
        Card("proved", _number(proved, "down"), "half of the points are proved at least this far", "proved", "≤"),
        _truth(assessment, best),
        Card("broken", _number(broken, "up"), "the best attack breaks half of the points within it", "broken"),
        Card("possible", _number(possible), f"half the distance to another class{beyond}", "possible"),
    )
    return Cards(cards, f"Median radii of {best.name}: over all points, 0 for a wrongly classified one")


def _truth(assessment: Assessment, best: AssessedModel) -> Card:
    """For how many points proved and broken radius meet: of the subject, then of the other classifiers."""
    known = {model.name: model.scores.radius_known() for model in (best, *assessment.models)}
    if not any(share.correct for share in known.values()):
        return Card("true", "?", "no point's radius is known; --complete SECONDS closes brackets", "true", "≤")
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
    epsilon = format_radius(assessment.ball.radius)
    title = (
        f"All points are far enough apart: ε = {epsilon} is possible for every test point"
        if share == 1
        else f"ε = {epsilon} is possible for {share:.1%} of the test points"
    )
    return ChartSpec(
        "histogram",
        rows,
        Field("radius", f"possible radius: half the {NORM_NAMES[assessment.ball.norm]} distance to another class"),
        series="split",
        first_color=OTHER_COLORS,
        title=title,
        note="Beyond half the distance to the nearest training point of another class no classifier can be right "
        f"around both. The smallest is {_number(assessment.limits.least_distance / 2)}.",
        rules=[Rule(assessment.ball.radius, f"ε = {epsilon}")],
    )


def _trainings(assessment: Assessment) -> Table:
    """What was trained and how well it fits; of the user's own models their clean accuracy."""
    rows: list[dict[str, Any]] = []
    for model in assessment.models:
        if model.fit is None:
            clean = model.scores.clean
            rows.append({"classifier": model.name, "network": "your own", "test_accuracy": clean.value, **clean.ends()})
            continue
        test = Accuracy(round(model.fit.test_accuracy * len(assessment.data.test)), len(assessment.data.test))
        rows.append({"classifier": model.name, **vars(model.fit), **test.ends()})
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
    title = f"Trained here as references: {' and '.join(trained)}" if trained else "Your own models"
    return table(rows, columns, title)


def _learning(assessment: Assessment) -> tuple[ChartSpec, ...]:
    """Accuracy over the epochs of the classifiers trained here."""
    fits = {model.name: model.fit for model in assessment.models if model.fit is not None}
    rows = [
        {"epoch": epoch["number"] + 1, "accuracy": epoch[f"{split}_accuracy"], "classifier": name, "split": split}
        for name, fit in fits.items()
        for epoch in fit.history
        for split in ("train", "test")
    ]
    if not rows:
        return ()
    ends = [f"{fit.test_accuracy:.1%} ({name})" for name, fit in fits.items()]
    chart = ChartSpec(
        "curves",
        rows,
        Field("epoch"),
        Field("accuracy", percent=True),
        "split",
        dash="classifier",
        first_color=OTHER_COLORS,
        title=f"Test accuracy ends at {' and '.join(ends)}",
        note="Training accuracy is a running mean over each epoch, test accuracy is measured after it.",
    )
    return (chart,)


def _bracket(assessment: Assessment) -> ChartSpec:
    """Robust accuracy over the radius: what is proved and what attacks left, for each classifier."""
    reach = [model.scores.points.broken_radius for model in assessment.models]
    finite = np.concatenate([values[np.isfinite(values)] for values in reach])
    top = max(2 * assessment.ball.radius, float(np.quantile(finite, 0.98)) if len(finite) else 0.0)
    radii = np.linspace(0, top, 81).tolist()
    best = most_proved(assessment)
    rest = [model for model in assessment.models if model is not best]
    epsilon = format_radius(assessment.ball.radius)
    others = "".join(f", {model.name} on {model.scores.robust.proved.value:.0%}" for model in rest)
    return ChartSpec(
        "curves",
        [row for model in assessment.models for row in model.scores.curve_rows(radii, classifier=model.name)],
        Field("radius", f"{NORM_NAMES[assessment.ball.norm]} radius"),
        ROBUST_ACCURACY,
        "bound",
        dash="classifier",
        title=f"At ε = {epsilon} {best.name} is proved right on "
        f"{best.scores.robust.proved.value:.0%} of the points{others}",
        note="Blue: proved, whatever the attack. Orange: unbroken by the attacks tried. Bands: 95% intervals.",
        rules=[Rule(assessment.ball.radius, f"ε = {epsilon}")],
    )


def _outcome(assessment: Assessment) -> Table:
    """The bracket at the threat's radius, in numbers."""
    columns = ("classifier", "clean", "proved", "unbroken", "kept", "certificate", "passes")
    title = f"Robust accuracy under {_threat_words(assessment.ball)}, with 95% intervals"
    suite = assessment.models[0].scores.suite
    note = f"Attacks: the {suite} suite, then minimum-norm. Passes: images through the network."
    return replace(assessment.table().select(*columns, title=title), note=note)


def _doubts(assessment: Assessment) -> list[Prose]:
    """Alarms: reasons to doubt what attacks left standing, and notes on the certificates."""
    said = []
    for model in assessment.models:
        said += [f"{model.name}: {alarm.message}" for alarm in model.scores.alarms]
        said += [f"{model.name}: {note}" for note in model.scores.notes]
    return [Prose(text) for text in said]


def _by_class(assessment: Assessment, best: AssessedModel) -> Table:
    """The best classifier class by class."""
    title = f"{best.name} under {_threat_words(assessment.ball)}"
    return replace(best.scores.class_table(assessment.data.classes, title), note=MEDIANS)


def _gallery(assessment: Assessment, model: AssessedModel, count: int = 4) -> Gallery:
    """The correctly classified points with the nearest errors: clean, perturbation, adversarial.

    Args:
        assessment: the assessment.
        model: one of its classifiers.
        count: how many points.
    """
    rows, names = model.rows, assessment.data.classes
    examples = []
    for worst in worst_examples(model.scores, assessment.data.test.tensors(rows)[0], count):
        strip = (
            Picture(data_uri(worst.clean), f"read as {names[worst.prediction]}"),
            Picture(perturbation(worst.clean, worst.adversarial), "perturbation, stretched"),
            Picture(data_uri(worst.adversarial), f"read as {names[worst.adversarial_prediction]}"),
        )
        proved = model.scores.points.proved_radius[worst.point]
        note = f"proved {_number(proved, 'down')} ≤ true ≤ broken {_number(worst.radius, 'up')}"
        label = names[int(model.scores.points.label[worst.point])]
        examples.append(Example(f"True class {label}, test point {int(rows[worst.point])}", strip, note))
    title = f"{model.name}: the points that break first" if examples else f"{model.name}: no point was broken"
    return Gallery(
        title, tuple(examples), f"By the {model.scores.suite} suite within {_threat_words(assessment.ball)}."
    )


def _growth(forecast: Forecast | str) -> tuple[ChartSpec | Prose, ...]:
    """Proved accuracy over the number of training points, and how much data five more points need."""
    if isinstance(forecast, str):
        return (Prose(f"No forecast: {forecast}"),)
    return forecast.chart(), Prose(f"Five more points of proved accuracy: {forecast.verdict}")


def on_claims(assessment: Assessment) -> Table:
    """Statements of the papers, judged by this assessment."""
    rows = [
        {
            "statement": o.statement,
            "paper": o.source,
            "on this data": "holds" if o.holds else "does not hold",
            "shown": o.shown,
        }
        for o in observations(assessment)
    ]
    return table(rows, ["statement", "paper", "on this data", Field("shown", "what this data shows")])


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
    points = len(assessment.models[0].rows)
    forecast_too = " --no-forecast" if assessment.forecast is None else " --forecast"
    own = "".join(f" --model {shlex.quote(model.name)}" for model in assessment.own)
    command = (
        f"radii assess {assessment.source}{own} --threat {assessment.ball} --points {points} --seed {assessment.seed}"
    )
    return Commands(
        (command + forecast_too, "radii runs"),
        shown,
    )


def _number(value: float, toward: Toward = "nearest") -> str:
    """Two significant digits; what is proved must be rounded down, what is broken up."""
    return f"{round_toward(value, 2, toward):g}" if np.isfinite(value) else "∞"
