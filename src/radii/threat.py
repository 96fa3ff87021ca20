"""The threat model: a ball of perturbations, its norm, radius and box in one value.

``Ball("linf", 8/255)`` is every input within 8/255 in each coordinate that
also stays inside the box [0, 1]. Written: ``linf:8/255``, ``l2:36/255``,
``linf:0.3,nobox``. In a table each feature has a scale; ``linf:0.1sd`` is a tenth of
the standard deviation of each column. Membership is exact: it is decided for the
floating-point numbers themselves, and so is what a projection returns.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ValidationError, field_validator, model_validator

from radii.errors import InputError, brief, unknown_name
from radii.feature_limits import ANYTHING, FeatureLimits
from radii.spec import LARGEST, Spec, explain
from radii.tables import format_radius, parse_number

if TYPE_CHECKING:
    from torch import Generator, Tensor

Norm = Literal["l1", "l2", "linf"]
NORM_NAMES: dict[Norm, str] = {"l1": "L1", "l2": "L2", "linf": "L∞"}  # for readers
Box = tuple[float, float]
_ORDER: dict[Norm, float] = {"l1": 1.0, "l2": 0.5, "linf": 0.0}  # 1 / p

_NORMS = {"l1": "l1", "l2": "l2", "linf": "linf", "l∞": "linf", "l_inf": "linf", "l_2": "l2", "l_1": "l1"}
_GRAMMAR = "Write NORM:RADIUS[sd][,nobox], for example linf:8/255, l2:0.5,nobox or linf:0.1sd."


class Allowed(Spec):
    """What an input can become, however far it moves: a box, features that stay, and limits of the others."""

    omit_if_default: ClassVar[dict[str, Any]] = {"fixed": (), "limits": ANYTHING}

    box: Box | None = (0.0, 1.0)
    fixed: tuple[int, ...] = ()
    limits: FeatureLimits = ANYTHING

    @field_validator("box")
    @classmethod
    def _ordered(cls, box: Box | None) -> Box | None:
        if box is not None and not box[0] < box[1]:
            raise ValueError(f"box must be (low, high) with low < high, got {box} instead")
        return box

    def changed(self, **fields: Any) -> Self:
        """The same threat with other ``fields``."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **fields})

    @property
    def ends(self) -> Box:
        """The least and the greatest float32 number in the box; infinite without one."""
        return (-inf, inf) if self.box is None else _float32_ends(self.box)

    def keep_fixed(self, point: Tensor, center: Tensor) -> Tensor:
        """``point`` with the fixed features of ``center``; it comes no farther from it."""
        if not self.fixed:
            return point
        kept = point.flatten(1).clone()
        kept[:, list(self.fixed)] = center.flatten(1)[:, list(self.fixed)].to(kept)
        return kept.view_as(point)

    def room(self, center: Tensor) -> tuple[Tensor, Tensor]:
        """What each feature can become, however far it moves: two tensors like ``center`` [n, …].

        Box, ranges, directions and fixed features count; relations and whole numbers do not, so that the room
        contains the ball and is sound for a proof.
        """
        low, high = self.limits.room(center.flatten(1))
        low, high = (end.view_as(center).clamp(*self.ends) for end in (low, high))
        return self.keep_fixed(low, center), self.keep_fixed(high, center)

    def permits(self, point: Tensor, center: Tensor) -> Tensor:
        """Which rows of ``point`` [n, …] keep the fixed features of ``center``, the limits and the box: [n] bool."""
        flat, middle = point.flatten(1).double(), center.flatten(1).double()
        inside = (flat[:, list(self.fixed)] == middle[:, list(self.fixed)]).all(1)
        if not self.limits.all_allowed:
            inside &= self.limits.allows(flat, middle)
        return inside if self.box is None else inside & ((flat >= self.box[0]) & (flat <= self.box[1])).all(1)


