"""Which of several models is more robust, and how sure that is.

Model A is more robust than model B if A is proved correct on more inputs than attacks leave of B: whatever the true
robust accuracies are, A's is at least the first share and B's at most the second. Both are counted on the same points,
so the difference of the shares has a paired interval. Of k models there are k (k - 1) such questions; each gets that
part of 5%, so that all answers together are right with 95% confidence for inputs of this kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from radii.change import within_words
from radii.evaluation.paired import paired_difference
from radii.studies.assess import AssessedModel, Assessment
from radii.studies.assessment_defaults import REFERENCES
from radii.tables import listed

ERROR = 0.05  # probability that one of the answers is wrong


def ordered(models: Sequence[AssessedModel]) -> list[AssessedModel]:
    """The user's models before the references, and the highest proved share first, then what attacks left."""

    def place(model: AssessedModel) -> tuple[bool, float, float]:
        robust = model.scores.robust
        return model.name in REFERENCES, -robust.proved.value, -robust.unbroken.value

    return sorted(models, key=place)


def beaten(models: Sequence[AssessedModel]) -> dict[str, list[str]]:
    """For each model those that are surely less robust; a model of other points is compared with none."""
    questions = max(1, len(models) * (len(models) - 1))
    confidence = 1 - 2 * ERROR / questions  # of an interval with two ends, of which one is asked
    return {
        one.name: [
            other.name
            for other in models
            if other is not one
            and np.array_equal(one.rows, other.rows)
            and paired_difference(
                ~other.scores.points.broken, one.scores.points.proved & one.scores.points.correct, confidence
            ).low
            > 0
        ]
        for one in models
    }


def ranking(assessment: Assessment) -> str:
    """Which model is the most robust, in one or two sentences; empty for a single model."""
    models = ordered(assessment.models)
    if len(models) < 2:
        return ""
    below = beaten(models)
    best = max(models, key=lambda model: (len(below[model.name]), model.scores.robust.proved.value))
    proved = best.scores.robust.proved
    lost, rest = below[best.name], [m for m in models if m is not best and m.name not in below[best.name]]
    within = f"Within {within_words(assessment.ball)}"
    left = listed([f"{model.scores.robust.unbroken.correct} points of {_named(model)}" for model in rest])
    if not lost:
        shares = f"{_named(best)} is proved correct on {proved.correct} points, and attacks left {left} unbroken"
        return f"{within}, no model is surely the most robust: {shares if proved.correct else 'nothing is proved'}."
    if not rest:
        whom = "any other" if len(lost) > 1 else _named(next(model for model in models if model.name == lost[0]))
        most = f"the most robust of these {len(models)} models" if len(lost) > 1 else f"more robust than {whom}"
        return (
            f"{within}, {_named(best)} is {most} (95% confidence): it is proved correct on more points than attacks "
            f"left of {whom}."
        )
    losers = listed([_named(model) for model in models if model.name in lost])
    others = listed([_named(model) for model in rest], "or")
    return (
        f"{within}, {_named(best)} is more robust than {losers} (95% confidence). Whether it is more robust than "
        f"{others} is open: it is proved correct on {proved.correct} points, and attacks left {left} unbroken."
    )


def _named(model: AssessedModel) -> str:
    return f"the {model.name} network" if model.name in REFERENCES else model.name
