"""The smallest broken radius: a nearest input of another class, by projections onto linearized boundaries.

For a rival class c and a point x, f_y - f_c is linear near x. The point of the box nearest to the
original input at which that line is zero is the next x (DeepFool, Moosavi-Dezfooli et al. 2016, but
always projected from the original input, as in sequential quadratic programming). Inside one linear
region of a ReLU network one such step is exact. Whatever is returned was run by the network.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from radii.certificates.complete.goal import Runnable
from radii.models.classifier import predicted_class
from radii.threat import Ball

STARTS = 6  # random starts for each rival class
STEPS = 50
DOUBLINGS, HALVINGS = 12, 30
BEYOND = 0.02  # of the gradient's reach: how far the first steps aim behind the boundary
PRESSED, PRESSES, SHRUNK = 24, 60, 0.993  # errors that are pressed towards the input, the steps, the radius after one
REPLAYS, BEYOND_BOUNDARY = 6, (0.0, 1e-6, 1e-5, 1e-4, 1e-3)  # candidates run alone, and steps behind the boundary
KEPT = 64  # candidates whose way to the input is searched for an earlier error


def nearest_error(
    network: Runnable, x: Tensor, label: int, ball: Ball, *, seed: int = 0, starts: Tensor | None = None
) -> tuple[float, Tensor | None]:
    """The distance of the nearest input of another class that was found, and that input.

    Args:
        network: the float32 network.
        x: one input [1, …].
        label: its class.
        ball: norm, box and the radius of the random starts.
        seed: of the random starts.
        starts: further flat starts [s, inputs], such as errors that are known already.

    Returns:
        Distance and input [1, …]; infinity and None where no other class was met.
    """
    origin = x.flatten(1).float()
    low, high = (-torch.inf, torch.inf) if ball.box is None else ball.box
    with torch.no_grad():
        classes = network.run(origin).shape[1]
    rivals = torch.tensor([other for other in range(classes) if other != label])
    points = _starts(origin, ball, seed, starts).clamp(low, high)
    rival = rivals.repeat(len(points))
    points = points.repeat_interleave(len(rivals), 0)
    best, size = points.clone(), torch.full((len(points),), torch.inf, dtype=torch.float64)
    for number in range(STEPS):
        margin, slope = _linearized(network, points, label, rival)
        if slope is None:
            break
        aim = margin + BEYOND * 0.8**number * margin.abs().clamp_min(1e-6)
        goal = (slope * points.double()).sum(1) - aim
        target = _projected(origin.double(), slope, goal, ball.norm, low, high).float()
        points = points + (target - points) * (1.0 if number < 5 else 0.5)
        points = points.clamp(low, high)
        _keep(network, origin, points, label, ball, best, size)
    _press(network, origin, best, size, rival, label, ball)
    return _shortened(network, x, origin, best, size, label, ball)


def _press(
    network: Runnable, origin: Tensor, best: Tensor, size: Tensor, rival: Tensor, label: int, ball: Ball
) -> None:
    """Press every error, in place, towards the input: descent in a ball that shrinks while the class is wrong."""
    rows = size.argsort()[:PRESSED]
    rows = rows[size[rows].isfinite()]
    if not len(rows):
        return
    points, own, near, away = best[rows], rival[rows], best[rows], size[rows]
    radius = away * SHRUNK
    for number in range(PRESSES):
        margin, slope = _linearized(network, points, label, own)
        if slope is None:
            return
        way = slope.sign() if ball.norm == "linf" else slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-300)
        step = radius[:, None] * (0.3 * 0.94**number)
        step = torch.where((margin < 0)[:, None], 0.2 * step, step)
        points = _drawn(points.double() - step * way, origin.double(), radius, ball).float()
        _keep(network, origin, points, label, ball, near, away)
        radius = away * SHRUNK
    best[rows], size[rows] = near, away


def _drawn(points: Tensor, origin: Tensor, radius: Tensor, ball: Ball) -> Tensor:
    """Each point moved into the ball of its own radius about the input, and into the box."""
    step = points - origin
    if ball.norm == "linf":
        step = torch.minimum(torch.maximum(step, -radius[:, None]), radius[:, None])
    else:
        step = step * (radius[:, None] / step.norm(dim=1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)
    return origin + step if ball.box is None else (origin + step).clamp(*ball.box)


def _starts(origin: Tensor, ball: Ball, seed: int, more: Tensor | None) -> Tensor:
    """The input itself, random points about it, and those that are known already."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(STARTS, origin.shape[1], generator=generator)
    noise = noise.sign() if ball.norm == "linf" else noise / noise.norm(dim=1, keepdim=True).clamp_min(1e-12)
    scale = ball.radius * torch.rand(STARTS, 1, generator=generator)
    return torch.cat([origin, origin + noise * scale, *([] if more is None else [more.float()])])


def _linearized(network: Runnable, points: Tensor, label: int, rival: Tensor) -> tuple[Tensor, Tensor | None]:
    """f_label - f_rival at the points, and its gradient; None where the network has none."""
    points = points.detach().requires_grad_()
    with torch.enable_grad():
        outputs = network.run(points)
        margin = outputs[:, label] - outputs.gather(1, rival[:, None])[:, 0]
        if not margin.requires_grad:
            return margin.detach().double(), None
        try:
            slope = torch.autograd.grad(margin.sum(), points, allow_unused=True)[0]
        except RuntimeError:  # a value that the gradient needs was overwritten in place
            slope = None
    return margin.detach().double(), None if slope is None else slope.double()


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
    network: Runnable, origin: Tensor, points: Tensor, label: int, ball: Ball, best: Tensor, size: Tensor
) -> None:
    """Write down, in place, which points have another class and are nearer than those before."""
    with torch.no_grad():
        away = ball.distance(origin.double().expand(len(points), -1), points.double())
        closer = (predicted_class(network.run(points)) != label) & (away < size)
    best[closer], size[closer] = points[closer], away[closer]


def _shortened(
    network: Runnable, x: Tensor, origin: Tensor, best: Tensor, size: Tensor, label: int, ball: Ball
) -> tuple[float, Tensor | None]:
    """The nearest error on the ways from the best candidates to the input, replayed as deployed."""
    order = size.argsort()[:KEPT]
    order = order[size[order].isfinite()]
    if not len(order):
        return torch.inf, None
    far, near = best[order], origin.expand(len(order), -1)
    with torch.no_grad():
        for _ in range(16):
            middle = (far + near) / 2
            wrong = (predicted_class(network.run(middle)) != label)[:, None]
            far, near = torch.where(wrong, middle, far), torch.where(wrong, near, middle)
    away = ball.distance(origin.double().expand(len(far), -1), far.double())
    for row in away.argsort()[:REPLAYS].tolist():
        for beyond in BEYOND_BOUNDARY:
            point = origin + (far[row : row + 1] - origin) * (1 + beyond)
            point = point if ball.box is None else point.clamp(*ball.box)
            with torch.no_grad():  # alone: results of a batch may be rounded differently
                other = int(predicted_class(network.outputs(point))) not in (label, -1)
            if other and int(predicted_class(network.run(point).detach())) != label:
                return float(ball.distance(origin.double(), point.double())), point.view_as(x)
    return torch.inf, None
