"""What a reader should know first and do next: each issue with its evidence in counts and one command to copy."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from math import floor, inf

import numpy as np

from radii.evaluation.accuracy import Accuracy
from radii.report.findings import LEAST, at_chance, confusions, judgement, most_proved
from radii.report.html import Issue, Issues
from radii.runs.model_source import command_words
from radii.studies.assess import AssessedModel, Assessment
from radii.studies.assessment_defaults import PHOTO, REFERENCES
from radii.tables import format_radius, listed, round_toward
from radii.threat import Ball

SECONDS = 10  # that are proposed for complete verification of a point
WEAKER = ("fast", "pgd", "sampled", "black-box")  # suites that leave out attacks of the standard one
FREQUENT = 3  # points that fall from one class to one other, from which it is an issue
ORDER = ("high", "medium", "low")


def issues(assessment: Assessment) -> Issues:
    """Everything that the figures give reason for, the most severe first; references are not the reader's to mend."""
    found = [
        *_unlike(assessment),
        *(issue for model in assessment.models for issue in _of_model(assessment, model)),
        *_weaker(assessment),
        *_hopeless(assessment),
        *_decided(assessment),
        *_open(assessment),
        *_points(assessment),
        *_data(assessment),
        *_onward(assessment),
    ]
    return Issues(tuple(sorted(found, key=lambda issue: ORDER.index(issue.severity))))


def command(assessment: Assessment, **changes: str) -> str:
    """The command that makes this report again.

    Args:
        changes: options that are to be added or have another value, as ``suite="standard"``.
    """
    words = ["radii", "assess", assessment.source, *assessment.options, "--threat", str(assessment.ball)]
    words += ["--points", str(len(assessment.models[0].rows)), "--seed", str(assessment.seed)]
    words += [word for floor_ in assessment.floors for word in ("--require", str(floor_))]
    words += ["--no-forecast" if assessment.forecast is None else "--forecast"]
    for name, value in changes.items():
        option = f"--{name}"
        while option in words:
            place = words.index(option)
            del words[place : place + 2]
        words += [option, value]
    return shlex.join(words)


def _about(assessment: Assessment, model: AssessedModel, *words: str, of: str = "evaluate") -> str:
    """A command about one model on the data."""
    named = [] if model.source is None else command_words((model.source,))[1:]
    return shlex.join(["radii", of, *named[:1], assessment.source, *named[1:], *words]) if named else ""


def _unlike(assessment: Assessment) -> Iterator[Issue]:
    for warning in assessment.warnings:
        yield Issue("high", "The models met different attacks", warning, command(assessment, suite="black-box"))


def _of_model(assessment: Assessment, model: AssessedModel) -> Iterator[Issue]:
    """What stands against one model: first what makes its figures doubtful."""
    own, name, threat = model.scores, model.name, str(assessment.ball)
    is_reference = name in REFERENCES
    if at_chance(model, len(assessment.data.classes)):
        evidence = f"{own.clean.correct} of {own.clean.total} clean points are classified correctly."
        yield Issue(
            "high", f"{name}: clean accuracy cannot be told from guessing", evidence, _remedy(assessment, model)
        )
    for alarm in own.alarms:
        if alarm.name != "accuracy at chance":
            again = _about(assessment, model, "--threat", threat, "--suite", "exhaustive")
            yield Issue("high", f"{name}: {alarm.name}", alarm.message, again)
    for required in assessment.floors if not is_reference else ():
        said = judgement(own, required)
        if "missed" in said:
            yield Issue("high", f"{name} misses {required}", said)
        elif "not decided" in said:
            more = command(assessment, points=str(4 * len(model.rows)))
            yield Issue("medium", f"{name}: {required} is not decided", said, more)
    if model in assessment.subjects:
        yield from _unproved(model)
    if model in (assessment.own or [most_proved(assessment)]):
        yield from _confused(assessment, model)


