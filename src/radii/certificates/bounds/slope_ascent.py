"""Gradient ascent of bounds by Adam (Kingma & Ba 2015), without the start-up cost of torch.optim."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

DECAY, SQUARES, FADING = 0.9, 0.999, 0.97


class Ascent:
    """Steps of Adam on parameters with their own rates, which fade by 3% a step."""

    def __init__(self, rates: Sequence[tuple[Tensor, float]]) -> None:
        self._rates = list(rates)
        self._mean = [torch.zeros_like(value) for value, _ in rates]
        self._square = [torch.zeros_like(value) for value, _ in rates]
        self._count = 0

    def step(self, objective: Tensor) -> None:
        """Raise ``objective``; parameters that it does not depend on stay."""
        if not self._rates:
            return
        grads = torch.autograd.grad(objective, [value for value, _ in self._rates], allow_unused=True)
        self._count += 1
        fade = FADING ** (self._count - 1)
        first, second = 1 - DECAY**self._count, 1 - SQUARES**self._count
        with torch.no_grad():
            for (value, rate), grad, mean, square in zip(self._rates, grads, self._mean, self._square, strict=True):
                if grad is None:
                    continue
                mean.mul_(DECAY).add_(grad, alpha=1 - DECAY)
                square.mul_(SQUARES).addcmul_(grad, grad, value=1 - SQUARES)
                value.addcdiv_(mean, (square / second).sqrt_().add_(1e-8), value=rate * fade / first)
