"""One-hidden-layer ReLU networks with a scalar output, trained plainly or against an L2 adversary."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from radii.networks.calling import frozen
from radii.threat import Ball

Batches = Callable[[int], tuple[Tensor, Tensor]]


def shallow_network(dimension: int, width: int, generator: Generator) -> nn.Sequential:
    """x -> a·relu(Wx + b) + c with the usual scaling of the weights; the sign is the class.

    Args:
        width: number of hidden units.
    """
    net = nn.Sequential(nn.Linear(dimension, width), nn.ReLU(), nn.Linear(width, 1), nn.Flatten(0))
    for parameter in net.parameters():
        fan = parameter.shape[1] if parameter.dim() == 2 else dimension
        nn.init.uniform_(parameter, -(fan**-0.5), fan**-0.5, generator=generator)
    return net


def attacked(net: nn.Module, x: Tensor, y: Tensor, radius: float, steps: int) -> Tensor:
    """L2 projected gradient descent on the margin y f(x): normalized steps of 2.5 radius / steps.

    Args:
        x: inputs, [n, d].
        y: labels ±1, [n].
        radius: of the L2 ball.
    """
    ball = Ball("l2", radius, box=None)
    moved = x
    with frozen(net):
        for _ in range(steps):
            moved = moved.detach().requires_grad_()
            (slope,) = torch.autograd.grad((y * net(moved)).sum(), moved)
            unit = slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-12)
            moved = ball.clip(moved.detach() - 2.5 * radius / steps * unit, x)
    return moved.detach()


def fit(net: nn.Module, batches: Batches, steps: int, lr: float, radius: float = 0.0, attack_steps: int = 5) -> None:
    """Adam with a cosine schedule on the logistic loss.

    Args:
        net: is trained in place.
        batches: inputs and labels ±1 by step.
        radius: of adversarial training; 0 trains plainly.
    """
    optimizer = torch.optim.Adam(net.parameters(), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        x, y = batches(step)
        if radius > 0:
            x = attacked(net, x, y, radius, attack_steps)
        optimizer.zero_grad()
        softplus(-y * net(x)).mean().backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def correct(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Which signs are right; 0 is wrong: [n] bool.

    Args:
        x: inputs: [n, d].
        y: labels, −1 or 1: [n].
    """
    return y * net(x) > 0
