"""The threat model: a ball of perturbations, its norm, radius and box in one value.

``Ball("linf", 8/255)`` is every input within 8/255 in each coordinate that
also stays inside the box [0, 1]. Written: ``linf:8/255``, ``l2:36/255``,
``linf:0.3,nobox``.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ValidationError, field_validator

from radii.errors import InputError, brief, unknown_name
from radii.rounding import format_radius
from radii.spec import Spec, explain

if TYPE_CHECKING:
    from torch import Generator, Tensor

Norm = Literal["l1", "l2", "linf"]
Box = tuple[float, float]

_NORMS = {"l1": "l1", "l2": "l2", "linf": "linf", "l∞": "linf", "l_inf": "linf", "l_2": "l2", "l_1": "l1"}
_GRAMMAR = "Write NORM:RADIUS[,nobox], for example linf:8/255 or l2:0.5,nobox."


class Ball(Spec):
    """Perturbations of at most ``radius`` in ``norm`` that leave the input in ``box``.

    ``fixed`` numbers the features of a flat input that keep their value (immutable ones).
        L1 balls measure distances and sample; projections exist for L2 and Linf,
    where attacks need them.
    """

    neutral: ClassVar[dict[str, Any]] = {"fixed": ()}

    norm: Norm
    radius: float
    box: Box | None = (0.0, 1.0)
    fixed: tuple[int, ...] = ()

    def __init__(self, norm: Norm, radius: float, box: Box | None = (0.0, 1.0), fixed: tuple[int, ...] = ()) -> None:
        try:
            super().__init__(norm=norm, radius=radius, box=box, fixed=fixed)  # type: ignore[call-arg]
        except ValidationError as error:
            raise explain(error, "Ball") from None

    @field_validator("radius")
    @classmethod
    def _positive(cls, radius: float) -> float:
        if radius < 0:
            raise ValueError(f"radius must be at least 0, got {radius:g} instead")
        return radius

    @field_validator("box")
    @classmethod
    def _ordered(cls, box: Box | None) -> Box | None:
        if box is not None and not box[0] < box[1]:
            raise ValueError(f"box must be (low, high) with low < high, got {box} instead")
        return box

    @classmethod
    def parse(cls, text: str) -> Ball:
        """Read ``linf:8/255``, ``l2:0.5`` or ``linf:0.3,nobox``.

        >>> Ball.parse("linf:8/255").radius * 255
        8.0
        """
        body, *flags = (part.strip() for part in text.lower().split(","))
        match = re.fullmatch(r"([^:]+):(.+)", body)
        if match is None:
            raise InputError(f"Threat model {text!r} is not understood. {_GRAMMAR}")
        if match[1] not in _NORMS:
            raise unknown_name("norm", match[1], ["l1", "l2", "linf"], _GRAMMAR)
        if any(flag != "nobox" for flag in flags):
            raise InputError(f"Threat model {text!r}: only ',nobox' may follow the radius. {_GRAMMAR}")
        norm, radius = _NORMS[match[1]], parse_radius(match[2])
        if norm == "linf" and radius > 1 and not flags:
            raise InputError(
                f"The ball {body} covers the whole box [0, 1]. Did you mean {norm}:{match[2]}/255? "
                f"For inputs without a box write {body},nobox."
            )
        return cls(norm, radius, None if flags else (0.0, 1.0))  # type: ignore[arg-type]

    @classmethod
    def of(cls, threat: Ball | str) -> Ball:
        """The ball itself, or the one that a text names."""
        if not isinstance(threat, str | Ball):
            raise InputError(f"A threat model must be a radii.Ball or a text, got {brief(threat)} instead. {_GRAMMAR}")
        return cls.parse(threat) if isinstance(threat, str) else threat

    def __str__(self) -> str:
        return f"{self.norm}:{format_radius(self.radius)}" + (",nobox" if self.box is None else "")

    def with_radius(self, radius: float) -> Ball:
        """The same norm, box and fixed features with another radius."""
        return Ball(self.norm, radius, self.box, self.fixed)

    def keep_fixed(self, point: Tensor, center: Tensor) -> Tensor:
        """``point`` with the fixed features of ``center``; it comes no farther from it."""
        if not self.fixed:
            return point
        kept = point.flatten(1).clone()
        kept[:, list(self.fixed)] = center.flatten(1)[:, list(self.fixed)].to(kept)
        return kept.view_as(point)

    def distance(self, x: Tensor, other: Tensor) -> Tensor:
        """Distance of each row of ``x`` to the same row of ``other``: [n, …] -> [n]."""
        return length(other - x, self.norm)

    def project(self, point: Tensor, center: Tensor) -> Tensor:
        """The nearest point of the ball around ``center`` (Linf), then of the box.

        For L2 with a box the result is inside both but need not be the nearest
        point of their intersection: scaling a perturbation down and then
        clipping it can only shorten it, so it stays inside the ball.
        """
        import torch

        if self.norm == "linf":
            point = torch.minimum(torch.maximum(point, center - self.radius), center + self.radius)
        elif self.norm == "l2":
            step = point - center
            norm = per_row(length(step, "l2"), step)
            point = center + step * (self.radius / norm.clamp_min(torch.finfo(step.dtype).tiny)).clamp_max(1.0)
        else:
            raise InputError(f"Projection is defined for l2 and linf balls, got {self.norm!r} instead.")
        point = self.keep_fixed(point, center)
        return point if self.box is None else point.clamp(*self.box)

    def random_start(self, x: Tensor, generator: Generator) -> Tensor:
        """A uniform draw from the ball around each row of ``x``, then clipped to the box.

        Linf: independent uniform coordinates. L2: a normal direction with
        length radius * U^(1/d), which is uniform in the ball's volume.
        """
        import torch

        if self.norm == "linf":
            noise = torch.rand(x.shape, generator=generator, dtype=x.dtype).mul_(2).sub_(1).mul_(self.radius)
        elif self.norm == "l2":
            noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            reach = torch.rand(len(x), generator=generator, dtype=x.dtype) ** (1 / noise[0].numel())
            noise = noise * per_row(self.radius * reach / length(noise, "l2"), noise)
        else:
            raise InputError(f"Random starts are defined for l2 and linf balls, got {self.norm!r} instead.")
        return self.project(x + noise.to(x.device), x)

    def contains(self, point: Tensor, center: Tensor, slack: float = 1e-6) -> Tensor:
        """Which rows of ``point`` lie in the ball around ``center`` and in the box: [n] bool.

        ``slack`` is relative to the radius and covers the rounding of a float32 subtraction.
        """
        inside = self.distance(center.double(), point.double()) <= self.radius * (1 + slack) + 1e-7
        if self.fixed:
            moved = (point.flatten(1) - center.flatten(1).to(point))[:, list(self.fixed)]
            inside &= (moved == 0).all(1)
        if self.box is not None:
            flat = point.flatten(1)
            inside &= ((flat >= self.box[0]) & (flat <= self.box[1])).all(1)
        return inside


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
    order: dict[Norm, float] = {"l1": 1.0, "l2": 0.5, "linf": 0.0}
    return radius / max(1.0, sqrt(dimension) ** (2 * (order[source] - order[target])))


def parse_radius(text: str) -> float:
    """The radius in ``text``, a decimal number or a fraction: ``0.3``, ``8/255``."""
    try:
        radius = float(Fraction(text.strip())) if "/" in text else float(text)
    except ZeroDivisionError:
        raise InputError(f"Radius {text!r} divides by zero. {_GRAMMAR}") from None
    except ValueError:
        raise InputError(f"Radius {text!r} is not a number. {_GRAMMAR}") from None
    if not 0 <= radius < float("inf"):
        raise InputError(f"Radius must be a finite number of at least 0, got {text!r} instead. {_GRAMMAR}")
    return radius
