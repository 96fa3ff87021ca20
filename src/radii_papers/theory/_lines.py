"""One line of a theorem's table: a measurement beside its prediction; and the checks of a theorem's assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from radii.errors import InputError

Relation = Literal["=", "≤", "≥", "reported"]
SIGMAS = 4.0  # noise is allowed four standard errors: one false alarm in 16,000 rows


@dataclass(frozen=True)
class ResultRow:
    """One line of the table: ``measured`` must stand in ``relation`` to ``predicted``, up to ``tolerance``.

    One without a prediction only reports.
    """

    quantity: str
    measured: float
    relation: Relation = "reported"
    predicted: float | None = None
    tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the measurement agrees; NaN agrees with nothing."""
        if self.predicted is None:
            return True
        excess = self.measured - self.predicted
        return {
            "=": abs(excess) <= self.tolerance,
            "≤": excess <= self.tolerance,
            "≥": excess >= -self.tolerance,
            "reported": True,
        }[self.relation]

    @property
    def verdict(self) -> Literal["holds", "fails"]:
        """:attr:`holds` as a word."""
        return verdict_word(self.holds)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Quantity, measurement, prediction with its tolerance, verdict."""
        if self.predicted is None:
            return self.quantity, f"{self.measured:.4g}", "", ""
        tolerance = f" ± {self.tolerance:.2g}" if self.tolerance else ""
        expected = f"{self.relation} {self.predicted:.4g}{tolerance}"
        return self.quantity, f"{self.measured:.4g}", expected, self.verdict


def verdict_word(holds: bool) -> Literal["holds", "fails"]:
    """``holds`` or ``fails``."""
    return "holds" if holds else "fails"


def equals(quantity: str, measured: float, predicted: float, tolerance: float) -> ResultRow:
    """``measured = predicted ± tolerance``.

    Args:
        tolerance: allowed difference, in the unit of the value.
    """
    return ResultRow(quantity, float(measured), "=", float(predicted), float(tolerance))


def at_most(quantity: str, measured: float, predicted: float, tolerance: float = 0.0) -> ResultRow:
    """``measured ≤ predicted + tolerance``.

    Args:
        tolerance: allowed difference, in the unit of the value; default 0.
    """
    return ResultRow(quantity, float(measured), "≤", float(predicted), float(tolerance))


def at_least(quantity: str, measured: float, predicted: float, tolerance: float = 0.0) -> ResultRow:
    """``measured ≥ predicted − tolerance``.

    Args:
        tolerance: allowed difference, in the unit of the value; default 0.
    """
    return ResultRow(quantity, float(measured), "≥", float(predicted), float(tolerance))


def reports(quantity: str, measured: float) -> ResultRow:
    """A measurement that no statement predicts."""
    return ResultRow(quantity, float(measured))


def assume(condition: bool, assumption: str, came: object) -> None:
    """Refuse parameters outside a theorem's assumption, naming it.

    Args:
        assumption: the assumption, as the beginning of a sentence: ``n must be positive``.
    """
    if not condition:
        raise InputError(f"{assumption}, got {came} instead.")


def assume_positive(**counts: float) -> None:
    """Refuse counts and lengths that are not positive."""
    for name, count in counts.items():
        assume(count > 0, f"{name} must be positive", f"{count:g}")


def standard_error(values: Sequence[float] | Any) -> float:
    """Standard error of the mean of independent ``values``."""
    import numpy as np

    sample = np.asarray(values, dtype=np.float64)
    return float(sample.std(ddof=1) / math.sqrt(len(sample))) if len(sample) > 1 else math.inf


def proportion_error(p: float, trials: int) -> float:
    """Standard error of a share of ``trials`` independent draws whose probability is ``p``."""
    return math.sqrt(max(p * (1 - p), 0.0) / trials)