class Ball(Allowed):
    """Perturbations of at most ``radius`` in ``norm`` that leave the input in ``box``.

    Args:
        norm: ``l1``, ``l2`` or ``linf``.
        radius: the largest length of a perturbation.
        box: the least and greatest value of every feature; None without one. Default (0, 1).
        fixed: numbers of the features of a flat input that keep their value (immutable ones).
        scale: a positive number for each feature: a change of feature j counts as |delta_j| / scale_j.
            Default: 1 for all.
        limits: what features can become, whatever the radius; default: anything.
        unit: ``sd`` for a radius in standard deviations of the training columns; :meth:`in_units` gives
            them as the scale. Default: the features' own units.
    """

    omit_if_default: ClassVar[dict[str, Any]] = {"fixed": (), "scale": (), "limits": ANYTHING, "unit": ""}

    norm: Norm
    radius: float
    scale: tuple[float, ...] = ()
    unit: Literal["", "sd"] = ""

    def __init__(
        self,
        norm: Norm,
        radius: float,
        box: Box | None = (0.0, 1.0),
        fixed: tuple[int, ...] = (),
        scale: tuple[float, ...] = (),
        limits: FeatureLimits = ANYTHING,
        unit: Literal["", "sd"] = "",
    ) -> None:
        table: dict[str, Any] = {"fixed": fixed, "scale": scale, "limits": limits, "unit": unit}
        try:
            super().__init__(norm=norm, radius=radius, box=box, **table)  # type: ignore[call-arg]
        except ValidationError as error:
            raise explain(error, "Ball") from None

    @field_validator("radius")
    @classmethod
    def _positive(cls, radius: float) -> float:
        if radius < 0:
            raise ValueError(f"radius must be at least 0, got {radius:g} instead")
        return radius

    @field_validator("scale")
    @classmethod
    def _positive_scale(cls, scale: tuple[float, ...]) -> tuple[float, ...]:
        if not all(number > 0 for number in scale):
            raise ValueError(f"scale must be positive numbers, got {min(scale):g} among them")
        return scale

    @model_validator(mode="after")
    def _counts_groups(self) -> Ball:
        for group in self.limits.groups:
            if set(group) & set(self.fixed):
                raise ValueError(f"the group {group} has fixed features, so its 1 cannot swap places")
            if self.scale and len({self.scale[feature] for feature in group if feature < len(self.scale)}) > 1:
                raise ValueError(f"the features of the group {group} must have one scale")
        return self

    @classmethod
    def parse(cls, text: str) -> Ball:
        """Read ``linf:8/255``, ``l2:0.5``, ``linf:0.3,nobox`` or ``linf:0.1sd``.

        >>> Ball.parse("linf:8/255").radius * 255
        8.0
        """
        body, *flags = (part.strip() for part in text.lower().split(","))
        match = re.fullmatch(r"([^:]+):(.+)", body)
        if match is None and re.fullmatch(r"[0-9./]+", body):
            raise InputError(f"Which norm has the threat {text!r}? Write l2:{body} or linf:{body}.")
        if match is None:
            raise InputError(f"Threat model {text!r} is not understood. {_GRAMMAR}")
        if match[1] not in _NORMS:
            _refuse_other_threats(match[1], text)
            raise unknown_name("norm", match[1], ["l1", "l2", "linf"], _GRAMMAR)
        if any(flag != "nobox" for flag in flags):
            raise InputError(f"Threat model {text!r}: only ',nobox' may follow the radius. {_GRAMMAR}")
        number, unit = (match[2].removesuffix("sd"), "sd") if match[2].endswith("sd") else (match[2], "")
        norm, radius = _NORMS[match[1]], _parse_radius(number)
        if norm == "linf" and radius > 1 and not flags and not unit:
            raise InputError(
                f"The ball {body} covers the whole box [0, 1]. Did you mean {norm}:{match[2]}/255? "
                f"For inputs without a box write {body},nobox."
            )
        return cls(norm, radius, None if flags else (0.0, 1.0), unit=unit)  # type: ignore[arg-type]

    @classmethod
    def of(cls, threat: Ball | str) -> Ball:
        """The ball itself, or the one that a text names."""
        if not isinstance(threat, str | Ball):
            raise InputError(f"A threat model must be a radii.Ball or a text, got {brief(threat)} instead. {_GRAMMAR}")
        return cls.parse(threat) if isinstance(threat, str) else threat

    def __str__(self) -> str:
        return f"{self.norm}:{format_radius(self.radius)}{self.unit}" + (",nobox" if self.box is None else "")

    def check_room(self, count: int) -> None:
        """Refuse a ball around a row of ``count`` numbers that contains the whole box, whatever the row."""
        widest = {"linf": 1.0, "l2": count**0.5, "l1": float(count)}[self.norm]
        if self.box == (0.0, 1.0) and not self.scale and self.radius > widest:
            less = f"{self.norm}:{format_radius(self.radius)}/255"
            guess = f" Did you mean {less}?" if self.radius / 255 <= widest else ""
            raise InputError(f"The ball {self} covers the whole box [0, 1] of {count} numbers.{guess}")

    def with_radius(self, radius: float) -> Ball:
        """The same ball with another radius."""
        return self.changed(radius=radius)

    @property
    def is_plain(self) -> bool:
        """Whether a change counts alike in every feature and each one can become anything in the box."""
        return not (self.fixed or self.scale or self.unit) and self.limits.all_allowed

    def scales(self, like: Tensor) -> Tensor:
        """The scale of each feature, in the shape of one row of ``like`` [n, …]: [1, …]; 1 where none is given."""
        import torch

        if self.unit and not self.scale:
            raise InputError(
                f"The radius of {self} counts standard deviations of training columns, which are not given here. "
                'Give them: radii.Ball("linf", 0.1, None, scale=tuple(x_train.std(0).tolist())).'
            )
        shape = (1, *like.shape[1:])  # there may be no row
        if not self.scale:
            return like.new_ones(shape)
        count = like.shape[1:].numel()
        if len(self.scale) != count:
            raise InputError(f"The ball has a scale for {len(self.scale)} features, the rows have {count}.")
        return torch.tensor(self.scale, dtype=torch.float64, device=like.device).to(like.dtype).view(shape)

    def distance(self, x: Tensor, other: Tensor) -> Tensor:
        """Distance of each row of ``x`` to the same row of ``other``, in scales: [n, …] -> [n]."""
        return length((other - x) / self.scales(x) if self.scale or self.unit else other - x, self.norm)

    def clip(self, point: Tensor, center: Tensor) -> Tensor:
        """:meth:`project` up to the rounding of a few operations: for the steps of a search, many times as fast.

        Whole features and relations are left to :meth:`project`.
        """
        import torch

        scale: Tensor | float = self.scales(center) if self.scale or self.unit else 1.0
        if self.norm == "linf":
            reach = self.radius * scale
            point = torch.minimum(torch.maximum(point, center - reach), center + reach)
        elif self.norm == "l2":
            step = (point - center) / scale if self.scale else point - center
            norm = per_row(length(step, "l2"), step)
            step = step * (self.radius / norm.clamp_min(torch.finfo(step.dtype).tiny)).clamp_max(1.0)
            point = center + (step * scale if self.scale else step)
        else:
            point = center + self._nearest_step(point, center, scale)
        point = self.keep_fixed(point, center).clamp(*self.ends)
        if self.limits.all_allowed:
            return point
        low, high = self.room(center)
        return torch.minimum(torch.maximum(point, low), high)

    def _nearest_step(self, point: Tensor, center: Tensor, scale: Tensor | float) -> Tensor:
        """The step in the L1 ball and the room that is nearest to the one to ``point``, in scales."""
        low, high = self.room(center)
        step, down, up = (((end - center) / scale).flatten(1) for end in (point, low, high))
        return nearest_in_l1(step, self.radius, down.clamp_max(0), up.clamp_min(0)).view_as(point) * scale

    def project(self, point: Tensor, center: Tensor) -> Tensor:
        """A point of the ball around ``center`` near ``point`` (Linf: the nearest), exactly inside ball and box.

        For L2 with a box the result need not be the nearest point of their
        intersection: scaling a perturbation down and then clipping it can only
        shorten it, so it stays inside the ball. Each coordinate is rounded
        towards the center, which shortens it as well; so are whole features, and a row that
        breaks a relation goes back towards the center. A point inside stays as it is.
        """
        import torch

        inside = per_row(self.contains(point, center), point)
        step = self.clip(point, center).double() - center.double()
        scale = self.scales(step) if self.scale else torch.ones_like(step[:1])
        if self.norm == "linf":
            reach = self.radius * scale
            reach = torch.nextafter(reach, torch.zeros_like(reach)) if self.scale else reach
            step = step.clamp(-reach, reach)
        else:
            norm = per_row(length(step / scale, self.norm), step).clamp_min(torch.finfo(step.dtype).tiny)
            step = step * (self.radius * (1 - 2 * _relative_error(step)) / norm).clamp_max(1.0)
        rounded = (center + step).to(point)
        inward = torch.nextafter(rounded, center.to(point))
        rounded = torch.where(_is_within(rounded, center, step.abs()), rounded, inward)
        rounded = self.keep_fixed(rounded, center).clamp(*self.ends)
        if not self.limits.all_allowed:
            rounded = self._settled(rounded, center.to(point))
        return torch.where(inside, point, rounded)

    def _settled(self, point: Tensor, center: Tensor) -> Tensor:
        """``point`` as the feature limits allow it, no farther from the center; the center where that fails."""
        import torch

        flat, middle = point.flatten(1), center.flatten(1)
        if any(relation.is_equation for relation in self.limits.relations):
            flat = self._levelled(flat, middle)
        settled = self.limits.settled(flat, middle).view_as(point)
        settled = torch.where(per_row(self.contains(settled, center), point), settled, center)
        if not self.limits.groups:
            return settled
        stayed, categories = flat.clone(), [feature for group in self.limits.groups for feature in group]
        stayed[:, categories] = middle[:, categories]
        stayed = self.limits.settled(stayed, middle).view_as(point)
        better = (settled == center).flatten(1).all(1) & self.contains(stayed, center)
        return torch.where(per_row(better, point), stayed, settled)

    def _levelled(self, point: Tensor, center: Tensor) -> Tensor:
        """Rows [n, d] on which equations hold, drawn back along the line to the center until they are in the ball."""
        import torch

        low, high = self.room(center)
        scale = self.scales(center).where((high > low).any(0, keepdim=True), torch.zeros_like(center[:1]))
        step = self.limits.levelled(point, center, scale) - center
        side = torch.where(step >= 0, high - center, low - center)
        share = torch.where(step != 0, side / step.where(step != 0, step + 1), torch.inf).amin(1).clamp(0, 1)
        away = self.distance(center.double(), (center + step * share[:, None]).double()).to(point)
        share = share * (self.radius * (1 - 1e-5) / away.clamp_min(1e-30)).clamp_max(1)
        return center + step * share[:, None]

    def random_start(self, x: Tensor, generator: Generator) -> Tensor:
        """A uniform draw from the ball around each row of ``x``, then clipped to the box.

        Linf: independent uniform coordinates. L2: a normal direction with
        length radius * U^(1/d), which is uniform in the ball's volume. L1: the same with a Laplacian direction.
        """
        import torch

        if self.norm == "linf":
            noise = torch.rand(x.shape, generator=generator, dtype=x.dtype).mul_(2).sub_(1).mul_(self.radius)
        else:
            noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            if self.norm == "l1":
                size = torch.rand(x.shape, generator=generator, dtype=x.dtype).clamp_min(1e-30).log()
                noise = noise.sign() * size
            reach = torch.rand(len(x), generator=generator, dtype=x.dtype) ** (1 / noise[0].numel())
            noise = noise * per_row(self.radius * reach / length(noise, self.norm), noise)
        noise = noise.to(x.device)
        return self.project(x + (noise * self.scales(x) if self.scale or self.unit else noise), x)

    def contains(self, point: Tensor, center: Tensor) -> Tensor:
        """Which rows of ``point`` lie in the closed ball around ``center`` and in the box: [n] bool.

        Exact, for the numbers as they are: lengths that float64 cannot tell from the radius are computed by fractions.
        Relations alone have a tolerance (:class:`radii.feature_limits.Relation`).
        """
        flat, middle = point.flatten(1).double(), center.flatten(1).double()
        if self.norm == "linf" and not (self.scale or self.unit):
            inside = _is_within(flat, middle, self.radius).all(1)
        else:
            away = (flat - middle) / self.scales(flat) if self.scale or self.unit else flat - middle
            distance = length(away, self.norm)
            near = (distance - self.radius).abs() <= _relative_error(flat) * self.radius
            inside = distance <= self.radius
            for row in near.nonzero()[:, 0].tolist():
                inside[row] = self._is_exactly_within(flat[row].tolist(), middle[row].tolist())
        return inside & self.permits(point, center)

    def _is_exactly_within(self, point: list[float], center: list[float]) -> bool:
        """Whether the distance is at most the radius, by fractions."""
        power = 2 if self.norm == "l2" else 1
        scales = [Fraction(number) for number in self.scale or [1.0] * len(point)]
        both = zip(point, center, scales, strict=True)
        parts = [(abs(Fraction(a) - Fraction(b)) / scale) ** power for a, b, scale in both]
        return (max(parts) if self.norm == "linf" else sum(parts)) <= Fraction(self.radius) ** power


