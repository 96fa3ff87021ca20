"""Sparse changes: few features of a row, or few pixels of an image, become anything. For attacks alone.

``Sparse(5)`` is every input in which at most 5 features differ, each within box and limits; a pixel counts once, with
all its channels. Written ``l0:5``, after the number of entries that differ, which is called an L0 norm and is none.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter, ValidationError, field_validator

from radii.change import Change, threat_of
from radii.errors import InputError
from radii.feature_limits import ANYTHING, FeatureLimits
from radii.spec import explain
from radii.threat import Allowed, Ball, Box, per_row

if TYPE_CHECKING:
    from torch import Tensor


class Sparse(Allowed):
    """Inputs in which at most ``count`` features, or pixels, differ.

    Args:
        count: of features of a row, or of pixels of an image [channels, …].
        box: the least and greatest value of every feature; None without one. Default (0, 1).
        fixed: numbers of the features of a flat input that keep their value.
        limits: what features can become; those that no box limits need a range.
    """

    count: int

    def __init__(
        self,
        count: int,
        box: Box | None = (0.0, 1.0),
        fixed: tuple[int, ...] = (),
        limits: FeatureLimits = ANYTHING,
    ) -> None:
        try:
            super().__init__(count=count, box=box, fixed=fixed, limits=limits)  # type: ignore[call-arg]
        except ValidationError as error:
            raise explain(error, "Sparse") from None

    @field_validator("count")
    @classmethod
    def _positive(cls, count: int) -> int:
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count} instead")
        return count

    @classmethod
    def parse(cls, text: str) -> Sparse:
        """Read ``l0:5`` or ``l0:5,nobox``.

        >>> Sparse.parse("L0:5").count
        5
        """
        match = re.fullmatch(r"l_?0:(\d+)(,nobox)?", text.lower().replace(" ", ""))
        if match is None or not 1 <= int(match[1]) < 10**9:
            raise InputError(
                f"The threat {text!r} is not understood: L0 counts features or pixels that may change, as l0:5."
            )
        return cls(int(match[1]), None if match[2] else (0.0, 1.0))

    def __str__(self) -> str:
        return f"l0:{self.count}" + (",nobox" if self.box is None else "")

    @property
    def radius(self) -> float:
        """The count."""
        return float(self.count)

    def with_radius(self, radius: float) -> Sparse:
        """The same threat with the count ``radius``, rounded down."""
        return self.changed(count=int(radius))

    def in_units(self, rows: Tensor) -> Tensor:
        """``rows`` [n, …] by channel and by what counts as one change: [n, channels, units]."""
        return rows[:, None] if rows.dim() == 2 else rows.flatten(2)

    def distance(self, x: Tensor, other: Tensor) -> Tensor:
        """How many features or pixels differ in each row: [n] float64."""
        return self.in_units(x != other).any(1).sum(1).double()

    def check_room(self, x: Tensor) -> None:
        """Refuse inputs ``x`` [n, …] with a feature that could become infinite."""
        low, high = (end.flatten(1) for end in self.room(x))
        endless = (~(low.isfinite() & high.isfinite())).any(0).nonzero()[:, 0].tolist()
        if endless:
            raise InputError(
                f"{self} lets feature {endless[0]} become anything, and nothing limits it: give it a range, "
                "limits=FeatureLimits(ranges=((0, low, high), …)) of radii.feature_limits."
            )

    def project(self, point: Tensor, center: Tensor) -> Tensor:
        """``point`` with its ``count`` largest changes from ``center`` alone, inside box and limits."""
        import torch

        low, high = self.room(center)
        step = self.in_units(torch.minimum(torch.maximum(point, low), high) - center)
        size = step.abs().sum(1)
        if self.count < size.shape[1]:
            kept = torch.zeros_like(size).scatter(1, size.topk(self.count, 1).indices, 1.0)
            step = step * kept[:, None]
        moved = torch.where(step.view_as(point) != 0, torch.minimum(torch.maximum(point, low), high), center)
        if not self.limits.all_allowed:
            moved = self.limits.settled(moved.flatten(1), center.flatten(1)).view_as(point)
        return torch.where(per_row(self.contains(moved, center), point), moved, center)

    def contains(self, point: Tensor, center: Tensor) -> Tensor:
        """Which rows of ``point`` are such inputs: [n] bool. Exact."""
        return (self.distance(center, point) <= self.count) & self.permits(point, center)


def _which(value: Any) -> str:
    """How a stored threat is told apart."""
    if isinstance(value, dict):
        return "change" if "kind" in value else "sparse" if "count" in value else "ball"
    return "change" if isinstance(value, Change) else "sparse" if isinstance(value, Sparse) else "ball"


AttackThreat = Annotated[
    Annotated[Ball, Tag("ball")] | Annotated[Change, Tag("change")] | Annotated[Sparse, Tag("sparse")],
    Discriminator(_which),
]


def stored_threat(content: dict[str, Any]) -> Ball | Change | Sparse:
    """The threat that a spec holds."""
    threat: Ball | Change | Sparse = TypeAdapter(AttackThreat).validate_python(content)
    return threat


def attack_threat_of(threat: Ball | Change | Sparse | str) -> Ball | Change | Sparse:
    """The threat itself, or the one that a text names: a norm ball, a change of images or few features.

    >>> attack_threat_of("l0:3").count
    3
    """
    if isinstance(threat, Sparse):
        return threat
    if isinstance(threat, str) and re.match(r"\s*[lL]_?0\s*:", threat):
        return Sparse.parse(threat)
    return threat_of(threat)


def with_ranges(threat: Sparse, low: list[float], high: list[float]) -> Sparse:
    """``threat`` with these ends, of each feature, where neither box nor range limits it."""
    limited = {feature for feature, least, greatest in threat.limits.ranges if isfinite(least) and isfinite(greatest)}
    more = tuple((f, *ends) for f, ends in enumerate(zip(low, high, strict=True)) if f not in limited)
    limits = threat.limits.model_copy(update={"ranges": (*threat.limits.ranges, *more)})
    return threat.changed(limits=limits)
