"""Regions of inputs, bounds of values on them, and how a row of coefficients passes a ReLU or ends at the input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from radii.certificates.bounds.relaxations import Relu

CUT_ROWS = 256  # so many rows get the bound of ball and box together
HALVINGS = 24
_FAST = {"contract", "reassoc", "nsz"}  # sums may be in any order: their rounding is accounted for


@dataclass(frozen=True)
class Domain:
    """B regions of inputs [B, d], float64: boxes, and L2 balls around ``center`` where a ``radius`` is given."""

    lower: Tensor
    upper: Tensor
    center: Tensor | None = None
    radius: float | None = None

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> Domain:
        return Domain(
            self.lower[rows], self.upper[rows], None if self.center is None else self.center[rows], self.radius
        )


@dataclass
class ValueBounds:
    """Bounds of the values of B domains [B, d], and the rounding errors to subtract from rows."""

    domain: Domain
    lower: dict[int, Tensor] = field(default_factory=dict)
    upper: dict[int, Tensor] = field(default_factory=dict)
    error: dict[int, Tensor] = field(default_factory=dict)
    finite: Tensor = field(default_factory=lambda: torch.ones(0, dtype=torch.bool))
    balls: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # |value| <= first + radius times second
    forms: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)  # domain, place, slopes in the input
    spheres: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # center and radius: the value is within
    _lines: dict[int, tuple[Tensor, Tensor, float, tuple[Tensor, Tensor, Tensor]]] = field(default_factory=dict)

    def __getitem__(self, rows: Any) -> ValueBounds:
        def part(values: dict[int, Tensor]) -> dict[int, Tensor]:
            return {number: value[rows] for number, value in values.items()}

        return ValueBounds(self.domain[rows], part(self.lower), part(self.upper), part(self.error), self.finite[rows])

    def lines(self, layer: Relu, source: int) -> tuple[Tensor, Tensor, Tensor]:
        """:func:`relu_lines` of a ``layer`` on the value ``source``, computed once for the bounds it has."""
        low, high = self.lower[source], self.upper[source]
        cached = self._lines.get(source)
        if cached is None or cached[0] is not low or cached[1] is not high or layer.slope != cached[2]:
            cached = (low, high, layer.slope, relu_lines(layer, low, high))
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


def relu_lines(layer: Relu, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lower slope, upper slope and upper offset of the ReLU ``layer`` on [``low``, ``high``], rounded safely."""
    up = 1 + 8 * torch.finfo(low.dtype).eps
    width = (high - low).clamp_min(torch.finfo(low.dtype).tiny)
    chord = (high - layer.slope * low) / width * up
    active, inactive = low >= 0, high <= 0
    over = torch.where(active, 1.0, torch.where(inactive, layer.slope, chord))
    lift = torch.where(active | inactive, 0.0, (layer.slope - chord) * low * up + torch.finfo(low.dtype).tiny)
    under = torch.where(active | (~inactive & (high > -low)), 1.0, layer.slope)
    return under, over, lift


class ReluLines(torch.autograd.Function):
    """A . relu(z) >= back . z + constant: the lower slope where A > 0, the chord elsewhere."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, under: Tensor, over: Tensor, lift: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients of z and the constant."""
        slope = torch.where(A > 0, under, over)
        ctx.save_for_backward(A, slope, lift)
        return A * slope, dot(A.clamp_max(0), lift)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        """Gradients of A and of the lower slopes."""
        A, slope, lift = ctx.saved_tensors
        back, constant = grads
        by_A = back * slope + (A < 0) * lift * constant[:, None].to(A.dtype)
        return by_A, (back * A.clamp_min(0) if ctx.needs_input_grad[1] else None), None, None


def least(A: Tensor, domain: Domain, dom: Tensor | None) -> Tensor:
    """The least ``A`` . x of each row r over the region ``dom[r]`` of ``domain``: the better of box and L2 ball."""
    A = A.double()
    low, high = pick(domain.lower, dom), pick(domain.upper, dom)
    inside = dot(A, (low + high) / 2) - dot(A.abs(), (high - low) / 2)
    size = torch.maximum(low.abs(), high.abs())
    if domain.radius is not None and domain.center is not None:
        ball = dot(A, pick(domain.center, dom)) - domain.radius * A.norm(dim=1)
        inside = torch.maximum(inside, ball)
        size = size + domain.radius
        reach = domain.center - domain.radius, domain.center + domain.radius
        cut = bool((domain.lower > reach[0]).any()) or bool((domain.upper < reach[1]).any())
        if cut and len(A) <= CUT_ROWS:
            inside = torch.maximum(inside, _least_in_cut_ball(A, low, high, pick(domain.center, dom), domain.radius))
    return inside - dot(A.abs(), size) * (A.shape[1] + 8) * 2.0**-51


def _least_in_cut_ball(A: Tensor, low: Tensor, high: Tensor, center: Tensor, radius: float) -> Tensor:
    """A lower bound of A . x over ball and box together, by one multiplier.

    For every m >= 0, A . x >= min over the box of A . x + m (|x - c|^2 - r^2), whose minimizer is
    clip(c - A / 2m). The multiplier at which it has distance r is found by bisection.
    """
    x, rest = np.empty(A.shape), np.empty(len(A))
    ends = (value.expand(len(A), -1).contiguous().numpy() for value in (low, high, center))
    kernel: Any = cut_ball
    kernel(A.detach().contiguous().numpy(), *ends, radius, x, rest)
    return (A * torch.from_numpy(x)).sum(1) + torch.from_numpy(rest)


