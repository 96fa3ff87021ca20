"""A requirement of a gate: a share of points with its floor, as ``robust(linf:8/255)>=0.45``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from radii.change import Change, threat_of
from radii.data.dataset import Data, Dataset
from radii.data.threat_on_data import threat_on
from radii.errors import InputError, unknown_name
from radii.threat import Ball

Measure = Literal["clean", "robust", "proved", "corrupted"]
GRAMMAR = "Write clean>=0.9, robust(linf:8/255)>=0.45, proved(brightness:0.1)>=0.3 or corrupted(fog:3)>=0.7."


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
    ball: Ball | Change | None
    floor: float
    corruption: tuple[str, int] | None = None

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Read ``clean>=0.9``, ``robust(linf:8/255)>=45%`` or ``proved(l2:36/255)>=0.3``.

        Args:
            text: as on the command line; spaces do not matter.

        >>> str(Requirement.parse("robust( linf:8/255 ) >= 45%"))
        'robust(linf:8/255)>=0.45'
        """
        match = re.fullmatch(r"([a-z]+)(?:\((.+)\))?(>=|≥)([0-9.e-]+)(%?)", _plain(text))
        if match is None:
            single = re.fullmatch(r"(.+?)(?:==|=|>)([0-9.]+%?)", re.sub(r"\s", "", text))
            if single is not None and not single[1].endswith((">", "≥", "<")):
                raise InputError(f"The requirement {text!r} needs the sign >=. Did you mean {single[1]}>={single[2]}?")
            raise InputError(f"The requirement {text!r} is not understood. {GRAMMAR}")
        name, threat, _, number, percent = match.groups()
        if name not in get_args(Measure):
            raise unknown_name("measure", name, get_args(Measure), GRAMMAR)
        if (name == "clean") != (threat is None):
            raise InputError(
                f"The requirement {text!r}: robust and proved need a threat, corrupted a kind and a severity, "
                f"clean has none. {GRAMMAR}"
            )
        try:
            floor = float(number) / (100 if percent else 1)
        except ValueError:
            raise InputError(f"The requirement {text!r}: {number!r} is not a number. {GRAMMAR}") from None
        if not 0 < floor <= 1:
            guess = f" Did you mean {floor / 100:g}?" if 1 < floor <= 100 and not percent else ""
            raise InputError(
                f"The floor of {text!r} must be above 0 and at most 1, got {number}{percent} instead.{guess}"
            )
        if name == "corrupted":
            from radii.data.corruptions import parse_corruption

            return cls("corrupted", None, floor, parse_corruption(threat))
        return cls(name, None if threat is None else threat_of(threat), floor)  # type: ignore[arg-type]

    @property
    def subject(self) -> str:
        """What is measured, without the floor: ``robust(linf:8/255)``."""
        inside = self.ball or (self.corruption and ":".join(map(str, self.corruption)))
        return f"{self.measure}({inside})" if inside else self.measure

    def on(self, data: Dataset) -> Requirement:
        """The same for ``data``: in its units, with what stays fixed, and with its limits."""
        return replace(self, ball=threat_on(self.ball, Data(data, data, data.name))) if self.ball else self

    def __str__(self) -> str:
        return f"{self.subject}>={self.floor:g}"


def _plain(text: str) -> str:
    """Without spaces, in small letters but for the name of a file."""
    parts = re.split(r"(file=[^,)]*)", re.sub(r"\s", "", text))
    return "".join(part if number % 2 else part.lower() for number, part in enumerate(parts))
