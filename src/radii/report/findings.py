"""The sentences of a report: counts with their intervals, and headings that state what was measured.

Nothing is judged unless the user gave a floor, and then by the end of the exact interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from radii.change import within_words
from radii.evaluation.accuracy import Accuracy
from radii.evaluation.requirement import Requirement
from radii.evaluation.scores import ClassScores, Scores
from radii.report.ranking import ranking
from radii.studies.assess import AssessedModel, Assessment
from radii.studies.assessment_defaults import REFERENCES
from radii.tables import Table, format_radius, table
from radii.threat import NORM_NAMES

LEAST = 100  # points without which no floor is judged
MOST_NAMED = 4  # classes in a heading


def most_proved(assessment: Assessment) -> AssessedModel:
    """The report's subject with the highest proved accuracy; on a tie the one that attacks leave more of."""
    return max(
        assessment.subjects, key=lambda model: (model.scores.robust.proved.value, model.scores.robust.unbroken.value)
    )


def verdict(assessment: Assessment) -> str:
    """Which model is the most robust; on lines of their own the user's models, or else the best reference."""
    models = assessment.own or (most_proved(assessment),)
    lines = [ranking(assessment)]
    for model in models:
        judged = (judgement(model.scores, floor) for floor in assessment.floors)
        lines.append(" ".join([*_guessing(model, len(assessment.data.classes)), _bracket(assessment, model), *judged]))
    return "\n".join(line for line in lines if line)


def at_chance(model: AssessedModel, classes: int) -> bool:
    """Whether clean accuracy cannot be told from that of a guess."""
    return model.scores.clean.interval[0] <= 1 / classes


def _guessing(model: AssessedModel, classes: int) -> list[str]:
    """A warning where clean accuracy cannot be told from that of a guess."""
    clean = model.scores.clean
    if not at_chance(model, classes):
        return []
    cause = "it may need more --epochs" if model.name in REFERENCES else "does it expect normalized inputs?"
    if clean.total < LEAST:
        cause = f"on {clean.total} points little can be told; give more --points"
    return [
        f"Check {model.name} first: it classifies {clean.correct} of {clean.total} clean points correctly, which "
        f"cannot be told from guessing one of {classes} classes ({cause})."
    ]


def _bracket(assessment: Assessment, model: AssessedModel) -> str:
    """How many points are proved, misclassified or broken, and open."""
    scores, ball = model.scores, assessment.ball
    what = "test images" if assessment.data.train.is_image else "test points"
    name = f"The {model.name} network, trained here as a reference," if model.name in REFERENCES else model.name
    within = f"within {within_words(ball)}"
    proved, unbroken = scores.robust.proved, scores.robust.unbroken
    total, wrong = proved.total, proved.total - scores.clean.correct
    lost, left = total - unbroken.correct, unbroken.correct - proved.correct
    broken = f"{lost} ({lost / total:.0%}) are misclassified ({wrong}) or were broken ({lost - wrong})."
    if scores.certificate_method is None:
        return (
            f"{name} was only attacked, nothing is proved: attacks {within} left {_counted(unbroken, what)}. {broken}"
        )
    still = f"{left} ({left / total:.0%}) are open." if left else "No point is open."
    return f"{name} is proved correct {within} on {_counted(proved, what)}. {broken} {still}"


def _counted(share: Accuracy, what: str) -> str:
    """``274 of 359 test images (76%, 95% interval 72 to 81%)``."""
    low, high = share.interval
    return f"{share.correct} of {share.total} {what} ({share.value:.0%}, 95% interval {100 * low:.0f} to {high:.0%})"


