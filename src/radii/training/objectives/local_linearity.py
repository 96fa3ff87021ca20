"""Local linearity regularization (Qin et al. 2019; LLR in Yang et al. 2020): a loss that is linear near the data."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.attacks.pgd import ascend
from radii.errors import unknown_name
from radii.threat import Ball, length, per_row
from radii.training._frozen_for_attack import attackable
from radii.training._inner_maximization import Inner
from radii.training.objectives.gradient_regularization import Masks
from radii.training.objectives.objective import Loss, TrainingProgress

Variant = Literal["paper", "reference"]


class LocalLinearity:
    """loss = mean of L(x) + lam * g(delta) + mu * |delta . grad L(x)|, L = CE(f(.), y).

    g(delta) = |L(x + delta) - L(x) - delta . grad L(x)|, and delta maximizes g over
    the ball, for each point (Qin et al. 2019, Eq. 9). Defaults as in Yang et al. 2020.

    Args:
        threat: the ball, for instance ``linf:0.3``.
        lam: weight of the deviation from linearity.
        mu: weight of the linear part.
        steps: ascent steps, from 0.001 N(0, I).
        step: length of a step, as a share of the radius.
        variant: ``paper`` is the formula above. ``reference`` is what the public
            code of Yang et al. minimizes (it sets a gradient to zero by mistake):
            mean of L(x) + lam * L(x + delta), delta by two ascent steps along the
            gradient divided by its largest entry.

    Raises:
        InputError: an unknown variant.
    """

    def __init__(
        self,
        threat: str = "linf:0.3",
        lam: float = 4.0,
        mu: float = 3.0,
        steps: int = 2,
        step: float = 0.5,
        variant: Variant = "paper",
    ) -> None:
        if variant not in ("paper", "reference"):
            raise unknown_name("local linearity regularization", variant, ["paper", "reference"])
        self.lam, self.mu, self.variant = lam, mu, variant
        self.inner = Inner(Ball.parse(threat), steps, step, "normal")

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """Loss and both penalties of one batch."""
        delta = self.deviation(model, x, y, progress) - x
        masks = Masks.before(x)
        x = x.detach().requires_grad_()
        logits = model(x)
        losses = F.cross_entropy(logits, y, reduction="none")
        if self.variant == "reference":
            moved = F.cross_entropy(model(x.detach() + delta), y)
            return Loss(losses.mean() + self.lam * moved, logits)
        (gradient,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
        linear = (delta * gradient).flatten(1).sum(1)
        masks.again()
        moved = F.cross_entropy(model(x.detach() + delta), y, reduction="none")
        bend = (moved - losses - linear).abs()
        return Loss(losses.mean() + self.lam * bend.mean() + self.mu * linear.abs().mean(), logits)

    def deviation(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Tensor:
        """x + delta: where the loss departs most from its tangent (``reference``: where it is largest)."""
        ball, point = self.inner.ball_at(progress), self.inner.begin(x, progress)
        size = self.inner.step * ball.radius
        with attackable(model, self.inner.mode) as net:
            value, slope = _loss_and_gradient(net, x, y)
            for _ in range(self.inner.steps):
                there, gradient = _loss_and_gradient(net, point, y)
                if self.variant == "reference":
                    # their projection scales the whole perturbation; it changes nothing for a step inside the ball
                    largest = length(gradient, "linf").clamp_min(1e-30)
                    point = ball.clip(point + size * gradient / per_row(largest, gradient), x)
                    continue
                bend = there - value - ((point - x) * slope).flatten(1).sum(1)
                point = ascend(point, per_row(bend.sign(), x) * (gradient - slope), x, ball, size)
        return point


def _loss_and_gradient(net: nn.Module, point: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    point = point.detach().requires_grad_()
    losses = F.cross_entropy(net(point), y, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), point)
    return losses.detach(), gradient
