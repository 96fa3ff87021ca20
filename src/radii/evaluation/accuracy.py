"""Accuracy with its uncertainty, over radii, and the bracket: proved ≤ true ≤ broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from radii.confidence_interval import CONFIDENCE, clopper_pearson
from radii.errors import ContradictionError, InputError
from radii.tables import Field, Row

Bound = Literal["proved", "unbroken"]


@dataclass(frozen=True)
class Accuracy:
    """A share of points, as a count, with its exact 95% interval."""

    correct: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.total or self.total < 1:
            raise InputError(f"An accuracy needs 0 <= correct <= total >= 1, got {self.correct} of {self.total}.")

    @property
    def value(self) -> float:
        """The share."""
        return self.correct / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's 95% interval for the share in the population sampled."""
        return clopper_pearson(self.correct, self.total)

    def ends(self, name: str = "", confidence: float = CONFIDENCE) -> dict[str, float]:
        """The interval as ``low`` and ``high`` of a tidy row; with ``name`` as ``name_low`` and ``name_high``."""
        keys = (f"{name}_low", f"{name}_high") if name else ("low", "high")
        return dict(zip(keys, clopper_pearson(self.correct, self.total, confidence), strict=True))

    def summary(self) -> dict[str, float | int | list[float]]:
        """The share, its interval and counts as JSON data."""
        return {"value": self.value, "interval": list(self.interval), "correct": self.correct, "total": self.total}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.1%} [{low:.1%}, {high:.1%}]"


def comparing(groups: int, columns: int) -> float:
    """The confidence of intervals by which groups are told apart: two that do not overlap differ.

    Of equal shares, the largest and the smallest have intervals that do not overlap in at most 5% of the samples, in
    all columns together: their half width is half of Tukey's studentized range (1953). It is at least 95%.

    Args:
        groups: of points, each with its share.
        columns: shares of each group.
    """
    if groups < 2:
        return CONFIDENCE
    from scipy.stats import norm, studentized_range  # half a second, and stored counts are read without

    widest = studentized_range.ppf(1 - (1 - CONFIDENCE) / columns, groups, np.inf)
    return max(CONFIDENCE, float(2 * norm.cdf(widest / 2) - 1))


def accuracy(correct: Sequence[bool] | NDArray[np.bool_]) -> Accuracy:
    """The share of true entries of ``correct`` [n]."""
    return Accuracy(int(np.sum(correct)), len(correct))


@dataclass(frozen=True)
class Bracket:
    """The bracket of robust accuracy: at least the proved points, at most the unbroken ones.

    ``interval`` joins the lower end of the proved share and the upper end of the
    unbroken share, so it covers the population's robust accuracy with at least
    95% however weak the attack is, if the certificate is deterministic.
    """

    proved: Accuracy
    unbroken: Accuracy

    def __post_init__(self) -> None:
        if self.proved.correct > self.unbroken.correct:
            raise ContradictionError(
                f"{self.proved.correct} points are proved robust but only {self.unbroken.correct} are unbroken: "
                "a certificate or an attack is wrong."
            )

    @property
    def interval(self) -> tuple[float, float]:
        """From the proved share's lower to the unbroken share's upper 95% limit."""
        return self.proved.interval[0], self.unbroken.interval[1]

    def summary(self) -> dict[str, object]:
        """Both ends and the joint interval as JSON data."""
        return {"proved": self.proved.summary(), "unbroken": self.unbroken.summary(), "interval": list(self.interval)}


def bracket(proved: NDArray[np.bool_], broken: NDArray[np.bool_]) -> Bracket:
    """The bracket of ``proved`` and ``broken`` points [n]; a point that is both raises a ContradictionError."""
    both = np.flatnonzero(proved & broken)
    if len(both):
        raise ContradictionError(
            f"{len(both)} points are proved robust and broken, the first is number {int(both[0])}: "
            "a certificate or an attack is wrong."
        )
    return Bracket(accuracy(proved), accuracy(~broken))


def _check_radii(proved: NDArray[np.float64], broken: NDArray[np.float64], slack: float = 1e-6) -> None:
    """Refuse a ``proved`` radius above a ``broken`` one; ``slack`` (relative) covers the rounding of a distance."""
    over = np.flatnonzero(proved > broken * (1 + slack) + 1e-7)
    if len(over):
        first = int(over[0])
        raise ContradictionError(
            f"{len(over)} of {len(proved)} points have a proved radius above a broken one; point {first}: "
            f"proved {proved[first]:.6g}, broken {broken[first]:.6g}. A certificate or an attack is wrong."
        )


@dataclass(frozen=True)
class CurvePoint:
    """The bracket at one radius."""

    radius: float
    bracket: Bracket


def accuracy_curve(
    proved: NDArray[np.float64], broken: NDArray[np.float64], radii: Sequence[float]
) -> tuple[CurvePoint, ...]:
    """Robust accuracy over the radius, from each point's proved and broken radius.

    A point counts as proved at r if proved >= r (a certificate is about the open ball) and it is correct, as
    unbroken if broken > r. At radius 0 both ends are clean accuracy.

    Args:
        proved: each point's proved radius [n]; 0 where it is misclassified or nothing is proved.
        broken: each point's broken radius [n]; 0 where it is misclassified, infinite where no attack succeeds.
    """
    _check_radii(proved, broken)
    curve = []
    for radius in radii:
        unbroken = broken > radius
        held = unbroken if radius == 0 else (proved >= radius) & (proved > 0) & unbroken
        curve.append(CurvePoint(float(radius), bracket(held, ~unbroken)))
    return tuple(curve)


ROBUST_ACCURACY = Field("accuracy", "robust accuracy", percent=True, low="low", high="high")
BOUNDS: tuple[Bound, ...] = ("proved", "unbroken")


def curve_rows(curve: Sequence[CurvePoint], bounds: Sequence[Bound] = BOUNDS, **labels: str) -> list[Row]:
    """Accuracy over the radius as tidy rows: the one table behind every such curve.

    Args:
        bounds: which ends of the brackets become rows; default: both.

    Returns:
        Rows of ``radius``, ``bound``, ``accuracy``, its exact 95% interval ``low`` and ``high``, and the labels.
    """
    shares = [(point.radius, bound, getattr(point.bracket, bound)) for point in curve for bound in bounds]
    return [
        {"radius": radius, "bound": bound, "accuracy": share.value, **share.ends(), **labels}
        for radius, bound, share in shares
    ]


def certified_curve(
    correct: NDArray[np.bool_], proved: NDArray[np.float64], radii: Sequence[float]
) -> tuple[CurvePoint, ...]:
    """Certified accuracy over ``radii``, from the ``proved`` radii of points and whether they are ``correct``."""
    return accuracy_curve(np.where(correct, proved, 0.0), np.where(correct, np.inf, 0.0), radii)


def radius_quantile(radius: NDArray[np.float64], correct: NDArray[np.bool_], share: float = 0.5) -> float:
    """The quantile of a radius over all points, where a wrongly classified point counts 0.

    It is the radius of one of the points, not a mean of two, so at least half
    of the points have a radius of at most the median and half of at least it.

    Args:
        radius: each point's proved or broken radius; infinite where no error is known.
        share: the quantile, in [0, 1]; default 0.5, the median.
    """
    return float(np.quantile(np.where(correct, radius, 0.0), share, method="inverted_cdf"))
