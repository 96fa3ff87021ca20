"""What each feature of a row can become, however far it moves: numbers, directions, ranges, categories, relations.

A proof may read :meth:`FeatureLimits.room` alone, which contains every allowed row and more; an attack has to
land where :meth:`FeatureLimits.allows` agrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ValidationError, field_validator

from radii.spec import LARGEST, Spec, explain

if TYPE_CHECKING:
    from torch import Tensor

ROUNDING = 1e-5  # a relation may be off by this share of the sum of its terms' sizes: rows are float32


class Relation(Spec):
    """low <= sum of weight · feature <= high, by numbers of features.

    A row obeys it if the sum lies in the interval up to 1e-5 of the sum of the terms' sizes.
    """

    weights: tuple[tuple[int, float], ...]
    low: float = -LARGEST
    high: float = LARGEST

    @property
    def is_equation(self) -> bool:
        """Whether the sum has one value."""
        return self.low == self.high

    def total(self, rows: Any) -> Any:
        """The sum of each row: float64 [n, d], of numpy or torch, to [n]."""
        return sum(weight * rows[:, feature] for feature, weight in self.weights)

    def holds(self, rows: Any) -> Any:
        """Which rows, float64 [n, d] of numpy or torch, obey it: [n]."""
        ends = [abs(end) for end in (self.low, self.high) if abs(end) < LARGEST]
        size = sum(abs(weight * rows[:, feature]) for feature, weight in self.weights) + max(ends, default=0.0)
        total = self.total(rows)
        return (total >= self.low - ROUNDING * size) & (total <= self.high + ROUNDING * size)


class FeatureLimits(Spec):
    """What a row of features can become, whatever the radius.

    Args:
        whole: features that are whole numbers.
        rising: features that can only grow.
        falling: features that can only shrink.
        ranges: (feature, least, greatest value); a row that starts outside may stay between it and the range.
        relations: linear relations that every row obeys.
        groups: features of which exactly one is 1 and the others are 0; the 1 may swap places as a whole. A row whose
            features are otherwise keeps them.
    """

    omit_if_default: ClassVar[dict[str, Any]] = {"groups": ()}

    whole: tuple[int, ...] = ()
    rising: tuple[int, ...] = ()
    falling: tuple[int, ...] = ()
    ranges: tuple[tuple[int, float, float], ...] = ()
    relations: tuple[Relation, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()

    def __init__(self, **limits: Any) -> None:
        try:
            super().__init__(**limits)
        except ValidationError as error:
            raise explain(error, "FeatureLimits") from None

    @field_validator("ranges")
    @classmethod
    def _ordered(cls, ranges: tuple[tuple[int, float, float], ...]) -> tuple[tuple[int, float, float], ...]:
        for feature, low, high in ranges:
            if low > high:
                raise ValueError(f"the range of feature {feature} must be (least, greatest), got ({low}, {high})")
        return ranges

    @field_validator("groups")
    @classmethod
    def _apart(cls, groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        every = [feature for group in groups for feature in group]
        if any(len(group) < 2 for group in groups) or len(set(every)) < len(every):
            raise ValueError(f"each group must have two features or more, and no feature two groups, got {groups}")
        return groups

    @property
    def all_allowed(self) -> bool:
        """Whether every row is allowed."""
        return not (self.whole or self.rising or self.falling or self.ranges or self.relations or self.groups)

    def room(self, center: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the greatest value of each feature of rows that start at ``center`` [n, d]: two [n, d].

        Relations are left out: the room is larger than what is allowed, never smaller.
        """
        import torch

        low, high = torch.full_like(center, -torch.inf), torch.full_like(center, torch.inf)
        for feature, least, greatest in self.ranges:
            least, greatest = _inward(least, greatest, center.dtype)
            low[:, feature] = torch.minimum(torch.full_like(low[:, feature], least), center[:, feature])
            high[:, feature] = torch.maximum(torch.full_like(high[:, feature], greatest), center[:, feature])
        low[:, list(self.rising)] = center[:, list(self.rising)]
        high[:, list(self.falling)] = center[:, list(self.falling)]
        for group in self.groups:
            own = center[:, list(group)]
            swaps = one_hot(own)[:, None]
            low[:, list(group)], high[:, list(group)] = own.where(~swaps, 0 * own), own.where(~swaps, 0 * own + 1)
        return low, high

    def allows(self, point: Tensor, center: Tensor) -> Tensor:
        """Which rows of ``point`` [n, d] are allowed for rows that start at ``center``: [n] bool."""
        low, high = self.room(center)
        whole = point[:, list(self.whole)]
        still = whole == center[:, list(self.whole)]
        inside = ((point >= low) & (point <= high)).all(1) & ((whole == whole.round()) | still).all(1)
        for group in self.groups:
            own, start = point[:, list(group)], center[:, list(group)]
            inside &= (own == start).all(1) | (one_hot(own) & one_hot(start))
        for relation in self.relations:
            inside &= relation.holds(point.double())
        return inside

    def settled(self, point: Tensor, center: Tensor) -> Tensor:
        """``point`` [n, d] moved towards the allowed ``center``, feature by feature, until it is allowed.

        Whole features are rounded towards the center, of each group the largest feature becomes 1; then the row goes
        back on the straight line to it
        as far as relations ask, which is all the way where an equation is broken: see :meth:`levelled`.
        """
        import torch

        low, high = self.room(center)
        point = self._rounded(torch.minimum(torch.maximum(point, low), high), center)
        for relation in self.relations:
            point = self._rounded(_drawn_back(relation, point, center), center)
        return torch.where(self.allows(point, center)[:, None], point, center)

    def levelled(self, point: Tensor, center: Tensor, scale: Tensor) -> Tensor:
        """``point`` [n, d] with the nearest step from ``center``, in scales, on which every equation keeps its sum.

        Features that cannot move (``scale`` [1, d] is 0) stay; rows are as far from allowed as their step leaves the
        room.
        """
        import torch

        equations = [relation for relation in self.relations if relation.is_equation]
        if not equations:
            return point
        normals = torch.zeros(len(equations), point.shape[1], dtype=torch.float64)
        for number, relation in enumerate(equations):
            for feature, weight in relation.weights:
                normals[number, feature] = weight
        normals = normals.to(point.device) * scale.double()
        step = (point - center).double() / scale.double().where(scale > 0, torch.ones_like(scale).double())
        step = step - step @ normals.T @ torch.linalg.pinv(normals @ normals.T) @ normals
        return (center.double() + step * scale.double()).to(point)

    def _rounded(self, point: Tensor, center: Tensor) -> Tensor:
        """Whole features rounded towards the center, and groups to the place of their largest feature."""
        import torch

        if self.groups:
            point = point.clone()
        for group in self.groups:
            own, start = point[:, list(group)], center[:, list(group)]
            largest = torch.where((own == own.amax(1, keepdim=True)) & (start == 1), 2.0, own).argmax(1)  # ties stay
            swapped = torch.nn.functional.one_hot(largest, len(group)).to(own)
            point[:, list(group)] = swapped.where(one_hot(start)[:, None], start)
        if not self.whole:
            return point
        features = list(self.whole)
        own, start = point[:, features], center[:, features]
        rounded = torch.where(own >= start, own.floor().maximum(start), own.ceil().minimum(start))
        point = point.clone()
        point[:, features] = rounded
        return point