def _weaker(assessment: Assessment) -> Iterator[Issue]:
    """Models that stronger attacks may break further; those without gradients can meet no others."""
    found = [
        model
        for model in assessment.subjects
        if model.scores.suite in WEAKER and _left(model) and not getattr(model.source, "answers_only", False)
    ]
    if found:
        names = listed([model.name for model in found])
        verb = "was" if len(found) == 1 else "were"
        told = "; ".join(
            f"{model.name}: {_left(model)} points are open under {model.scores.attacks}" for model in found
        )
        evidence = f"{told}. Stronger attacks may break some of them."
        again = command(assessment, suite="standard")
        yield Issue("medium", f"{names} {verb} not attacked by the standard suite", evidence, again)


def _hopeless(assessment: Assessment) -> Iterator[Issue]:
    """A radius within which nothing survives tells no models apart."""
    models = assessment.subjects
    if any(model.scores.robust.unbroken.correct or not model.scores.clean.correct for model in models):
        return
    median = max(model.scores.median_radius("broken") for model in models)
    if 0 < median < assessment.ball.radius:
        smaller = assessment.ball.with_radius(float(f"{median / 2:.1g}"))
        evidence = f"All points are broken; half of them already within {round_toward(median, 2, 'up'):g}."
        title = f"ε = {format_radius(assessment.ball.radius)} is too large to tell models apart"
        yield Issue("medium", title, evidence, command(assessment, threat=str(smaller)))


def _decided(assessment: Assessment) -> Iterator[Issue]:
    """Where every answer is known at this radius, a larger one says how much more the models bear."""
    models = assessment.subjects
    if any(model.scores.robust.proved.correct < model.scores.robust.unbroken.correct for model in models):
        return
    median = max(model.scores.median_radius("broken") for model in models)
    larger = assessment.ball.with_radius(float(f"{median / 2:.1g}")) if median < inf else assessment.ball
    if larger.radius > assessment.ball.radius:
        title = f"Every point is decided at ε = {format_radius(assessment.ball.radius)}"
        evidence = (
            f"Half of the points break within {round_toward(median, 2, 'up'):g}. A larger ε shows how much change the "
            "models withstand."
        )
        yield Issue("low", title, evidence, command(assessment, threat=str(larger)))


def _remedy(assessment: Assessment, model: AssessedModel) -> str:
    """What most often helps a network at chance."""
    if model.name in REFERENCES:
        return command(assessment, epochs="30")
    shape = assessment.data.shape
    if not assessment.data.train.is_image:
        return ""
    usual = "mnist" if shape[0] == 1 else "imagenet" if max(shape[1:]) >= PHOTO else "cifar10"
    return command(assessment, mean=usual)


def _unproved(model: AssessedModel) -> Iterator[Issue]:
    """A model of which no point is proved, and why."""
    if model.scores.certificate_method is None:
        refusal = model.evaluation.content.get("no_certificate_because") or "No certificate was tried or fits."
        yield Issue("medium", f"{model.name}: nothing is proved", refusal)


def _open(assessment: Assessment) -> Iterator[Issue]:
    """Points that are neither proved nor broken, and what could decide them."""
    left = {model.name: _left(model) for model in assessment.subjects if _left(model)}
    if not left:
        return
    evidence = "Neither proved nor broken: " + ", ".join(f"{count} of {name}" for name, count in left.items()) + "."
    most = max(left.values())
    title = f"{most} points are open" if len(assessment.subjects) == 1 else f"Up to {most} points of a model are open"
    able = [model for model in assessment.subjects if model.name in left and _can_be_completed(assessment, model)]
    if not able:
        yield Issue("low", title, evidence)
        return
    unknown = sum(model.scores.radius_known().total - model.scores.radius_known().correct for model in able)
    evidence += (
        f" Complete verification searches at most {SECONDS} s for each of the {unknown:,} radii that are not known: "
        f"{_duration(SECONDS * unknown)} at most in all, beside the evaluation itself."
    )
    yield Issue("medium", title, evidence, command(assessment, complete=str(SECONDS)))


def _left(model: AssessedModel) -> int:
    return model.scores.robust.unbroken.correct - model.scores.robust.proved.correct


