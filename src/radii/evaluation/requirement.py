"""A requirement of a gate: a share of points with its floor, as ``robust(linf:8/255)>=0.45``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from radii.errors import InputError, unknown_name
from radii.threat import Ball

Measure = Literal["clean", "robust", "proved"]
GRAMMAR = "Write clean>=0.9, robust(linf:8/255)>=0.45 or proved(l2:36/255)>=0.3."


@dataclass(frozen=True)
class Requirement:
    """What a share of the points must be at least.

    Args:
        measure: ``clean`` (right), ``robust`` (right, and no attack of the suite changes it in the ball: an upper
            bound of the truth) or ``proved`` (right, and proved in the ball: a lower bound).
        ball: the threat; None for ``clean``.
        floor: the least share, in (0, 1].
    """

    measure: Measure
    ball: Ball | None
    floor: float

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Read ``clean>=0.9``, ``robust(linf:8/255)>=45%`` or ``proved(l2:36/255)>=0.3``.

        Args:
            text: as on the command line; spaces do not matter.

        Raises:
            InputError: it is written in another way; the sentence shows how to write it.

        >>> str(Requirement.parse("robust( linf:8/255 ) >= 45%"))
        'robust(linf:8/255)>=0.45'
        """
        match = re.fullmatch(r"([a-z]+)(?:\((.+)\))?(>=|≥)([0-9.e-]+)(%?)", re.sub(r"\s", "", text.lower()))
        if match is None:
            raise InputError(f"The requirement {text!r} is not understood. {GRAMMAR}")
        name, threat, _, number, percent = match.groups()
        if name not in get_args(Measure):
            raise unknown_name("measure", name, get_args(Measure), GRAMMAR)
        if (name == "clean") != (threat is None):
            raise InputError(f"The requirement {text!r}: robust and proved need a threat, clean has none. {GRAMMAR}")
        try:
            floor = float(number) / (100 if percent else 1)
        except ValueError:
            raise InputError(f"The requirement {text!r}: {number!r} is not a number. {GRAMMAR}") from None
        if not 0 < floor <= 1:
            raise InputError(f"The floor of {text!r} must be above 0 and at most 1, got {number}{percent} instead.")
        return cls(name, None if threat is None else Ball.parse(threat), floor)  # type: ignore[arg-type]

    @property
    def subject(self) -> str:
        """What is measured, without the floor: ``robust(linf:8/255)``."""
        return self.measure if self.ball is None else f"{self.measure}({self.ball})"

    def without_box(self) -> Requirement:
        """The same for inputs that have no least and greatest value."""
        return self if self.ball is None else replace(self, ball=self.ball.model_copy(update={"box": None}))

    def __str__(self) -> str:
        return f"{self.subject}>={self.floor:g}"
