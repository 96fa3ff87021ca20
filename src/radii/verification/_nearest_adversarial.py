"""The smallest broken radius: a nearest input of another class, by projections onto linearized boundaries.

For a rival class c and a point x, f_y - f_c is linear near x. The point of the box nearest to the
original input at which that line is zero is the next x (DeepFool, Moosavi-Dezfooli et al. 2016, but
always projected from the original input, as in sequential quadratic programming). Inside one linear
region of a ReLU network one such step is exact. Whatever is returned was run by the network.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from radii.networks.calling import predicted_class
from radii.spec import LARGEST
from radii.threat import Ball
from radii.verification._counterexample_search import Paced, gradient
from radii.verification._goal import Runnable
from radii.verification.answer import Limits, OutOfTimeError

STARTS = 6  # random starts for each rival class
STEPS = 50
DOUBLINGS, HALVINGS = 12, 30
BEYOND = 0.02  # of the gradient's reach: how far the first steps aim behind the boundary
PRESSED, PRESSES, SHRUNK = 24, 60, 0.993  # errors that are pressed towards the input, the steps, the radius after one
REPLAYS, BEYOND_BOUNDARY = 6, (0.0, 1e-6, 1e-5, 1e-4, 1e-3)  # candidates run alone, and steps behind the boundary
KEPT = 64  # candidates whose way to the input is searched for an earlier error


def nearest_error(
    network: Runnable,
    x: Tensor,
    label: int,
    ball: Ball,
    limits: Limits,
    *,
    seed: int = 0,
    starts: Tensor | None = None,
) -> tuple[float, Tensor | None]:
    """The distance of the nearest input of another class that was found, and that input.

    Args:
        network: the float32 network.
        x: one input [1, …].
        limits: behind their deadline the nearest one so far is returned.
        starts: further flat starts [s, inputs], such as errors that are known already.

    Returns:
        Distance and input [1, …]; infinity and None where no other class was met.
    """
    origin, paced = x.flatten(1).float(), Paced(limits.check)
    if not (ball.is_plain and ball.norm in ("l2", "linf")):
        return _nearest_known(network, paced, x, origin, label, ball, starts)
    with torch.no_grad():
        classes = network.run(origin).shape[1]
    rivals = torch.tensor([other for other in range(classes) if other != label])
    points = _starts(origin, ball, seed, starts).clamp(*ball.ends)
    rival = rivals.repeat(len(points))
    points = points.repeat_interleave(len(rivals), 0)
    best, size = points.clone(), torch.full((len(points),), torch.inf, dtype=torch.float64)
    try:
        _approach(network, paced, origin, points, rival, label, ball, best, size)
        _press(network, paced, origin, best, size, rival, label, ball)
        far, away = _shortened(network, paced, origin, best, size, label, ball)
    except OutOfTimeError:
        far, away = best, size
    return _replayed(network, x, origin, far, away, label, ball)


def _nearest_known(
    network: Runnable, paced: Paced, x: Tensor, origin: Tensor, label: int, ball: Ball, starts: Tensor | None
) -> tuple[float, Tensor | None]:
    """The nearest error on the ways from the known ``starts`` to the input, in a ball without projections."""
    if starts is None or not len(starts):
        return torch.inf, None
    far, away = starts.float(), ball.distance(origin.double().expand(len(starts), -1), starts.double())
    with suppress(OutOfTimeError):
        far, away = _shortened(network, paced, origin, far, away, label, ball)
    allowed = ball.with_radius(LARGEST).contains(far, origin.expand(len(far), -1))  # whole features, relations
    known = torch.cat([far[allowed], starts.float()])
    away = ball.distance(origin.double().expand(len(known), -1), known.double())
    return _replayed(network, x, origin, known, away, label, ball)


def _approach(
    network: Runnable,
    paced: Paced,
    origin: Tensor,
    points: Tensor,
    rival: Tensor,
    label: int,
    ball: Ball,
    best: Tensor,
    size: Tensor,
) -> None:
    """Project the input onto each point's linearized boundary, again and again; ``best`` and ``size`` are written."""
    low, high = ball.ends
    for number in range(STEPS):
        margin, slope = _linearized(network, paced, points, label, rival)
        if slope is None:
            return
        aim = margin + BEYOND * 0.8**number * margin.abs().clamp_min(1e-6)
        goal = (slope * points.double()).sum(1) - aim
        target = _projected(origin.double(), slope, goal, ball.norm, low, high).float()
        points = points + (target - points) * (1.0 if number < 5 else 0.5)
        points = points.clamp(low, high)
        _keep(network, paced, origin, points, label, ball, best, size)


def _press(
    network: Runnable, paced: Paced, origin: Tensor, best: Tensor, size: Tensor, rival: Tensor, label: int, ball: Ball
) -> None:
    """Press every error, in place, towards the input: descent in a ball that shrinks while the class is wrong."""
    rows = size.argsort()[:PRESSED]
    rows = rows[size[rows].isfinite()]
    if not len(rows):
        return
    points, own, near, away = best[rows], rival[rows], best[rows], size[rows]
    radius = away * SHRUNK
    for number in range(PRESSES):
        margin, slope = _linearized(network, paced, points, label, own)
        if slope is None:
            return
        way = slope.sign() if ball.norm == "linf" else slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-300)
        step = radius[:, None] * (0.3 * 0.94**number)
        step = torch.where((margin < 0)[:, None], 0.2 * step, step)
        points = _drawn(points.double() - step * way, origin.double(), radius, ball).float()
        _keep(network, paced, origin, points, label, ball, near, away)
        best[rows], size[rows] = near, away
        radius = away * SHRUNK