@lru_cache
def _float32_ends(box: Box) -> Box:
    import torch

    ends = torch.tensor(box, dtype=torch.float64)
    inward = torch.nextafter(ends.float(), torch.tensor([inf, -inf]))
    outside = (ends.float() - ends) * torch.tensor([1, -1]) < 0
    low, high = torch.where(outside, inward, ends.float()).tolist()
    return low, high


def _is_within(point: Tensor, center: Tensor, radius: Tensor | float) -> Tensor:
    """Whether |point - center| <= radius in each coordinate, exactly: the difference is s + e (Knuth's TwoSum)."""
    import torch

    point, center = point.double(), center.double()
    high, low = torch.maximum(point, center), torch.minimum(point, center)
    s = high - low
    t = s - high
    e = (high - (s - t)) - (low + t)
    return (s < radius) | ((s == radius) & (e <= 0))


def _relative_error(rows: Tensor) -> float:
    """A bound of the relative error of the lengths of float64 ``rows`` [n, …]."""
    return (rows[0].numel() + 8) * 2.0**-52 if len(rows) else 0.0


def length(step: Tensor, norm: Norm) -> Tensor:
    """The ``norm`` of each row of ``step``: [n, …] -> [n]."""
    flat = step.flatten(1)
    if norm == "linf":
        return flat.abs().amax(1)
    if norm == "l2":
        return flat.norm(dim=1)
    return flat.abs().sum(1)


