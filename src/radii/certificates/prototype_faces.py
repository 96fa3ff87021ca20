"""Certificates of nearest prototypes: distances to the faces between two prototypes, minus rounding.

The points where prototype j is at least as near as prototype i are a half space; x is
(|x - w_j|^2 - |x - w_i|^2) / (2 |w_i - w_j|_*) away from it, in the norm whose dual is |.|_*. The answer c is wrong
only where some j of another class is at least as near as every i of class c, in an intersection of half spaces. An
intersection is no nearer than the farthest of its half spaces, so

    radius = min over j of another class of max over i of class c of that distance

(Voracek & Hein 2022). With one prototype for each class it is the exact L2 radius; with several, it is where the
nearest point of the deciding half space has another answer.

Where inputs stay in a box, the nearest point of a half space in the box is farther in L2. Its squared distance is a
quadratic program with one constraint beside the box, solved through its dual: for every multiplier t >= 0 the value
min over d in the box of |d|^2 + 2 t (gap - a.d) is at most that squared distance, whatever rounding does to t.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import torch
from torch import Tensor, nn

from radii.certificates.certificate import Certificate
from radii.certificates.methods import Request
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.zoo.prototypes import Prototypes
from radii.networks.calling import frozen, predicted_class
from radii.networks.model_state import ModelState
from radii.threat import Box, Norm

UNIT32 = 2.0**-24
SLACK = 1.01  # covers products of roundings, and the float64 rounding of this computation
TINY = 1e-30  # more than float32 loses by underflow
LARGEST = 1e15  # lengths whose squares float32 still holds
DUAL: dict[Norm, float] = {"l1": inf, "l2": 2.0, "linf": 1.0}
CELLS = 4_000_000  # of the largest table of distances
RIVALS = 24  # nearest faces that are measured in the box; farther ones count by their distance without it
NEWTON_STEPS = 12


def certify_request(request: Request) -> Certificate:
    """:func:`certify` for a ``request`` of the table of methods."""
    return certify(request.model, request.x, request.ball.norm, request.ball.box)


@torch.no_grad()
def certify(model: nn.Module, x: Tensor, norm: Norm = "l2", box: Box | None = None) -> Certificate:
    """The radius around each row of ``x`` within which the nearest prototype keeps its class.

    In float32 a score 2 w.z - |w|^2 of d features is off by at most g (2 |w| |z| + |w|^2) with
    g = (d + 2) 2^-24, in any order of its sums. With W the longest prototype and R = |x| + s r, where an
    input within r of x moves by s r in L2, the difference of two scores is off by at most 2 g (2 W R + W^2). So
    r = (gap - 2 g (2 W |x| + W^2)) / (2 |w_i - w_j|_* + 4 g W s) for the gap of the exact scores of i and j.

    Guarantee: deterministic, for the network in eval mode as float32 computes it.

    Args:
        model: a :class:`~radii.models.zoo.prototypes.Prototypes`.
        x: inputs [n, …] in float32; never changed.
        norm: of the radii; default ``l2``.
        box: in which inputs stay; it enlarges L2 radii. Default: they may be anywhere.
    """
    check_inputs(x, box)
    if type(model) is not Prototypes:
        name = type(model).__name__
        raise InputError(f"Faces need a network of prototypes alone (preprocessing none), got {name} instead.")
    if x.dtype != torch.float32 or model.points.dtype != torch.float32:
        raise InputError("Faces between prototypes cover float32 networks and inputs.")
    faces = _Faces.of(model, norm, box)
    with frozen(model):
        prediction = torch.cat([predicted_class(model(chunk)).cpu() for chunk in x.split(1000)])
    radius = torch.zeros(len(x), dtype=torch.float64)
    rows = x.detach().flatten(1).double().cpu()
    for c in range(len(model.points)):
        own = torch.nonzero(prediction == c)[:, 0]
        radius[own] = faces.radii(rows[own], c)
    return Certificate(
        prediction=prediction,
        radius=radius,
        norm=norm,
        kind="deterministic",
        method="prototypes",
        assumptions=(
            "float32 network, sums in any order (no TF32, no bfloat16)",
            *(() if box is None else (f"inputs stay in [{box[0]:g}, {box[1]:g}]",)),
        ),
        state=ModelState.of(model),
    )


@dataclass(frozen=True)
class _Faces:
    """The prototypes in float64, and what float32 can change."""

    points: Tensor  # [classes, count, d]
    lengths: Tensor  # [classes, count]
    norm: Norm
    box: Box | None
    error: float  # g
    stretch: float  # s: L2 length of a step of length 1 at most

    @classmethod
    def of(cls, model: Prototypes, norm: Norm, box: Box | None) -> _Faces:
        points = model.points.detach().double().cpu()
        d = points.shape[2]
        return cls(points, points.norm(dim=2), norm, box, SLACK * (d + 2) * UNIT32, sqrt(d) if norm == "linf" else 1.0)

    def radii(self, x: Tensor, c: int) -> Tensor:
        """Proved radii [n] of inputs [n, d] whose answer is ``c``; 0 where nothing is proved."""
        others = torch.arange(len(self.points)) != c
        ours, theirs = self.points[c], self.points[others].flatten(0, 1)
        longest = float(self.lengths.max())
        steps = 2 * torch.cdist(ours, theirs, p=DUAL[self.norm], compute_mode="donot_use_mm_for_euclid_dist")
        slopes = steps * (1 + 1e-12) + 4 * self.error * longest * self.stretch
        size = x.norm(dim=1)
        fixed = 2 * self.error * (2 * longest * size + longest**2) + TINY
        radius = torch.zeros_like(size)
        step = max(1, CELLS // max(slopes.numel(), RIVALS * x.shape[1]))
        for rows in torch.arange(len(x)).split(step):
            radius[rows] = self._nearest(x[rows], ours, theirs, slopes, fixed[rows])
        most = (LARGEST - size) / self.stretch if longest < LARGEST else torch.zeros_like(size)
        radius = torch.minimum(radius * (1 - 1e-12), most)
        return torch.where(radius > 0, radius, 0.0)  # NaN proves nothing

    def _nearest(self, x: Tensor, ours: Tensor, theirs: Tensor, slopes: Tensor, lost: Tensor) -> Tensor:
        """min over j of max over i of (score_i - score_j - lost) / slope_ij, in the box where that helps: [n]."""
        own, rivals = (2 * x @ points.T - points.square().sum(1) for points in (ours, theirs))
        gaps = own[:, :, None] - rivals[:, None]
        distance, i = ((gaps - lost[:, None, None]) / slopes).max(1)
        if self.box is None or self.norm != "l2":
            return distance.amin(1)
        near, j = distance.topk(min(RIVALS + 1, len(theirs)), 1, largest=False)
        rest = near[:, RIVALS] if len(theirs) > RIVALS else torch.full_like(near[:, 0], inf)
        near, j = near[:, :RIVALS], j[:, :RIVALS]
        i = i.gather(1, j)
        gap = gaps[torch.arange(len(x))[:, None], i, j] - self._lost_in_box(x.shape[1])
        inside = distance_in_box(2 * (theirs[j] - ours[i]), gap, self.box[0] - x, self.box[1] - x)
        return torch.minimum(torch.maximum(near, inside).amin(1), rest)

    def _lost_in_box(self, d: int) -> float:
        """What float32 can change of the difference of two scores anywhere in the box."""
        assert self.box is not None
        longest, size = float(self.lengths.max()), sqrt(d) * max(abs(self.box[0]), abs(self.box[1]))
        return 2 * self.error * (2 * longest * size + longest**2) + TINY


def distance_in_box(normal: Tensor, gap: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """A lower bound of the least |d|_2 with normal.d >= gap and low <= d <= high: [n, m].

    The least is at d = clip(t normal), where normal.d = gap; normal.d is concave in t, so Newton's method finds t from
    below. Every t proves its own bound sqrt(|d|^2 + 2 t (gap - normal.d)), so steps that are left out cost nothing but
    size.

    Args:
        normal: of each half space, [n, m, d].
        gap: [n, m].
        low: at most 0, [n, d].
        high: at least 0, [n, d].
    """
    low, high = low[:, None], high[:, None]
    size = (normal.abs() * torch.maximum(-low, high)).sum(2)
    gap = gap - 1e-9 * (gap.abs() + size)  # more than float64 can change of any sum here
    square = normal.square()
    t = gap.clamp_min(0) / square.sum(2).clamp_min(TINY)
    for _ in range(NEWTON_STEPS):
        free = t[:, :, None] * normal
        reached = (normal * torch.clamp(free, low, high)).sum(2)
        slope = (square * ((free > low) & (free < high))).sum(2)
        t = t + (gap - reached).clamp_min(0) / torch.maximum(slope, 1e-6 * square.sum(2)).clamp_min(TINY)
    step = torch.clamp(t[:, :, None] * normal, low, high)
    value = step.square().sum(2) + 2 * t * (gap - (normal * step).sum(2))
    return torch.where(gap > 0, value.clamp_min(0).sqrt() * (1 - 1e-9), torch.zeros_like(gap))