def _drawn(points: Tensor, origin: Tensor, radius: Tensor, ball: Ball) -> Tensor:
    """Each point moved into the ball of its own radius about the input, and into the box."""
    step = points - origin
    if ball.norm == "linf":
        step = torch.minimum(torch.maximum(step, -radius[:, None]), radius[:, None])
    else:
        step = step * (radius[:, None] / step.norm(dim=1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)
    return (origin + step).clamp(*ball.ends)


def _starts(origin: Tensor, ball: Ball, seed: int, more: Tensor | None) -> Tensor:
    """The input itself, random points about it, and those that are known already."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(STARTS, origin.shape[1], generator=generator)
    noise = noise.sign() if ball.norm == "linf" else noise / noise.norm(dim=1, keepdim=True).clamp_min(1e-12)
    scale = ball.radius * torch.rand(STARTS, 1, generator=generator)
    return torch.cat([origin, origin + noise * scale, *([] if more is None else [more.float()])])


def _linearized(
    network: Runnable, paced: Paced, points: Tensor, label: int, rival: Tensor
) -> tuple[Tensor, Tensor | None]:
    """f_label - f_rival at the points, and its gradient; None where the network has none."""

    def part(rows: Tensor, rivals: Tensor) -> Tensor:
        rows = rows.detach().requires_grad_()
        with torch.enable_grad():
            outputs = network.run(rows)
            margin = outputs[:, label] - outputs.gather(1, rivals[:, None])[:, 0]
            slope = gradient(margin.sum(), rows)
        return torch.cat([margin.detach()[:, None], *([] if slope is None else [slope])], 1).double()

    met = paced.cat(part, points, rival)
    return met[:, 0], met[:, 1:] if met.shape[1] > 1 else None


def _projected(origin: Tensor, slope: Tensor, goal: Tensor, norm: str, low: float, high: float) -> Tensor:
    """The points of the box nearest to ``origin`` with slope . x <= goal, by bisection; the last one if none is."""
    way = slope.sign() if norm == "linf" else slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-300)
    points = torch.empty_like(slope)
    arrays = (value.contiguous().numpy() for value in (origin[0], slope, way, goal))
    kernel: Any = project
    kernel(*arrays, low, high, points.numpy())
    return points


@njit(cache=True, nogil=True, error_model="numpy")
def project(
    origin: NDArray[np.float64],
    slope: NDArray[np.float64],
    way: NDArray[np.float64],
    goal: NDArray[np.float64],
    low: float,
    high: float,
    points: NDArray[np.float64],
) -> None:
    """Fill ``points`` [n, d] with clip(origin - t way), t the least at which slope . x <= goal, up to 2^12.

    The clip is to the box from ``low`` to ``high``.
    """
    rows, size = slope.shape
    for r in range(rows):
        least, most, doubling = 0.0, 1.0, True
        for step in range(DOUBLINGS + HALVINGS):
            doubling = doubling and step < DOUBLINGS
            middle = most if doubling else (least + most) / 2
            reached = 0.0
            for j in range(size):
                reached += min(max(origin[j] - middle * way[r, j], low), high) * slope[r, j]
            if reached > goal[r]:
                least = middle
                most = 2 * most if doubling else most
            else:
                most, doubling = middle, False
        for j in range(size):
            points[r, j] = min(max(origin[j] - most * way[r, j], low), high)


def _keep(
    network: Runnable, paced: Paced, origin: Tensor, points: Tensor, label: int, ball: Ball, best: Tensor, size: Tensor
) -> None:
    """Write down, in place, which points have another class and are nearer than those before."""
    with torch.no_grad():
        away = ball.distance(origin.double().expand(len(points), -1), points.double())
        closer = (predicted_class(paced.cat(network.run, points)) != label) & (away < size)
    best[closer], size[closer] = points[closer], away[closer]


def _shortened(
    network: Runnable, paced: Paced, origin: Tensor, best: Tensor, size: Tensor, label: int, ball: Ball
) -> tuple[Tensor, Tensor]:
    """Earlier errors on the ways from the best candidates to the input, and their distances."""
    order = size.argsort()[:KEPT]
    order = order[size[order].isfinite()]
    far, near = best[order], origin.expand(len(order), -1)
    with torch.no_grad():
        for _ in range(16 if len(order) else 0):
            middle = (far + near) / 2
            wrong = (predicted_class(paced.cat(network.run, middle)) != label)[:, None]
            far, near = torch.where(wrong, middle, far), torch.where(wrong, near, middle)
    return far, ball.distance(origin.double().expand(len(far), -1), far.double())


def _replayed(
    network: Runnable, x: Tensor, origin: Tensor, far: Tensor, away: Tensor, label: int, ball: Ball
) -> tuple[float, Tensor | None]:
    """The nearest of the errors ``far`` that is one as deployed too."""
    for row in away.argsort()[:REPLAYS].tolist():
        for beyond in BEYOND_BOUNDARY if float(away[row]) < torch.inf else ():
            point = origin + (far[row : row + 1] - origin) * (1 + beyond)
            point = point.clamp(*ball.ends)
            if not ball.is_plain and not bool(ball.with_radius(LARGEST).contains(point, origin)):
                continue
            with torch.no_grad():  # alone: results of a batch may be rounded differently
                other = int(predicted_class(network.outputs(point))) not in (label, -1)
            if other and int(predicted_class(network.run(point).detach())) != label:
                return float(ball.distance(origin.double(), point.double())), point.view_as(x)
    return torch.inf, None
