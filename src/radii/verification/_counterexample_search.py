"""A search for an input that meets a case: random points, then descent by the signs of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from radii.verification._goal import Goal, Runnable

if TYPE_CHECKING:
    from radii.bounds.bound_engine import Check

REPLAYS = 8  # candidates that are run as deployed
MOST_CASES = 16  # up to so many cases are searched by descent
PAUSE = 0.1  # seconds that a network may take between two looks at the clock


@dataclass
class Paced:
    """Rows go through a network in parts that take about ``PAUSE`` seconds, with a ``check`` before each."""

    check: Check
    rows: int = 4  # of the next part

    def cat(self, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """``function`` of all rows of ``values``, computed part by part."""
        results, start = [], 0
        while start < len(values[0]):
            self.check()
            began, end = monotonic(), start + self.rows
            results.append(function(*(value[start:end] for value in values)))
            start = end
            self.rows = self.rows * 2 if monotonic() - began < PAUSE else max(1, self.rows // 2)
        return torch.cat(results)


def first_meeting(goal: Goal, network: Runnable, x: Tensor, outputs: Tensor | None = None) -> Tensor | None:
    """The first of the inputs [n, inputs] that meets a case in torch and in every way in which it is deployed."""
    if not len(x):
        return None
    with torch.no_grad():
        met = goal.met(network.run(x) if outputs is None else outputs)
        if not bool(met.any()):
            return None
        candidates = x[met][:REPLAYS].detach()
        answers, *others = network.each_deployed(candidates)
        real = torch.nonzero(torch.stack([goal.met(each) for each in (answers, *others)]).all(0))[:, 0].tolist()
    return next((candidates[row] for row in real if goal.written(candidates[row], answers[row])), None)


def search(
    goal: Goal, network: Runnable, check: Check, seed: int = 0, starts: int = 64, steps: int = 60
) -> Tensor | None:
    """An input [inputs] of the box that meets a case in float32, or None.

    Args:
        check: is called often, and may raise to end the search.
        seed: seed of the random starts; default 0.
        starts: random points; the best of them for each case start the descent; default 64.
        steps: steps of the descent; default 60.
    """
    generator, paced = torch.Generator().manual_seed(seed), Paced(check)
    low, high = goal.inside()
    width = high - low
    x = low + width * torch.rand(starts * 4, len(low), generator=generator)
    corners = torch.where(torch.rand(starts, len(low), generator=generator) < 0.5, low, high)
    x = torch.cat([((low + high) / 2)[None], x, corners]).clamp(low, high)
    x = goal.placed(x)
    with torch.no_grad():
        outputs = paced.cat(network.run, x)
    point = first_meeting(goal, network, x, outputs)
    if point is not None or goal.cases > MOST_CASES:
        return point
    order = goal.excess(outputs).argsort(0)[: max(4, starts // 4)]
    case = torch.arange(goal.cases).repeat(len(order))
    return _descend(goal, network, paced, x[order.flatten()], case, steps)


def _descend(goal: Goal, network: Runnable, paced: Paced, x: Tensor, case: Tensor, steps: int) -> Tensor | None:
    """Each row goes down the excess of its own case."""
    low, high = goal.inside()
    step = (high - low) / 4

    def slopes(rows: Tensor, cases: Tensor) -> Tensor:
        """Outputs and the gradient of the excess, side by side; no gradient where there is none."""
        rows = rows.detach().requires_grad_()
        with torch.enable_grad():
            outputs = network.run(rows)
            slope = gradient(goal.excess(outputs).gather(1, cases[:, None]).sum(), rows)
        return torch.cat([outputs.detach(), *([] if slope is None else [slope])], 1)

    for number in range(steps):
        met = paced.cat(slopes, x, case)
        outputs, slope = met.split([goal.matrix.shape[1], met.shape[1] - goal.matrix.shape[1]], 1)
        point = first_meeting(goal, network, x, outputs)
        if point is not None or not slope.shape[1]:
            return point
        size = step * 0.93**number
        x = goal.placed(x - size * slope.sign())
    return first_meeting(goal, network, x)


def gradient(value: Tensor, x: Tensor) -> Tensor | None:
    """Of ``value`` by ``x``; None for networks of steps, and for those that overwrite what their gradient needs."""
    if not value.requires_grad:
        return None
    try:
        return torch.autograd.grad(value, x, allow_unused=True)[0]
    except RuntimeError:  # torch found a value that was overwritten in place
        return None
