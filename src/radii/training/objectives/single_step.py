"""Training against one step of ascent from a noisy point: robust training at the price of two plain steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.attacks.pgd import steepest
from radii.errors import InputError
from radii.threat import Ball
from radii.training._frozen_for_attack import Mode, attackable
from radii.training._inner_maximization import Inner
from radii.training.objectives.objective import Loss, TrainingProgress

SEVERAL, SHORTER = 4, 0.4  # steps where a single one is fitted, and their length as a share of the radius


class NoiseFGSM:
    """loss = mean CE(f(x'), y) with x' = z + s r steepest(g), z = x + noise, g the gradient of the loss at z.

    The noise is uniform in the ball of ``noise`` times the radius r; neither it nor the step is clipped to the ball
    or the box (N-FGSM, de Jorge et al. 2022). Training on clipped single steps often ends in catastrophic
    overfitting: the network resists the one step and nothing else. Noise makes that rare, not impossible, so
    ``Recipe.watch`` compares this attack with PGD on held-out points; once the network is seen to fit the single
    step, ``progress.several`` is true and four clipped steps of 0.4 r take its place.

    Args:
        threat: the ball, for instance ``linf:8/255``; l2 or linf.
        noise: size of the noise, as a share of the radius.
        step: s, length of the step, as a share of the radius.
        label_smoothing: share of the target that is spread over all classes; default 0.
        warmup: share of the training in which the radius grows to its full size.
        inner: mode of the network when it is attacked.
    """

    def __init__(
        self,
        threat: str = "linf:8/255",
        noise: float = 2.0,
        step: float = 1.0,
        label_smoothing: float = 0.0,
        warmup: float = 0.0,
        inner: Mode = "eval",
    ) -> None:
        if not (noise >= 0 and step > 0):
            raise InputError(f"noise must be at least 0 and step positive, got {noise} and {step} instead.")
        self.several = Inner(Ball.parse(threat), SEVERAL, SHORTER, "uniform", warmup, inner)
        if self.several.ball.norm == "l1":
            raise InputError(f"One step is for l2 and linf balls, got {threat!r} instead; train by adversarial.")
        self.noise, self.step, self.label_smoothing = noise, step, label_smoothing

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """Cross-entropy at the attacked inputs, whose logits it returns."""
        search = self.strong if progress.several else self.attacked
        logits = model(search(model, x, y, progress))
        return Loss(F.cross_entropy(logits, y, label_smoothing=self.label_smoothing), logits)

    def attacked(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Tensor:
        """The inputs x' [n, …] of the single step; they may leave the ball and the box."""
        ball = self.several.ball_at(progress)
        noise = progress.offset("start", x, ball.with_radius(self.noise * ball.radius)) if self.noise else 0.0
        point = (x + noise).requires_grad_()
        with attackable(model, self.several.mode) as net:
            (gradient,) = torch.autograd.grad(F.cross_entropy(net(point), y, reduction="sum"), point)
        return point.detach() + self.step * ball.radius * steepest(gradient, ball.norm)

    def strong(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Tensor:
        """Inputs [n, …] in the ball after several projected steps."""
        return self.several.maximize(model, x, progress, lambda logits: F.cross_entropy(logits, y, reduction="sum"))
