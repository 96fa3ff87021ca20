"""Adversarial training (Madry et al. 2018): the loss at the worst point that an attack finds."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from radii.threat import Ball
from radii.training.attackable import Mode
from radii.training.inner import Inner
from radii.training.objectives.objective import Loss, Moment


class AdversarialTraining:
    """loss = mean of max over x' in the ball of CE(f(x'), y), the maximum by projected ascent.

    Defaults are Yang et al. 2020: 10 steps of a fifth of the radius from a
    uniform start; Ding et al. 2019 take 40 steps of a thirtieth at 0.3 on MNIST
    and 10 of a quarter at 8/255 on CIFAR-10. ``inner="train"`` attacks the
    network in train mode, as the public code of Yang et al. does.
    """

    def __init__(
        self, threat: str = "linf:0.3", steps: int = 10, step: float = 0.2, warmup: float = 0.0, inner: Mode = "eval"
    ) -> None:
        self.inner = Inner(Ball.parse(threat), steps, step, "uniform", warmup, inner)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:
        """Cross-entropy at the attacked inputs, whose logits it returns."""
        worst = self.inner.maximize(model, x, moment, lambda logits: F.cross_entropy(logits, y, reduction="sum"))
        logits = model(worst)
        return Loss(F.cross_entropy(logits, y), logits)