def per_row(values: Tensor, like: Tensor) -> Tensor:
    """``values`` [n] shaped to multiply the rows of ``like`` [n, …]."""
    return values.view(-1, *[1] * (like.dim() - 1))


def converted(radius: Tensor, source: Norm, target: Norm, dimension: int) -> Tensor:
    """The largest ``target``-norm ball inside the ``source``-norm ball of ``radius``, in ``dimension`` coordinates.

    ||v||_p <= c ||v||_q gives r_q = r_p / c;
    ||v||_inf <= ||v||_2 <= ||v||_1, ||v||_1 <= sqrt(d) ||v||_2 <= d ||v||_inf.
    """
    return radius / max(1.0, sqrt(dimension) ** (2 * (_ORDER[source] - _ORDER[target])))


def radius_in(radius: Tensor, source: Norm, ball: Ball, dimension: int) -> Tensor:
    """The largest radius at which ``ball`` lies inside the ``source``-norm ball of ``radius`` without scales.

    With u the change in scales, ||s u||_p <= c ||u||_q by Hölder's inequality: c is max s for p >= q, and else the
    norm of s of order 1 / (1/p - 1/q). Fixed features have the scale 0. Rounded down.
    """
    if not ball.scale:
        return converted(radius, source, ball.norm, dimension)
    scale = [0.0 if feature in ball.fixed else number for feature, number in enumerate(ball.scale)]
    power = _ORDER[source] - _ORDER[ball.norm]
    factor = max(scale) if power <= 0 else sum(number ** (1 / power) for number in scale) ** power
    return radius / (factor * (1 + (dimension + 8) * 2.0**-50) + 1e-300)


