"""A search for an input that meets a case: random points, then descent by the signs of gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from radii.certificates.complete.goal import Goal, Runnable

REPLAYS = 8  # candidates that are run as deployed
MOST_CASES = 16  # up to so many cases are searched by descent


def first_meeting(goal: Goal, network: Runnable, x: Tensor, outputs: Tensor | None = None) -> Tensor | None:
    """The first of the inputs [n, inputs] that meets a case in torch and as deployed, if one does.

    Args:
        goal: the cases.
        network: runs the inputs.
        x: candidates.
        outputs: their outputs in torch, if they are known.
    """
    with torch.no_grad():
        met = (goal.excess(network.run(x) if outputs is None else outputs) <= 0).any(1)
        if not bool(met.any()):
            return None
        candidates = x[met][:REPLAYS].detach()
        real = (goal.excess(network.outputs(candidates)) <= 0).any(1)
    return candidates[real][0] if bool(real.any()) else None


def search(goal: Goal, network: Runnable, seed: int = 0, starts: int = 64, steps: int = 60) -> Tensor | None:
    """An input [inputs] of the box that meets a case in float32, or None.

    Args:
        goal: the box and its cases.
        network: the network, with gradients.
        seed: seed of the random starts; default 0.
        starts: random points; the best of them for each case start the descent; default 64.
        steps: steps of the descent; default 60.
    """
    generator = torch.Generator().manual_seed(seed)
    low, high = goal.inside()
    width = high - low
    x = low + width * torch.rand(starts * 4, len(low), generator=generator)
    corners = torch.where(torch.rand(starts, len(low), generator=generator) < 0.5, low, high)
    x = torch.cat([((low + high) / 2)[None], x, corners]).clamp(low, high)
    x = goal.placed(x)
    point = first_meeting(goal, network, x)
    if point is not None:
        return point
    with torch.no_grad():
        order = goal.excess(network.run(x)).argsort(0)[: max(4, starts // 4)]
    if goal.cases > MOST_CASES:
        return None
    case = torch.arange(goal.cases).repeat(len(order))
    return _descend(goal, network, x[order.flatten()], case, steps)


def _descend(goal: Goal, network: Runnable, x: Tensor, case: Tensor, steps: int) -> Tensor | None:
    """Each row goes down the excess of its own case."""
    low, high = goal.inside()
    step = (high - low) / 4
    for number in range(steps):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            outputs = network.run(x)
            gradient = _gradient(goal.excess(outputs).gather(1, case[:, None]).sum(), x)
        point = first_meeting(goal, network, x, outputs)
        if point is not None or gradient is None:
            return point
        size = step * 0.93**number
        x = goal.placed(x.detach() - size * gradient.sign())
    return first_meeting(goal, network, x)


def _gradient(value: Tensor, x: Tensor) -> Tensor | None:
    """Of ``value`` by ``x``; None for networks of steps, and for those that overwrite what their gradient needs."""
    if not value.requires_grad:
        return None
    try:
        return torch.autograd.grad(value, x, allow_unused=True)[0]
    except RuntimeError:  # torch found a value that was overwritten in place
        return None