def _can_be_completed(assessment: Assessment, model: AssessedModel) -> bool:
    """Whether complete verification is possible and was not tried."""
    own = model.scores
    tried = any("Complete verification" in note for note in own.notes)
    possible = isinstance(assessment.ball, Ball) and assessment.ball.norm != "l1"
    return possible and own.certificate_method is not None and not tried


def _duration(seconds: int) -> str:
    if seconds < 600:
        return f"{seconds} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _confused(assessment: Assessment, model: AssessedModel) -> Iterator[Issue]:
    """The pair of classes between which most broken points move."""
    names = assessment.data.classes
    pairs = confusions(model.scores, names, 1).rows
    if not pairs or pairs[0]["points"] < FREQUENT:
        return
    first = pairs[0]
    broken = int((model.scores.points.correct & model.scores.points.changed).sum())
    evidence = (
        f"{first['points']} of {first['of']} points of class {first['class']} are read as {first['becomes']} after an "
        f"attack; {broken} points were broken in all. Look at the distance between the classes in the data."
    )
    again = ["radii", "audit", assessment.source, "--norm", assessment.around.norm]
    again += ["--pairs", "pairs.png"] if assessment.data.train.is_image else []
    yield Issue("low", f"{model.name}: {first['class']} is read as {first['becomes']}", evidence, shlex.join(again))


def _points(assessment: Assessment) -> Iterator[Issue]:
    """Too few points for a statement about all inputs of this kind."""
    total, most = len(assessment.models[0].rows), len(assessment.data.test)
    if total >= LEAST:
        return
    low, high = Accuracy(total // 2, total).interval
    evidence = f"With {total} points an interval is up to {100 * (high - low):.0f} percentage points wide."
    if total < most:
        more = command(assessment, points=str(min(500, most)))
        yield Issue("medium", f"{total} points are too few to judge", evidence, more)
    else:
        evidence += " The test split has no more: collect labelled points of the same kind."
        yield Issue("medium", f"{total} points are too few to judge", evidence)


def _data(assessment: Assessment) -> Iterator[Issue]:
    """What stands against the data: two labels for one input, classes that are too close."""
    limits, ball = assessment.limits, assessment.around
    audit = shlex.join(["radii", "audit", assessment.source, "--threat", str(ball)])
    if limits.contradictory:
        evidence = f"{limits.contradictory} training inputs have several labels; no classifier can be right on all."
        yield Issue("medium", "Some inputs have two labels", evidence, audit)
    if limits.share_possible < 1:
        distances = limits.distances["test"]
        close = int(np.sum(distances < 2 * ball.radius))
        evidence = f"{close} of {len(distances)} test points are nearer than 2ε to a training point of another class."
        yield Issue("low", f"ε = {format_radius(ball.radius)} is too large for some of the data", evidence, audit)


def _onward(assessment: Assessment) -> Iterator[Issue]:
    """What to do with a measured model: hold it in every build; of references: measure one's own."""
    if not assessment.own:
        evidence = (
            f"Only {len(assessment.models)} reference classifiers of radii were measured here. MODEL is a file, a run, "
            "FILE.py:function, timm:NAME or hf:NAME."
        )
        yield Issue("low", "Measure your own model", evidence, command(assessment, model="MODEL"))
        return
    if assessment.floors:
        return
    for model in assessment.own:
        floors = _floors(assessment, model)
        if floors and len(model.rows) >= LEAST:
            evidence = "These floors are the lower ends of the measured intervals. Exit code 1 says that one is missed."
            words = [word for one in floors for word in ("--require", one)]
            check = _about(assessment, model, *words, of="gate")
            if check:
                yield Issue("low", f"{model.name}: hold this level in every build", evidence, check)


def _floors(assessment: Assessment, model: AssessedModel) -> Sequence[str]:
    own, threat = model.scores, assessment.ball
    shares = {"clean": own.clean, f"robust({threat})": own.robust.unbroken, f"proved({threat})": own.robust.proved}
    ends = {name: floor(100 * share.interval[0]) / 100 for name, share in shares.items()}
    return [f"{name}>={end:g}" for name, end in ends.items() if end > 0]