def _refuse_other_threats(name: str, text: str) -> None:
    """Refuse a change of images, and a number of features, where only a norm ball makes sense."""
    from radii.change_kinds import KINDS

    if name in KINDS:
        raise InputError(
            f"{text} is a change of images, and a norm ball is needed here, as linf:8/255. "
            "Changes are for evaluate, attack, certify, gate and assess."
        )
    if re.fullmatch(r"l_?0", name):
        raise InputError(
            f"{text} counts changed features, and a norm ball is needed here, as linf:8/255. "
            "L0 is for attack alone: nothing is proved about it."
        )


def _parse_radius(text: str) -> float:
    """The radius in ``text``, a decimal number or a fraction: ``0.3``, ``8/255``."""
    try:
        radius = parse_number(text)
    except ValueError as why:
        raise InputError(f"Radius {text!r} {why}. {_GRAMMAR}") from None
    if not 0 <= radius <= LARGEST:
        raise InputError(
            f"Radius must be a finite number of at least 0 and at most {LARGEST:g}, got {text!r} instead. {_GRAMMAR}"
        )
    return radius


def nearest_in_l1(step: Tensor, radius: float | Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The point of {||u||_1 <= radius, low <= u <= high} nearest to ``step`` in L2: [n, d] each, low <= 0 <= high.

    It is u_j = sign(z_j) min(max(|z_j| - t, 0), c_j), where c_j is the box's room on the side of z_j and t >= 0 is
    the least number at which the length is at most the radius. The length falls in t and is linear between the
    2 d numbers |z_j| and |z_j| - c_j, so that sorted sums give t (Croce & Hein 2021, Proposition 2.1).
    """
    import torch

    radius = torch.as_tensor(radius, dtype=step.dtype, device=step.device).expand(len(step))[:, None]
    size, side = step.abs(), torch.where(step >= 0, high, -low).clamp_min(0)
    breaks = torch.cat([size, (size - side).clamp_min(0)], 1)  # a part grows between both, then it is c_j
    turns = torch.cat([torch.ones_like(size), -torch.ones_like(size)], 1)
    breaks, order = breaks.sort(dim=1, descending=True)
    growing = turns.gather(1, order).cumsum(1)  # how many parts grow just below each break
    gaps = breaks[:, :-1] - breaks[:, 1:]
    length = torch.cat([torch.zeros_like(size[:, :1]), (growing[:, :-1] * gaps).cumsum(1)], 1)  # at each break
    last = torch.searchsorted(length, radius.contiguous(), right=True).sub_(1)
    rate = growing.gather(1, last).clamp_min(1)
    level = (breaks.gather(1, last) - (radius - length.gather(1, last)) / rate).clamp_min(0)
    return step.sign() * torch.minimum((size - level).clamp_min(0), side)
