"""Regions of inputs, bounds of values on them, and the least value of linear functions over a region."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radii.networks.operations.activations import Relu
from radii.threat import Norm

CUT_ROWS = 256  # so many rows get the bound of ball and box together


@dataclass(frozen=True)
class Domain:
    """B regions of inputs [B, d], float64: boxes, and balls around ``center`` where a ``radius`` is given.

    A ball is in L2 or, by ``norm``, in L1; with a ``scale`` [1, d] feature j counts as |x_j - c_j| / scale_j, and one
    with the scale 0 does not move.
    """

    lower: Tensor
    upper: Tensor
    center: Tensor | None = None
    radius: float | None = None
    norm: Norm = "l2"
    scale: Tensor | None = None

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> Domain:
        center = None if self.center is None else self.center[rows]
        return replace(self, lower=self.lower[rows], upper=self.upper[rows], center=center)

    @property
    def is_l2(self) -> bool:
        """Whether it is cut by a plain L2 ball."""
        return self.radius is not None and self.norm == "l2" and self.scale is None

    def scales(self, dom: Tensor | None = None) -> Tensor:
        """The scale of the regions ``dom``, 1 where none is given: [1, d] or [R, d]."""
        if self.scale is None:
            return torch.ones_like(self.lower[:1])
        return self.scale if len(self.scale) == 1 else pick(self.scale, dom)


@dataclass(frozen=True)
class InputBall:
    """How an L2 ball of inputs reaches a value behind factors and moves of coordinates alone, for B domains [B, d].

    The value is within ``off`` of ``center`` + radius ``spread`` z with |z| <= 1, and at most ``size`` + radius
    ``spread`` |z| in size.
    """

    size: Tensor
    spread: Tensor
    center: Tensor
    off: Tensor


@dataclass
class ValueBounds:
    """Bounds of the values of B domains [B, d], and the rounding errors to subtract from rows."""

    domain: Domain
    lower: dict[int, Tensor] = field(default_factory=dict)
    upper: dict[int, Tensor] = field(default_factory=dict)
    error: dict[int, Tensor] = field(default_factory=dict)
    finite: Tensor = field(default_factory=lambda: torch.ones(0, dtype=torch.bool))
    balls: dict[int, InputBall] = field(default_factory=dict)
    forms: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)  # domain, place, slopes in the input
    spheres: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # center and radius: the value is within
    equal_slopes: bool = False  # ReLUs between parallel lines: the dual of Wong & Kolter (2018)
    _lines: dict[int, tuple[Tensor, Tensor, float, tuple[Tensor, Tensor, Tensor]]] = field(default_factory=dict)

    def __getitem__(self, rows: Any) -> ValueBounds:
        def part(values: dict[int, Tensor]) -> dict[int, Tensor]:
            return {number: value[rows] for number, value in values.items()}

        ends = part(self.lower), part(self.upper)
        return ValueBounds(
            self.domain[rows], *ends, part(self.error), self.finite[rows], equal_slopes=self.equal_slopes
        )

    def lines(self, layer: Relu, source: int) -> tuple[Tensor, Tensor, Tensor]:
        """The relaxation of a ReLU ``layer`` on the value ``source``, computed once for the bounds it has."""
        low, high = self.lower[source], self.upper[source]
        cached = self._lines.get(source)
        if cached is None or cached[0] is not low or cached[1] is not high or layer.slope != cached[2]:
            under, over, lift = layer.relaxation(low, high)
            if self.equal_slopes:
                under = over.clamp(layer.slope, 1.0)
            cached = (low, high, layer.slope, (under, over, lift))
            self._lines[source] = cached
        return cached[3]

    def fix_signs(self, source: int, rows: Tensor, places: Tensor, signs: Tensor) -> None:
        """Fix the ``signs`` of coordinates ``places`` of ``source`` in the domains ``rows``, in place."""
        low, high = self.lower[source][rows, places], self.upper[source][rows, places]
        self.lower[source][rows, places] = torch.where(signs > 0, low.clamp_min(0), low)
        self.upper[source][rows, places] = torch.where(signs < 0, high.clamp_max(0), high)
        self._lines.pop(source, None)


def gamma(terms: float, unit: float) -> float:
    """The relative error of a sum of ``terms`` products in any order, with the unit roundoff ``unit``."""
    return terms * unit / max(1e-3, 1 - terms * unit)


def least(A: Tensor, domain: Domain, dom: Tensor | None) -> Tensor:
    """The least ``A`` . x of each row r over the region ``dom[r]`` of ``domain``: the better of box and ball."""
    A = A.double()
    low, high = pick(domain.lower, dom), pick(domain.upper, dom)
    inside = dot(A, (low + high) / 2) - dot(A.abs(), (high - low) / 2)
    size = torch.maximum(low.abs(), high.abs())
    if domain.radius is not None and domain.center is not None and not domain.is_l2:
        inside = torch.maximum(inside, _least_in_ball(A, domain, dom))
        size = size + domain.radius * domain.scales(dom)
    elif domain.radius is not None and domain.center is not None:
        ball = dot(A, pick(domain.center, dom)) - domain.radius * A.norm(dim=1)
        inside = torch.maximum(inside, ball)
        size = size + domain.radius
        reach = domain.center - domain.radius, domain.center + domain.radius
        cut = bool((domain.lower > reach[0]).any()) or bool((domain.upper < reach[1]).any())
        if cut and len(A) <= CUT_ROWS:
            inside = torch.maximum(inside, _least_in_cut_ball(A, low, high, pick(domain.center, dom), domain.radius))
    return inside - dot(A.abs(), size) * (A.shape[1] + 8) * 2.0**-51


def _least_in_ball(A: Tensor, domain: Domain, dom: Tensor | None) -> Tensor:
    """A lower bound of A . x over a ball in scales by the dual norm; in L1 over ball and box together.

    L2: A . c - r |s A|_2. L1: for every m >= 0, A . x >= A . c - m r - sum of room_j max(|A_j| - m / s_j, 0), where
    room_j is how far the box lets x_j go downhill. The best m is the slope |A_j| s_j at which the radius is used up
    when the steepest features are moved first.
    """
    assert domain.center is not None
    assert domain.radius is not None
    scale, center = domain.scales(dom), pick(domain.center, dom)
    steep = A.abs() * scale
    if domain.norm == "l2":
        return dot(A, center) - domain.radius * steep.norm(dim=1)
    room = torch.where(steep > 0, _room_downhill(A, domain, dom) / scale.clamp_min(1e-300), 0.0)
    order = steep.argsort(dim=1, descending=True)
    used = room.gather(1, order).cumsum(1)
    last = (used < domain.radius).sum(1, keepdim=True)  # the first feature at which the radius is used up
    reached = torch.cat([steep.gather(1, order), torch.zeros_like(steep[:, :1])], 1).gather(1, last)
    rest = (room * (steep - reached).clamp_min(0)).nan_to_num(0.0).sum(1)
    return dot(A, center) - domain.radius * reached[:, 0] - rest


def _room_downhill(A: Tensor, domain: Domain, dom: Tensor | None) -> Tensor:
    """How far the box lets each feature of the center go in the direction in which ``A`` . x falls: [R, d]."""
    assert domain.center is not None
    low, high, center = (pick(end, dom) for end in (domain.lower, domain.upper, domain.center))
    return torch.where(A > 0, center - low, high - center).clamp_min(0)


def _least_in_cut_ball(A: Tensor, low: Tensor, high: Tensor, center: Tensor, radius: float) -> Tensor:
    """A lower bound of A . x over ball and box together, by one multiplier.

    For every m >= 0, A . x >= min over the box of A . x + m (|x - c|^2 - r^2), whose minimizer is
    clip(c - A / 2m). The multiplier at which it has distance r is found by bisection.
    """
    from radii.bounds._kernels import cut_ball  # loads numba

    x, rest = np.empty(A.shape), np.empty(len(A))
    ends = (value.expand(len(A), -1).contiguous().numpy() for value in (low, high, center))
    kernel: Any = cut_ball
    kernel(A.detach().contiguous().numpy(), *ends, radius, x, rest)
    return (A * torch.from_numpy(x)).sum(1) + torch.from_numpy(rest)


def lowest_input(A: Tensor, domain: Domain, dom: Tensor) -> Tensor:
    """The inputs [R, d] of the regions ``dom`` at which ``A`` . x is least, or nearly: a corner, or the rim of a ball.

    Args:
        A: coefficients [R, d].
    """
    low, high = pick(domain.lower, dom), pick(domain.upper, dom)
    if domain.radius is None or domain.center is None:
        return torch.where(A > 0, low, torch.where(A < 0, high, (low + high) / 2))
    if not domain.is_l2:
        return _lowest_in_ball(A.double(), domain, dom)
    from radii.bounds._kernels import cut_ball  # loads numba

    center, x, rest = pick(domain.center, dom), torch.empty(A.shape, dtype=torch.float64), np.empty(len(A))
    kernel: Any = cut_ball
    arrays = (value.double().contiguous().numpy() for value in (A, low, high, center))
    kernel(*arrays, domain.radius, x.numpy(), rest)
    return x


def _lowest_in_ball(A: Tensor, domain: Domain, dom: Tensor) -> Tensor:
    """:func:`lowest_input` of a ball in scales: the rim in L2; in L1 the steepest features as far as they can."""
    assert domain.center is not None
    assert domain.radius is not None
    scale, center = domain.scales(dom), pick(domain.center, dom)
    steep = A.abs() * scale
    if domain.norm == "l2":
        step = -domain.radius * A * scale * scale / steep.norm(dim=1, keepdim=True).clamp_min(1e-300)
        return torch.minimum(torch.maximum(center + step, pick(domain.lower, dom)), pick(domain.upper, dom))
    room = _room_downhill(A, domain, dom) / scale.clamp_min(1e-300)
    order = steep.argsort(dim=1, descending=True)
    wanted = torch.where(steep > 0, room, 0.0).gather(1, order)
    left = (domain.radius - (wanted.cumsum(1) - wanted)).clamp_min(0)
    moved = torch.zeros_like(A).scatter(1, order, torch.minimum(wanted, left))
    return center - A.sign() * moved * scale


def pick(value: Tensor, dom: Tensor | None) -> Tensor:
    """The rows ``dom`` of ``value``; all of them for None."""
    return value if dom is None else value.index_select(0, dom)


def dot(A: Tensor, value: Tensor) -> Tensor:
    """``A`` [R, d] times ``value`` [R, d] or [1, d], row by row, as float64: [R]."""
    if len(value) == 1:
        return (A @ value[0]).double()
    return torch.linalg.vecdot(A, value).double()
