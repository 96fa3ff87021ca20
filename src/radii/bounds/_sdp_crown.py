"""CROWN for L2 balls with one parameter a layer (SDP-CROWN; Chiu, Yang, Xu, Zhang & Lavaei 2025, arXiv 2506.06665).

CROWN bounds every ReLU in its own interval [l, u]. But the inputs z of a layer
cannot all be at their ends: they lie in an L2 ball |z - z0| <= rho. For a row c
of coefficients, any g, and any t >= 0, all z in the box and in the ball satisfy

    c . relu(z) >= g . z + sum_i min_{l_i <= s <= u_i} (c_i relu(s) - g_i s + t/2 (s - z0_i)^2) - t/2 rho^2.

Proof: t/2 (|z - z0|^2 - rho^2) <= 0 in the ball; add it to c . relu(z) - g . z,
and take the least of each summand. Each summand is a parabola on either side of
0, so its least value has a closed form: at z0 - (c - g) / t or at z0 + g / t,
clipped. Without the box this is the paper's offset

    -1/2 (t (rho^2 - |z0|^2) + |min(c - g - t z0, g + t z0, 0)|^2 / t).

With t = 0 it is CROWN's. The right side is concave in t: bisection finds its
largest value, so the layer's offset is never below CROWN's for the same g. Its
derivative by g is minus the point s at which the summands are least, so g is
ascended as alpha-CROWN's slopes are, above and below.

The ball: z0 is the layer's value at the center, computed in float64, and rho
follows the layers. A linear layer multiplies it by its proved spectral norm, a
ReLU keeps it, a sum adds two, and every layer adds the L2 norm of its float32
rounding and of the rounding of z0. Layers of other kinds, and all layers where
that is less, take the distance from z0 to the far corner of the box.

Guarantee: t and g are proposals, any of them gives a true bound. The offset is
float64 with its rounding taken off. So the bound holds for the network as
float32 computes it, as CROWN's does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from radii.bounds.alpha_crown import hidden_ascent, raised
from radii.bounds.bound_engine import Engine
from radii.bounds.linear_norms import UP, in_float64, linear_norms
from radii.bounds.regions import Domain, ValueBounds, gamma, pick
from radii.networks.operations.activations import Relu
from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.operation import Nonlinear
from radii.networks.operations.pooling import MaxPool
from radii.networks.program import Program

HALVINGS = 12  # of the logarithm of t
LEAST = 1e-4  # the smallest t that is tried, over the largest that can be best
UNIT = 2.0**-53


class BallEngine(Engine):
    """Bounds of one program over L2 balls: offsets of ReLUs by the ball in which their inputs lie.

    Args:
        rounding: True (default) covers the float32 rounding of the deployed network.
    """

    rate = 0.1

    def __init__(self, program: Program, rounding: bool = True) -> None:
        super().__init__(program, rounding)
        self.plain, self.windowed = set(), set()  # their compiled passes use CROWN's offsets
        self._worst: dict[int, Tensor] = {}

    @cached_property
    def exact(self) -> dict[int, tuple[Linear, float]]:
        """Linear steps with weights in float64, and their spectral norms."""
        found = {}
        for number, step in self.program.steps.items():
            if isinstance(step, Linear):
                bias, size = (None if value is None else value.double() for value in (step.bias, step.bias_size))
                wide = replace(step, linear=in_float64(step.linear), bias=bias, bias_size=size)
                norm = linear_norms(wide.linear, step.in_shape, step.out_shape, True)[0]
                found[number] = wide, norm * UP
        return found

    # ------------------------------------------------------------------ balls of values

    def start(self, domain: Domain) -> ValueBounds:
        """Bounds of the input, and its ball."""
        known = super().start(domain)
        if domain.center is not None and domain.radius is not None and domain.is_l2:
            known.spheres[0] = domain.center, torch.full((len(domain),), domain.radius, dtype=torch.float64)
        return known

    def forward(self, known: ValueBounds, number: int) -> None:
        """Interval bounds of one value, and its ball, from those of its inputs."""
        super().forward(known, number)
        if 0 not in known.spheres:
            return
        low, high = known.lower[number].double(), known.upper[number].double()
        center, radius = self._ball(known, number, (low + high) / 2)
        center = torch.minimum(torch.maximum(center, low), high)  # no farther from any value between low and high
        corner = torch.maximum(high - center, center - low).norm(dim=1)
        known.spheres[number] = center, torch.minimum(radius, corner) * UP

    def _ball(self, known: ValueBounds, number: int, middle: Tensor) -> tuple[Tensor, Tensor]:
        """Center and radius by the layer's Lipschitz constant; any center and infinity where it has none."""
        step = self.program.steps[number]
        center, radius = known.spheres[step.inputs[0]]
        if isinstance(step, Linear):
            wide, norm = self.exact[number]
            size = wide.absolute(center.abs()) + (0.0 if wide.bias_size is None else wide.bias_size)
            off = known.error[number].double() + gamma(step.terms + 8, UNIT) * size
            return wide.apply(center), norm * radius + off.norm(dim=1)
        if isinstance(step, Join):
            parts = [known.spheres[source] for source in step.inputs]
            return torch.cat([part[0] for part in parts], 1), torch.stack([part[1] for part in parts]).norm(dim=0) * UP
        if isinstance(step, Sum):
            other, more = known.spheres[step.inputs[1]]
            off = known.error[number].double() + 2 * UNIT * (center.abs() + other.abs())
            return center + step.sign * other, radius + more + off.norm(dim=1)
        if isinstance(step, Relu) and step.slope == 0:
            return center.clamp_min(0), radius
        if isinstance(step, MaxPool):
            return step.at(center), radius * nextafter(sqrt(step.repeats), inf)
        return middle, torch.full_like(radius, inf)

    # ------------------------------------------------------------------ rows through a ReLU

    def through(
        self, step: Nonlinear, A: Tensor, known: ValueBounds, dom: Tensor | None, alpha: Tensor | None = None
    ) -> tuple[tuple[Tensor | None, ...], Tensor]:
        """As :meth:`Engine.through`, with the ball's offset for ReLUs; ``alpha`` has lower, then upper slopes."""
        if not self._covers(step, known) or torch.is_grad_enabled():
            return super().through(step, A, known, dom, alpha)
        source = step.inputs[0]
        assert isinstance(step, Relu)
        under, over, _ = known.lines(step, source)
        if dom is None:
            dom = torch.zeros(len(A), dtype=torch.int64) if len(known.domain) == 1 else torch.arange(len(A))
        slopes = A.new_zeros(0, 2 * A.shape[1]) if alpha is None else alpha
        back, worst, offset = torch.empty_like(A), torch.empty_like(A), torch.empty(len(A), dtype=torch.float64)
        values = (A, dom, slopes, under, over, known.lower[source], known.upper[source], *known.spheres[source])
        kernel: Any = ball_offset
        kernel(*(value.contiguous().numpy() for value in values), back.numpy(), worst.numpy(), offset.numpy())
        self._worst[source] = worst
        return (back,), offset

    def _covers(self, step: Nonlinear, known: ValueBounds) -> bool:
        return isinstance(step, Relu) and step.slope == 0 and step.inputs[0] in known.spheres

    def first_slopes(self, known: ValueBounds, place: int) -> Tensor:
        """CROWN's lower slopes, then its upper ones: [B, 2 d]."""
        step = self.relus[place]
        if not self._covers(step, known):
            return super().first_slopes(known, place)
        return torch.cat(known.lines(self.relus[place], step.inputs[0])[:2], dim=1)

    def along(
        self, known: ValueBounds, place: int, A: Tensor, z: Tensor, dom: Tensor, slopes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`Engine.along`: s (z - worst) + relu(worst), with derivatives A (z - worst) by the slopes s."""
        step = self.relus[place]
        if not self._covers(step, known):
            return super().along(known, place, A, z, dom, slopes)
        slopes = pick(self.first_slopes(known, place), dom) if slopes is None else slopes
        low, high = pick(known.lower[step.inputs[0]], dom), pick(known.upper[step.inputs[0]], dom)
        worst, (under, over) = self._worst[step.inputs[0]], slopes.chunk(2, dim=1)
        open_, away = (low < 0) & (high > 0), z - worst
        bent = torch.where(A > 0, under, over) * away + worst.clamp_min(0)
        after = torch.where(open_, bent, torch.where(low >= 0, z, 0.0))
        moved = torch.where(open_, away, 0.0)
        return after, torch.cat([A.clamp_min(0) * moved, A.clamp_max(0) * moved], dim=1)


@njit(cache=True, nogil=True, error_model="numpy")
def ball_offset(
    A: NDArray[Any],
    dom: NDArray[np.int64],
    slopes: NDArray[Any],
    under: NDArray[Any],
    over: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    center: NDArray[np.float64],
    radius: NDArray[np.float64],
    back: NDArray[Any],
    worst: NDArray[Any],
    offset: NDArray[np.float64],
) -> None:
    """Fill ``back`` and ``offset`` so that A . relu(z) >= back . z + offset for all z of box and ball.

    Row r of ``A`` [R, d] has the box from ``low`` to ``high``, the ball of ``radius`` around ``center`` and CROWN's
    slopes ``under`` and ``over`` of domain ``dom[r]``; ``slopes`` [R, 2 d] or [0, 2 d] take the place of both.
    ``worst`` gets the points at which the summands are least.
    """
    rows, size = A.shape
    live, c, g = np.empty(size, np.int64), np.empty(size), np.empty(size)
    for r in range(rows):
        d, count, steep = dom[r], 0, 0.0
        for j in range(size):
            a, first, last = A[r, j], low[d, j], high[d, j]
            worst[r, j] = center[d, j]
            if first >= 0 or last <= 0 or a == 0:
                back[r, j] = a if first >= 0 else 0.0
                continue
            if slopes.shape[0] > 0:
                slope = slopes[r, j] if a > 0 else slopes[r, size + j]
            else:
                slope = under[d, j] if a > 0 else over[d, j]
            back[r, j] = a * slope
            live[count], c[count], g[count] = j, a, back[r, j]
            steep += max(abs(c[count] - g[count]), abs(g[count])) ** 2
            count += 1
        best, far = _summands(live[:count], c, g, low[d], high[d], center[d], radius[d], 0.0, worst[r])
        if far > radius[d] ** 2 and radius[d] > 0 and steep > 0:
            most = 2 * np.sqrt(steep) / radius[d]  # from here on no summand is least beyond the ball
            least = most * LEAST
            for _ in range(HALVINGS):
                middle = np.sqrt(least * most)
                far = _summands(live[:count], c, g, low[d], high[d], center[d], radius[d], middle, worst[r])[1]
                if far > radius[d] ** 2:
                    least = middle
                else:
                    most = middle
            found = _summands(
                live[:count], c, g, low[d], high[d], center[d], radius[d], np.sqrt(least * most), worst[r]
            )[0]
            if not found >= best:
                _summands(live[:count], c, g, low[d], high[d], center[d], radius[d], 0.0, worst[r])
            best = max(best, found)
        offset[r] = best


@njit(cache=True, nogil=True, error_model="numpy")
def _summands(
    live: NDArray[np.int64],
    c: NDArray[np.float64],
    g: NDArray[np.float64],
    low: NDArray[Any],
    high: NDArray[Any],
    center: NDArray[np.float64],
    radius: float,
    t: float,
    worst: NDArray[Any],
) -> tuple[float, float]:
    """The offset for ``t``, rounded down, and the squared distance of ``worst``, which is filled, from the center.

    An end of a parabola that is off by e costs at most 3/2 t e^2, and e <= 2^-50 times the size of s and z0.
    """
    total, far, size, square = 0.0, 0.0, 0.0, 0.0
    inverse = 1 / t if t > 0 else 0.0
    for k in range(len(live)):
        j = live[k]
        first, last, z = float(low[j]), float(high[j]), center[j]
        rising, falling = c[k] - g[k], -g[k]
        if t > 0:
            right, left = min(max(z - rising * inverse, 0.0), last), max(min(z - falling * inverse, 0.0), first)
        else:
            right, left = last if rising < 0 else 0.0, first if falling > 0 else 0.0
        ahead = rising * right + 0.5 * t * (right - z) ** 2
        behind = falling * left + 0.5 * t * (left - z) ** 2
        s, slope, value = (right, rising, ahead) if ahead < behind else (left, falling, behind)
        worst[j] = s
        total += value
        far += (s - z) ** 2
        size += abs(slope * s)
        square += (max(-first, last) + abs(z)) ** 2
    size += t * (far + radius * radius) + t * square * 2.0**-30
    return total - 0.5 * t * radius * radius - size * (len(live) + 16) * 2.0**-51, far


def ball_margins(plain: Engine, engine: BallEngine, domain: Domain, rows: Tensor, steps: int) -> Tensor:
    """Lower bounds [s] of ``rows`` [s, classes] times the logits over one L2 ball, never below CROWN's.

    Args:
        steps: ascent steps in the slopes; 0 for none.
    """
    output = engine.program.output
    known = plain.bounds(domain)
    lowers = plain.lower(known, output, rows.clone())
    if bool((lowers > 0).all()) or not engine.relus:
        return lowers
    known = engine.bounds(domain, outer=known)
    lowers = torch.maximum(lowers, engine.lower(known, output, rows.clone()))
    for hidden in (False, True):
        open_ = torch.nonzero(lowers <= 0)[:, 0]
        if not steps or not len(open_):
            return lowers
        if hidden:
            known = engine.bounds(domain, outer=known, refine=hidden_ascent(engine, steps))
        lowers[open_] = torch.maximum(lowers[open_], raised(engine, known, output, rows[open_], None, steps))
    return lowers
