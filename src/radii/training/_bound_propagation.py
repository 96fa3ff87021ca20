"""Bounds that can be differentiated by the weights, for training: intervals forward, lines backward.

Forward is interval bound propagation (Gowal et al. 2018). Backward is CROWN (Zhang et al. 2018) with these intervals.
The rounding of float32 is left out: a training needs no proof. Certificates use :mod:`radii.bounds`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.linear_maps import Move, Scale
from radii.networks.operations.operation import Interval, Nonlinear, Operation
from radii.networks.program import Program

Ends = dict[int, Interval]


class Region:
    """Inputs between ``lower`` and ``upper`` [n, d] and, with a ``radius``, within that L2 distance of ``center``."""

    def __init__(self, lower: Tensor, upper: Tensor, center: Tensor, radius: float | None = None) -> None:
        self.lower, self.upper, self.center = (value.flatten(1) for value in (lower, upper, center))
        self.radius = radius


def intervals(program: Program, region: Region) -> Ends:
    """Lower and upper bounds [n, d] of every value."""
    ends: Ends = {0: (region.lower, region.upper)}
    balls = {} if region.radius is None else {0: (region.center, torch.ones_like(region.center))}
    for number, step in program.steps.items():
        if isinstance(step, Nonlinear):
            low, high = step.interval(*_shaped(step, ends))
            ends[number] = low.flatten(1), high.flatten(1)
        elif isinstance(step, Join):
            lows, highs = zip(*(ends[source] for source in step.inputs), strict=True)
            ends[number] = torch.cat(lows, 1), torch.cat(highs, 1)
        elif isinstance(step, Sum):
            (low, high), (less, more) = (ends[source] for source in step.inputs)
            ends[number] = (low + less, high + more) if step.sign > 0 else (low - more, high - less)
        else:
            assert isinstance(step, Linear)
            low, high = ends[step.inputs[0]]
            center, spread = step.apply((low + high) / 2), step.absolute((high - low) / 2)
            ends[number] = center - spread, center + spread
            if region.radius is not None and step.inputs[0] in balls:
                ends[number] = _within_ball(step, ends[number], balls, number, region.radius)
    return ends


def _within_ball(
    step: Linear, ends: Interval, balls: dict[int, tuple[Tensor, Tensor]], number: int, radius: float
) -> Interval:
    """|w . (spread * z)| <= radius |w * spread|: rows of W over an L2 ball that only factors and moves came before."""
    center, spread = balls[step.inputs[0]]
    squares = step.linear.squares(spread.square().unflatten(1, step.in_shape))
    if squares is None:
        return ends
    middle, width = step.apply(center), squares.flatten(1).sqrt()
    if isinstance(step.linear, Scale | Move):
        balls[number] = middle, width
    return torch.maximum(ends[0], middle - radius * width), torch.minimum(ends[1], middle + radius * width)


def lower_bounds(program: Program, ends: Ends, region: Region, rows: Tensor, *, deep: bool = True) -> Tensor:
    """Lower bounds [n, s] of rows [n, s, outputs] times what the network returns, over ``region``.

    Args:
        ends: the intervals of its values.
        deep: False ends at the last operations that are not linear, with their intervals.
    """
    pending, total = {program.output: rows}, rows.new_zeros(rows.shape[:2])
    for number in sorted(program.steps, reverse=True):
        if number not in pending:
            continue
        A, step = pending.pop(number), program.steps[number]
        if isinstance(step, Nonlinear) and not deep:
            total = total + _between(A, *ends[number])
            continue
        backs, constant = _through(step, A, ends)
        total = total + constant
        for source, back in zip(step.inputs, backs, strict=True):
            if back is not None:
                pending[source] = pending[source] + back if source in pending else back
    if 0 in pending:
        A = pending.pop(0)
        inside = _between(A, region.lower, region.upper)
        if region.radius is not None:
            inside = torch.maximum(inside, _dot(A, region.center) - region.radius * A.norm(dim=2))
        total = total + inside
    return total


def _through(step: Operation, A: Tensor, ends: Ends) -> tuple[tuple[Tensor | None, ...], Tensor]:
    """Coefficients of what ``step`` reads and a constant, from coefficients ``A`` [n, s, d] of its result."""
    zero = A.new_zeros(A.shape[:2])
    if isinstance(step, Nonlinear):
        backs, constant = step.lines(A.unflatten(2, step.out_shape), _shaped(step, ends))
        return tuple(None if back is None else back.flatten(2) for back in backs), constant
    if isinstance(step, Sum):
        return (A, step.sign * A), zero
    if isinstance(step, Join):
        return A.split(step.sizes, 2), zero
    assert isinstance(step, Linear)
    back = step.transpose(A.flatten(0, 1)).unflatten(0, A.shape[:2])
    return (back,), zero if step.bias is None else A @ step.bias


def _shaped(step: Nonlinear, ends: Ends) -> list[Interval]:
    return [
        (ends[source][0].unflatten(1, shape), ends[source][1].unflatten(1, shape))
        for source, shape in zip(step.inputs, step.in_shapes, strict=True)
    ]


def _dot(A: Tensor, value: Tensor) -> Tensor:
    return torch.einsum("nsd,nd->ns", A, value)


def _between(A: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return _dot(A.clamp_min(0), low) + _dot(A.clamp_max(0), high)