@njit(cache=True, nogil=True, error_model="numpy")
def cut_ball(
    A: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    center: NDArray[np.float64],
    radius: float,
    x: NDArray[np.float64],
    rest: NDArray[np.float64],
) -> None:
    """Fill ``x`` [R, d] and ``rest`` [R] so that A[r] . z >= A[r] . x[r] + rest[r] for all z of ball and box r.

    Boxes have the ends ``low`` and ``high`` [R, d], balls the ``center`` [R, d] and one ``radius``. The constant has
    m (|x - c|^2 + r^2) times its rounding taken off.
    """
    rows, size = A.shape
    for r in range(rows):
        length = 0.0
        for j in range(size):
            length += A[r, j] * A[r, j]
        least_, most = 0.0, np.sqrt(length) / (2 * radius) + 1e-300
        for _ in range(HALVINGS):
            middle = (least_ + most) / 2
            far = 0.0
            for j in range(size):
                step = min(max(center[r, j] - A[r, j] / (2 * middle + 1e-300), low[r, j]), high[r, j]) - center[r, j]
                far += step * step
            if far > radius * radius:
                least_ = middle
            else:
                most = middle
        away = 0.0
        for j in range(size):
            x[r, j] = min(max(center[r, j] - A[r, j] / (2 * most + 1e-300), low[r, j]), high[r, j])
            away += (x[r, j] - center[r, j]) ** 2
        rest[r] = most * (away - radius * radius) - most * (away + radius * radius) * (size + 8) * 2.0**-50


def lowest_input(A: Tensor, domain: Domain, dom: Tensor) -> Tensor:
    """The inputs [R, d] of the regions ``dom`` at which ``A`` . x is least, or nearly: a corner, or the rim of a ball.

    Args:
        A: coefficients [R, d].
        domain: the regions.
        dom: the region of each row.
    """
    low, high = pick(domain.lower, dom), pick(domain.upper, dom)
    if domain.radius is None or domain.center is None:
        return torch.where(A > 0, low, torch.where(A < 0, high, (low + high) / 2))
    center, x, rest = pick(domain.center, dom), torch.empty(A.shape, dtype=torch.float64), np.empty(len(A))
    kernel: Any = cut_ball
    arrays = (value.double().contiguous().numpy() for value in (A, low, high, center))
    kernel(*arrays, domain.radius, x.numpy(), rest)
    return x


def pick(value: Tensor, dom: Tensor | None) -> Tensor:
    """The rows ``dom`` of ``value``; all of them for None."""
    return value if dom is None else value.index_select(0, dom)


def dot(A: Tensor, value: Tensor) -> Tensor:
    """``A`` [R, d] times ``value`` [R, d] or [1, d], row by row, as float64: [R]."""
    if len(value) == 1:
        return (A @ value[0]).double()
    return torch.linalg.vecdot(A, value).double()


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def through_relu(
    A: NDArray[Any],
    dom: NDArray[np.int64],
    under: NDArray[Any],
    alpha: NDArray[Any],
    extra: NDArray[Any],
    over: NDArray[Any],
    lift: NDArray[Any],
    error: NDArray[Any],
    bias: NDArray[Any],
    raised: float,
    total: NDArray[np.float64],
) -> None:
    """Overwrite rows ``A`` [R, d] of a ReLU's result with rows of its input, and add their constants to ``total``.

    A . relu(z) >= A' . z + constant, with A' = ``under`` A where A > 0 and ``over`` A elsewhere, and the constant
    ``lift`` A where A < 0; then A' . ``bias`` - |A'| . ``error`` of the layer that computes z. Sums are float64;
    ``raised`` is at least 1 and makes the constant, which is negative, larger than its rounding. Row r has the
    slopes and errors of domain ``dom[r]``; ``alpha`` [R, d] or [0, d] takes the place of ``under`` where a ReLU is
    open, and ``extra`` [R, d] or [0, d] is added to A'.
    """
    rows, size = A.shape
    for r in range(rows):
        d = dom[r]
        lower, upper, offset, slack = under[d], over[d], lift[d], error[d]
        constant, rest = 0.0, 0.0
        row = A[r]
        for j in range(size):
            positive, negative = max(row[j], 0), min(row[j], 0)
            slope = alpha[r, j] if alpha.shape[0] > 0 and offset[j] > 0 else lower[j]
            back = positive * slope + negative * upper[j]
            if extra.shape[0] > 0:
                back += extra[r, j]
            row[j] = back
            constant += negative * offset[j]
            rest += back * bias[j] - abs(back) * slack[j]
        total[r] += constant * raised + rest


@njit(cache=True, nogil=True, error_model="numpy")
def along_lines(
    A: NDArray[Any],
    z: NDArray[Any],
    alpha: NDArray[Any],
    dom: NDArray[np.int64],
    under: NDArray[Any],
    over: NDArray[Any],
    lift: NDArray[Any],
    after: NDArray[Any],
) -> None:
    """Fill ``after`` [R, d] with the lines of ReLUs at ``z``, and overwrite ``A`` with derivatives by ``alpha``.

    Row r has the lines ``under``, ``over``, ``lift`` [B, d] of domain ``dom[r]``, with ``alpha`` [R, d] as the lower
    slope of open ReLUs.
    """
    rows, size = A.shape
    for r in range(rows):
        d = dom[r]
        for j in range(size):
            a, value, open_ = A[r, j], z[r, j], lift[d, j] > 0
            lower = alpha[r, j] if open_ else under[d, j]
            after[r, j] = lower * value if a > 0 else over[d, j] * value + (lift[d, j] if a < 0 else 0.0)
            A[r, j] = a * value if a > 0 and open_ else 0.0
