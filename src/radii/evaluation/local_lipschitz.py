"""The local Lipschitz constant (Yang et al. 2020): how fast the logits move within a ball, at least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii import progress
from radii.attacks.pgd import ascend
from radii.attacks.point_randomness import derived, point_seeds, start_inside
from radii.errors import InputError
from radii.models.classifier import check_inputs, input_gradient
from radii.networks.calling import ask, frozen
from radii.randomness import stream
from radii.threat import Ball


@dataclass(frozen=True)
class LocalLipschitz:
    """Per point, the steepest known ratio: a lower bound of max ||f(x) - f(x')||_1 / ||x - x'||.

    ``nearby`` holds the inputs x' that attain it. f are logits.
    """

    value: NDArray[np.float64]  # [n]
    nearby: Tensor  # [n, …]

    @property
    def mean(self) -> float:
        """The mean over the points, which Yang et al. report."""
        return float(self.value.mean())


def local_lipschitz(
    model: nn.Module,
    x: Tensor,
    ball: Ball,
    *,
    steps: int = 20,
    step: float = 0.2,
    restarts: int = 3,
    seed: int = 0,
    batch_size: int = 256,
) -> LocalLipschitz:
    """Ascend ||f(x) - f(x')||_1 / ||x - x'|| over x' in the ball, in the ball's norm.

    Random starts lie in the ball, in its half and in its quarter in turn: steps raise the numerator, which
    moves x' to the edge, and the steepest place may be nearer. The best ratio counts, starts included, so it is
    never below a random search over the same starts. The authors' public code descends the ratio and returns
    the last one; their magnitudes are not comparable (see docs).

    Args:
        x: inputs [n, …] in the ball's box.
        steps: ascent steps from each start; default 20.
        step: length of a step, as a share of the radius; default 0.2.
        restarts: random starts of each point; default 3.
        seed: seed of the starts; default 0.
        batch_size: inputs in one forward pass; default 256.
    """
    check_inputs(x, ball.box)
    if ball.radius <= 0:
        raise InputError("A local Lipschitz constant needs a ball of positive radius, got 0.")
    x = x.detach().float()
    seeds = point_seeds(x, torch.zeros(len(x), dtype=torch.int64), stream(seed, "local-lipschitz"))
    values, nearby = [], []
    with frozen(model), progress.task("local Lipschitz", total=len(x), unit="points") as task:
        for rows in torch.arange(len(x), device=x.device).split(batch_size):
            best, where = _steepest(model, x[rows], ball, seeds[rows], steps, step, restarts)
            values.append(best.double().cpu().numpy())
            nearby.append(where)
            task.advance(len(rows))
    return LocalLipschitz(np.concatenate(values), torch.cat(nearby))


def _steepest(
    model: nn.Module, x: Tensor, ball: Ball, seeds: Tensor, steps: int, step: float, restarts: int
) -> tuple[Tensor, Tensor]:
    """The best ratio of each row [m] and the input that attains it."""
    with torch.no_grad():
        center = ask(model, x)
    best, where = x.new_zeros(len(x)), x.clone()
    for restart in range(restarts):
        reach = ball.with_radius(ball.radius / 2 ** (restart % 3))
        point = start_inside(x, reach, derived(seeds, restart))
        for _ in range(steps + 1):
            with torch.enable_grad():
                point = point.detach().requires_grad_()
                rise = (ask(model, point) - center).abs().sum(1)
                gradient = input_gradient(rise.sum(), point)
            point, ratio = point.detach(), _ratio(rise.detach(), point.detach() - x, ball)
            better = ratio > best
            best = torch.where(better, ratio, best)
            where[better] = point[better]
            point = reach.project(ascend(point, gradient, x, reach, step * reach.radius), x)
    return best, where


def _ratio(rise: Tensor, step: Tensor, ball: Ball) -> Tensor:
    """rise / ||step||, and 0 where the step is too short for float32 to tell a ratio: [m]."""
    run = ball.distance(torch.zeros_like(step), step)
    return torch.where(run > 1e-3 * ball.radius, rise / run.clamp_min(1e-12), 0.0)