ANYTHING = FeatureLimits()


def one_hot(rows: Any) -> Any:
    """Which rows [n, k], of numpy or torch, are one 1 and otherwise 0: [n]."""
    return ((rows == 0) | (rows == 1)).all(1) & (rows.sum(1) == 1)


def _inward(low: float, high: float, dtype: Any) -> tuple[float, float]:
    """The least and greatest number of ``dtype`` in [low, high]."""
    import torch

    ends = torch.tensor([low, high], dtype=torch.float64)
    near = ends.to(dtype)
    inner = torch.nextafter(near, torch.tensor([torch.inf, -torch.inf], dtype=dtype))
    outside = (near.double() - ends) * torch.tensor([1, -1]) < 0
    least, greatest = torch.where(outside, inner, near).tolist()
    return least, greatest


def _drawn_back(relation: Relation, point: Tensor, center: Tensor) -> Tensor:
    """``point`` moved along the line to ``center`` to where the relation's sum re-enters its interval."""
    total, start = relation.total(point.double()), relation.total(center.double())
    target = total.clamp(relation.low, relation.high)
    move = total - start
    share = ((target - start) / move.where(move != 0, move + 1)).clamp(0, 1)
    share = share.where(total != target, share * 0 + 1).to(point)[:, None]
    return (center + share * (point - center)).where(share < 1, point)
