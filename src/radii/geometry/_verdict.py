"""The verdict in sentences: what the separation of the data permits at a radius."""

from __future__ import annotations

from radii.geometry._astuteness import Astuteness
from radii.geometry.separation import Separation
from radii.tables import format_radius
from radii.threat import NORM_NAMES


def separation_sentence(separation: Separation, epsilon: float, what: str) -> str:
    """Whether ``separation`` permits perfect robust accuracy at ``epsilon``; ``what`` names the points."""
    where = f"At {NORM_NAMES[separation.norm]} {format_radius(epsilon)}"
    if separation.minimum == float("inf"):
        return f"{where} nothing limits robustness: no {what} point has a point of another class to be separated from."
    if separation.minimum == 0:
        touching = int((separation.distance == 0).sum())
        return (
            f"{where} no classifier is right everywhere: {touching} {what} "
            f"{'point equals a point' if touching == 1 else 'points equal points'} of another class."
        )
    ratio = separation.minimum / epsilon
    if ratio >= 2:
        return (
            f"{where} every {what} point is at least {_floor(ratio)} ε from another class: "
            "a classifier can be right and robust on all of them."
        )
    share = separation.share_possible(epsilon)
    return (
        f"{where} the closest {what} pair of two classes is only {ratio:.2g} ε apart: no classifier is robust on "
        f"all points; {share:.2%} of them are at least 2 ε from every other class."
    )


def tie_sentence(separation: Separation) -> str | None:
    """A warning if all distances are equal: then they tell no point from another, as L∞ on binary inputs."""
    distance = separation.distance
    if len(distance) < 2 or distance.min() != distance.max() or not 0 < distance.max() < float("inf"):
        return None
    return (
        f"Every point is exactly {format_radius(float(distance[0]))} from the nearest point of another class: "
        f"{NORM_NAMES[separation.norm]} distances do not tell these points apart, and ties decide the nearest-neighbor "
        "rule. Choose another norm, or data with more than two values."
    )


def rule_sentence(rule: Astuteness, epsilon: float, samples_log10: float | None) -> str:
    """What the nearest-neighbor ``rule`` proves at ``epsilon``, and the points it would need (10^``samples_log10``)."""
    text = (
        f"The nearest-neighbor rule on these training points is right on {rule.accuracy:.1%} of the test points "
        f"and proved right within ε on {rule.astuteness(epsilon):.1%}"
    )
    if samples_log10 is None:
        return text + "."
    return text + (
        f"; with that rule you would need about 10^{samples_log10:.0f} points, "
        "where neighbors come near enough to prove the rest (extrapolated)."
    )


def hub_sentence(separation: Separation) -> str | None:
    """A warning if few references are the neighbors of most points; the minimum of ``separation`` then misleads."""
    hubs = separation.hubs(1)
    all_equal = separation.distance.min() == separation.distance.max()  # then the lowest index is the neighbor of all
    few, total = 100, len(separation.distance)
    if not hubs or all_equal or hubs[0].count < max(10, 0.02 * total) or total < 10 * few:
        return None  # of few points, a hundred are no hubs
    return (
        f"One point (number {hubs[0].index}) is the nearest other-class neighbor of {hubs[0].count:,} points, "
        f"and {few} points are the nearest ones of {separation.hub_share(few):.0%} of all: a few unusual points "
        "determine most of these distances."
    )


def noise_sentence(contradictory: int, what: str = "training") -> str | None:
    """The number of ``contradictory`` inputs; ``what`` names the points."""
    if contradictory == 0:
        return None
    occur = "inputs occur" if contradictory > 1 else "input occurs"
    return f"{contradictory} {what} {occur} with different labels: label noise."


def _floor(ratio: float) -> str:
    """A ratio with one decimal, rounded down: "at least" must stay true."""
    return f"{int(ratio * 10 + 1e-9) / 10:g}"
