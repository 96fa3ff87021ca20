"""Statements of the papers on which one assessment bears: what its own data and classifiers show."""

from __future__ import annotations

from dataclasses import dataclass

from radii.evaluation.accuracy import Accuracy
from radii.evaluation.paired import paired_difference
from radii.report.html import Section
from radii.studies.assess import Assessment
from radii.studies.assessment_defaults import CERTIFIED, STANDARD
from radii.tables import Field, format_radius, table

HOLDS = {True: "yes", False: "no", None: "too few points to decide"}
RARE = 0.05  # a share below it, at 95% confidence, is called none


@dataclass(frozen=True)
class ObservedClaim:
    """A statement, its source, whether it holds on this data, and the figures that say it.

    ``holds`` is None where so few points cannot decide it.
    """

    statement: str
    source: str
    holds: bool | None
    shown: str


def section(assessment: Assessment) -> Section | None:
    """The section of the report: every statement that the assessment judges."""
    rows = [{**vars(seen), "holds": HOLDS[seen.holds]} for seen in observations(assessment)]
    holds, shown = Field("holds", "holds on this data"), Field("shown", "what this data shows")
    told = table(rows, ["statement", Field("source", "paper"), holds, shown])
    return (
        Section(f"{len(rows)} statements from papers, checked on this data", (told,), short="Papers") if rows else None
    )


def observations(assessment: Assessment) -> tuple[ObservedClaim, ...]:
    """Every statement that can be judged by an assessment, in the order of the report."""
    judged = [_without_contradictions, _nearest_neighbor_falls_short, _proved_below_broken]
    judged = [_separated, *judged] if assessment.around == assessment.ball else judged  # ε is a distance
    names = {model.name for model in assessment.models}
    if STANDARD in names and names & {*CERTIFIED}:
        judged += [_broken_where_proved, _accuracy_above_proved]
    return tuple(judge(assessment) for judge in (*judged, _predictions_kept))


def _separated(assessment: Assessment) -> ObservedClaim:
    """Classes farther apart than 2 epsilon."""
    least, epsilon = assessment.limits.least_distance, assessment.around.radius
    return ObservedClaim(
        "Points of different classes are more than 2ε apart, so a robust and accurate classifier exists on them.",
        "Yang et al. 2020, separation",
        least > 2 * epsilon,
        f"least distance {least:.3g}, that is {least / epsilon:.2g} ε",
    )


def _without_contradictions(assessment: Assessment) -> ObservedClaim:
    """No input with two labels."""
    count = assessment.limits.contradictory
    return ObservedClaim(
        "No training input occurs with two labels.",
        "Yang et al. 2020, separation",
        count == 0,
        f"{count} such inputs",
    )


def _nearest_neighbor_falls_short(assessment: Assessment) -> ObservedClaim:
    """Separation of a sample is not robustness of the rule built from it."""
    rule, possible = assessment.limits.rule_astuteness, assessment.limits.share_possible
    return ObservedClaim(
        "The nearest-neighbor classifier is less robust than the data allows.",
        "Yang et al. 2020, separation theorem",
        rule < possible,
        f"allowed on {possible:.1%} of the test points, proved for that rule on {rule:.1%}",
    )


def _proved_below_broken(assessment: Assessment) -> ObservedClaim:
    """No attack beats a certificate."""
    beaten, points = 0, 0
    for model in assessment.models:
        table = model.scores.points
        beaten += int((table.proved_radius[table.correct] > table.broken_radius[table.correct]).sum())
        points += int(table.correct.sum())
    return ObservedClaim(
        "No attack errs within a proved radius.",
        "Prach & Lampert 2025, Eq. 2 and 5",
        beaten == 0,
        f"{beaten} of {points:,} rightly classified points",
    )


def _broken_where_proved(assessment: Assessment) -> ObservedClaim:
    """The standard network errs where the certified network is proved."""
    name, points = assessment.certified.name, assessment.certified.scores.points
    proved, broken = points.proved & points.correct, assessment.standard.scores.points.broken
    seen = Accuracy(int((broken & proved).sum()), max(int(proved.sum()), 1))
    return ObservedClaim(
        f"A standard network errs within ε = {format_radius(assessment.ball.radius)} at points "
        f"where the {name} network is proved right.",
        "Prach & Lampert 2025, section 1",
        True if seen.correct else False if seen.interval[1] < RARE else None,
        f"{seen.correct:,} of {int(proved.sum()):,} proved points (at most {seen.interval[1]:.1%})"
        if not seen.correct
        else f"{seen.correct:,} of {seen.total:,} proved points ({seen.value:.1%})",
    )


def _accuracy_above_proved(assessment: Assessment) -> ObservedClaim:
    """Accuracy is easier than proved robustness."""
    name, scores = assessment.certified.name, assessment.certified.scores
    clean, points = assessment.standard.scores.points.correct, scores.points
    difference = paired_difference(points.proved & points.correct, clean)
    decided = difference.low > 0 or difference.high < 0
    return ObservedClaim(
        f"The standard network's clean accuracy exceeds what the {name} network is proved to keep.",
        "Prach & Lampert 2025, Fig. 1 and 2",
        difference.value > 0 if decided else None,
        f"{clean.mean():.1%} and {scores.robust.proved.value:.1%}, the difference within "
        f"{100 * difference.low:+.1f} and {100 * difference.high:+.1f} points (95%)",
    )


def _predictions_kept(assessment: Assessment) -> ObservedClaim:
    """Robustness with respect to predictions is the larger."""
    scores = {model.name: model.scores for model in assessment.models}
    pairs = [(name, own.stable.unbroken.value, own.robust.unbroken.value) for name, own in scores.items()]
    return ObservedClaim(
        "The prediction stays the same on at least as many points as it stays correct.",
        "Ding et al. 2019, section 3.3",
        all(kept >= right for _, kept, right in pairs),
        "; ".join(f"{name} {kept:.1%} and {right:.1%}" for name, kept, right in pairs),
    )
