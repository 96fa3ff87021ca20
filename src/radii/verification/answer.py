"""How a proof attempt ended, and what may be spent on one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any, Literal

from numpy.typing import NDArray
from torch import Tensor

from radii import progress

Verdict = Literal["sat", "unsat", "timeout", "unknown"]
OpenRegions = tuple[Literal["signs", "boxes"], dict[str, NDArray[Any]]]  # how they are split, and what they are


class OutOfTimeError(Exception):
    """The deadline has passed: the search ends as ``timeout``."""


@dataclass(frozen=True)
class Answer:
    """``sat`` with an input [inputs], ``unsat`` proved, or neither within the limits.

    ``nodes`` regions were bounded; ``open`` is the share of the search that is left. ``suspect`` is an input near
    which nothing could be proved although every sign was fixed: another class is likely to be near it. ``bound`` is
    the least bound of an open region, where it is known: 0 would prove it. ``interrupted``: the user ended the search.
    ``left`` gives the open regions of an undecided search.
    """

    verdict: Verdict
    counterexample: Tensor | None = None
    nodes: int = 0
    open: float = 1.0
    suspect: Tensor | None = None
    bound: float | None = None
    interrupted: bool = False
    left: Callable[[], OpenRegions] | None = None


@dataclass(frozen=True)
class Limits:
    """``deadline`` on the monotonic clock, and the most regions to bound."""

    deadline: float = field(default_factory=lambda: inf)
    nodes: int = 1 << 62

    @classmethod
    def of_seconds(cls, seconds: float, nodes: int = 1 << 62) -> Limits:
        """Limits that start now."""
        return cls(monotonic() + seconds, nodes)

    def part(self, share: float) -> Limits:
        """A share of what is left, from now."""
        return Limits(monotonic() + share * self.left(), int(share * self.nodes))

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - monotonic()

    def check(self) -> None:
        """Raise :class:`OutOfTimeError` behind the deadline."""
        if self.left() < 0:
            raise OutOfTimeError

    @staticmethod
    def task(what: str) -> AbstractContextManager[progress.Task]:
        """Progress in shares of the search that are closed."""
        return progress.task(what, 1.0, "")
