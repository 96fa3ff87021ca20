"""What a reader must know of an attacked result: alarms, and the bound where attacks ran on a sample only."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCE = 0.95  # of what a sample says about the other points


@dataclass(frozen=True)
class Alarm:
    """One reason to doubt a result: its name, the observation and what to do."""

    name: str
    message: str


@dataclass(frozen=True)
class SurvivorBound:
    """With ``confidence``, attacks that ran on a sample only would break at most ``at_most`` of ``survivors``.

    The sample is drawn before any of its outcomes is known, uniformly and of a
    fixed size; nothing stops early. A point's outcome does not depend on the
    points beside it (see :mod:`radii.attacks.point_randomness`), so the sample's outcomes
    are those of the full run, and the count in it is hypergeometric. The bound is
    about these survivors; it says nothing about attacks outside the suite.
    """

    survivors: int
    sampled: int
    broken_in_sample: int
    at_most: int
    confidence: float = CONFIDENCE

    def __str__(self) -> str:
        return (
            f"FAB-T and Square attacked {self.sampled} of {self.survivors} survivors, broke {self.broken_in_sample}; "
            f"with {self.confidence:.0%} confidence a full run breaks at most {self.at_most}."
        )
