"""The sentences of a report: one of advice, and headings that state what was found."""

from __future__ import annotations

from collections import Counter

from radii.evaluation.scores import Scores
from radii.rounding import format_radius
from radii.studies.assess import AssessedModel, Assessment
from radii.tables import Table, table

CHANCE = 1.5  # times the accuracy of guessing


def most_proved(assessment: Assessment) -> AssessedModel:
    """The report's subject with the highest proved accuracy; on a tie the one that attacks leave more of.

    Args:
        assessment: the data, the classifiers and their results.
    """
    return max(
        assessment.subjects, key=lambda model: (model.scores.robust.proved.value, model.scores.robust.unbroken.value)
    )


def advice(assessment: Assessment) -> str:
    """What to do, in one sentence.

    Args:
        assessment: the data, the classifiers and their results.
    """
    best = most_proved(assessment)
    scores, epsilon = best.scores, f"ε = {format_radius(assessment.ball.radius)}"
    proved, unbroken = scores.robust.proved.value, scores.robust.unbroken.value
    if scores.clean.value < CHANCE / len(assessment.data.classes):
        return (
            f"Check {best.name} first: it is right on only {scores.clean.value:.0%} of clean points, as guessing is; "
            "does it expect normalized inputs?"
        )
    if proved >= 0.5:
        return f"You can rely on {best.name} within {epsilon}: it is proved right on {proved:.0%} of the test points."
    if unbroken < 0.5:
        return (
            f"Do not rely on {best.name} within {epsilon}: attacks leave {unbroken:.0%} of the test points, "
            f"{proved:.0%} are proved; train for robustness or promise a smaller radius."
        )
    return (
        f"Treat {best.name} within {epsilon} as open: {proved:.0%} of the test points are proved right and attacks "
        f"leave {unbroken:.0%}; a certified training would close the gap."
    )


def data_finding(assessment: Assessment) -> str:
    """What the data allows.

    Args:
        assessment: the data, the classifiers and their results.
    """
    share = assessment.limits.share_possible
    whom = "every test point" if share == 1 else f"{share:.0%} of the test points"
    return f"The data allows ε = {format_radius(assessment.ball.radius)} for {whom}"


def training_finding(assessment: Assessment) -> str:
    """Who is right most often on clean points.

    Args:
        assessment: the data, the classifiers and their results.
    """
    best = max(assessment.models, key=lambda model: model.scores.clean.value)
    return f"On clean points {best.name} is right most often: {best.scores.clean.value:.0%}"


def bracket_finding(assessment: Assessment) -> str:
    """The bracket of the subject.

    Args:
        assessment: the data, the classifiers and their results.
    """
    best = most_proved(assessment)
    proved, unbroken = best.scores.robust.proved.value, best.scores.robust.unbroken.value
    return f"Robust accuracy of {best.name} lies between {proved:.0%} and {unbroken:.0%}"


def class_finding(scores: Scores, names: tuple[str, ...]) -> str:
    """The weakest class beside the strongest.

    Args:
        scores: the evaluation of one classifier.
        names: the names of the classes.
    """
    proofs = any(own.robust.proved.correct for own in scores.per_class())
    bound = "proved" if proofs else "unbroken"
    shares = {names[own.label]: getattr(own.robust, bound).value for own in scores.per_class()}
    worst, best = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
    if shares[worst] == shares[best]:
        return f"All classes are alike: {shares[best]:.0%} {bound}"
    return f"Class {worst} is weakest: {shares[worst]:.0%} {bound}, against {shares[best]:.0%} of class {best}"


def confusions(scores: Scores, names: tuple[str, ...], most: int = 5) -> Table:
    """Which class a broken point is read as, the most frequent pairs first.

    Args:
        scores: the evaluation of one classifier.
        names: the names of the classes.
        most: how many pairs at most; default 5.
    """
    points = scores.points
    broken = points.correct & points.changed
    pairs = Counter(zip(points.label[broken].tolist(), points.adversarial_prediction[broken].tolist(), strict=True))
    total = Counter(points.label.tolist())
    rows = [
        {"class": names[label], "becomes": names[other], "points": count, "of": total[label]}
        for (label, other), count in pairs.most_common(most)
    ]
    title = "No right answer was changed by an attack"
    if rows:
        title = f"Attacks turn {rows[0]['class']} into {rows[0]['becomes']} most often"
    return table(rows, ["class", "becomes", "points", "of"], title)
