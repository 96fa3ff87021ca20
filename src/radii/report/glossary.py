"""What the words of a report mean, at the end of the page itself: a reader who got the file by mail has no docs."""

from __future__ import annotations

from radii.report.html import Section
from radii.tables import listing

WORDS = {  # as the glossary of the docs has them
    "accuracy, clean": "share of points that the classifier labels correctly without any change of the input",
    "accuracy, robust": (
        "share of points that stay correctly labelled for every input of the ball; known only between two bounds"
    ),
    "alarm": "a reason to doubt the upper bound of robust accuracy, for example gradients that are exactly zero",
    "attack": "a search for an input of the ball that changes the prediction",
    "ball": "all inputs within a radius of one input, in a norm, inside the box",
    "broken radius": (
        "distance to the nearest input found that changes the prediction; the true radius is at most this"
    ),
    "certificate": "a proof, per point, that no input within a radius changes the prediction",
    "epsilon": "the radius of a threat: in pixels of [0, 1], of tables in units of the columns or their deviations",
    "open point": "a point that is neither proved nor broken",
    "possible radius": "half the distance to the nearest point of another class: what the data allows",
    "proved radius": "the radius of a certificate; the true radius is at least this",
    "suite": "a list of attacks that run one after another",
    "true radius": "the distance to the nearest input that changes the prediction; proved ≤ true ≤ broken",
    "1-Lipschitz network": "a network whose outputs change by no more than its input",
}


def words_section() -> Section:
    """The words as a section of a page."""
    return Section("What the words mean", (listing("", ("word", "meaning"), WORDS.items()),), short="Words")