def judgement(scores: Scores, floor: Requirement) -> str:
    """Whether a share reaches the user's floor, by the end of its exact 95% interval.

    Args:
        floor: what its share must be at least.
    """
    share = {"clean": scores.clean, "robust": scores.robust.unbroken, "proved": scores.robust.proved}[floor.measure]
    if share.total < LEAST:
        return f"{floor}: too few points to judge, {share.total} instead of at least {LEAST}."
    low, high = share.interval
    interval = f"the 95% interval, {100 * low:.1f} to {high:.1%},"
    if low >= floor.floor:
        return f"{floor} is met: {interval} does not go below it."
    if high < floor.floor:
        return f"{floor} is missed: {interval} lies below it."
    return f"{floor} is not decided: {interval} contains it."


def data_radius(assessment: Assessment) -> str:
    """The radius at which the data is measured: ``ε = 0.5``, or ``L2 0.5`` where the threat is no ball."""
    around = assessment.around
    name = "ε =" if around == assessment.ball else NORM_NAMES[around.norm]
    return f"{name} {format_radius(around.radius)}"


def data_finding(assessment: Assessment) -> str:
    """What the data allows."""
    share = assessment.limits.share_possible
    whom = "every test point" if share == 1 else f"{share:.0%} of the test points"
    return f"The data allows {data_radius(assessment)} for {whom}"


def corruption_finding(assessment: Assessment) -> str:
    """The kind under which the report's subject is right least often."""
    best = most_proved(assessment)
    name = best.name if best.name in assessment.corrupted else next(iter(assessment.corrupted))
    own = assessment.corrupted[name]
    worst = min(own.kinds, key=lambda each: sum(each.correct))
    share = sum(worst.correct) / (own.points * len(worst.correct))
    return f"Corruptions: {name} is right on {own.mean:.0%} of the images, and on {share:.0%} under {worst.kind}"


def training_finding(assessment: Assessment) -> str:
    """The clean accuracy of each classifier on the points of the report, the highest first."""
    order = sorted(assessment.models, key=lambda model: -model.scores.clean.value)
    shares = ", ".join(f"{model.name} {model.scores.clean.value:.1%}" for model in order)
    return f"Clean accuracy on these {order[0].scores.clean.total:,} points: {shares}"


def bracket_finding(assessment: Assessment) -> str:
    """The bracket of the subject."""
    best = most_proved(assessment)
    proved, unbroken = best.scores.robust.proved, best.scores.robust.unbroken
    lies = f"lies between {proved.value:.0%} and {unbroken.value:.0%}"
    if proved.correct == unbroken.correct:
        lies = f"is {proved.value:.0%}"
    return f"Robust accuracy of {best.name} {lies} on these {proved.total:,} points"


def class_finding(scores: Scores, names: Sequence[str]) -> str:
    """The weakest classes beside the strongest, as far as chance lets them be told apart."""
    classes, weakest = scores.per_class(), scores.weakest_classes()
    best = max(classes, key=lambda own: own.strength)
    lowest, highest = (f"{names[own.label]} ({_strength(own)})" for own in (weakest[0], best))
    if len(weakest) == len(classes):
        return f"No class is clearly weakest: from {lowest} to {highest}" if len(classes) > 1 else f"Class {lowest}"
    if len(weakest) == 1:
        return f"Class {lowest} is weakest, class {highest} strongest"
    if len(weakest) > MOST_NAMED:
        return f"Class {lowest} is lowest; {len(weakest) - 1} more classes may be as weak by chance"
    *others, last = (f"{names[own.label]} ({_strength(own)})" for own in weakest)
    return f"Classes {', '.join(others)} and {last} are weakest, class {highest} is strongest"


def _strength(own: ClassScores) -> str:
    return f"{own.robust.proved.value:.0%} proved, {own.robust.unbroken.value:.0%} unbroken"


def confusions(scores: Scores, names: tuple[str, ...], most: int = 5) -> Table:
    """Which class a broken point is read as, the most frequent pairs first.

    Args:
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
    title = "No attack changed a correct answer"
    if rows:
        first = rows[0]
        title = f"Attacks turned {first['class']} into {first['becomes']} at {first['points']} of {first['of']} points"
    return table(rows, ["class", "becomes", "points", "of"], title)
