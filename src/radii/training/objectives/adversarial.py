"""Training against an attack: adversarial training (Madry et al. 2018) and TRADES (Zhang et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.threat import Ball
from radii.training._frozen_for_attack import Mode, attackable, couples_rows, same_in_both_modes
from radii.training._inner_maximization import Inner
from radii.training.objectives.objective import Loss, TrainingProgress


class AdversarialTraining:
    """loss = mean of max over x' in the ball of CE(f(x'), y), the maximum by projected ascent (Madry et al. 2018).

    Defaults are those of Yang et al. 2020. Ding et al. 2019 take 40 steps of a
    thirtieth of the radius at 0.3 on MNIST and 10 of a quarter at 8/255 on CIFAR-10.

    Args:
        threat: the ball, for instance ``linf:0.3``.
        steps: ascent steps.
        step: length of a step, as a share of the radius.
        warmup: share of the training in which the radius grows to its full size.
        inner: mode of the network during the attack; ``train`` as in the public code of Yang et al.
    """

    def __init__(
        self, threat: str = "linf:0.3", steps: int = 10, step: float = 0.2, warmup: float = 0.0, inner: Mode = "eval"
    ) -> None:
        self.inner = Inner(Ball.parse(threat), steps, step, "uniform", warmup, inner)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """Cross-entropy at the attacked inputs, whose logits it returns."""
        worst = self.inner.maximize(model, x, progress, lambda logits: F.cross_entropy(logits, y, reduction="sum"))
        logits = model(worst)
        return Loss(F.cross_entropy(logits, y), logits)


class Trades:
    """loss = mean CE(f(x), y) + beta * max over x' in the ball of KL(softmax f(x) || softmax f(x')).

    Zhang et al. 2019, Eq. 5. The search starts at x + 0.001 N(0, I). Gradients flow
    through both arguments of KL. The clean output is computed once; where train and
    eval mode are one function, it is that of the training pass.

    Args:
        threat: the ball, for instance ``linf:0.3``.
        beta: weight of the second term; 1, 3 and 6 in Yang et al. 2020.
        steps: ascent steps.
        step: length of a step, as a share of the radius.
        warmup: share of the training in which the radius grows to its full size.
        inner: mode of the network during the search.
    """

    def __init__(
        self,
        threat: str = "linf:0.3",
        beta: float = 6.0,
        steps: int = 10,
        step: float = 0.2,
        warmup: float = 0.0,
        inner: Mode = "eval",
    ) -> None:
        self.beta = beta
        self.inner = Inner(Ball.parse(threat), steps, step, "normal", warmup, inner)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """Both terms of one batch."""
        if same_in_both_modes(model):
            clean = model(x)
            moved = model(self._search(model, x, progress, clean.detach()))
        else:
            with torch.no_grad(), attackable(model, self.inner.mode) as net:
                center = net(x)
            worst = self._search(model, x, progress, center)
            clean, moved = both_logits(model, x, worst)
        return Loss(F.cross_entropy(clean, y) + self.beta * _divergence(clean, moved) / len(x), clean)

    def _search(self, model: nn.Module, x: Tensor, progress: TrainingProgress, center: Tensor) -> Tensor:
        return self.inner.maximize(model, x, progress, lambda logits: _divergence(center, logits))


def _divergence(logits: Tensor, moved: Tensor) -> Tensor:
    """KL(softmax(logits) || softmax(moved)), summed over rows: [n, classes] twice -> scalar."""
    return F.kl_div(F.log_softmax(moved, 1), F.log_softmax(logits, 1), reduction="sum", log_target=True)


def both_logits(model: nn.Module, x: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of ``model`` at ``x`` and ``moved``, by one pass over both unless rows of a batch influence each other."""
    if couples_rows(model):
        return model(x), model(moved)
    clean, far = model(torch.cat([x, moved])).chunk(2)
    return clean, far
