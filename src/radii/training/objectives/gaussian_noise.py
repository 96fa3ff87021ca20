"""Training under Gaussian noise: what a classifier needs before it is smoothed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.training.objectives.objective import Loss, Moment


class GaussianNoise:
    """loss = mean CE(f(x + noise), y), noise N(0, sigma^2 I) (Cohen, Rosenfeld & Kolter 2019, Section 3.3).

    Logits, and so the accuracy on display, are those of the noisy inputs.
    """

    def __init__(self, sigma: float = 0.25) -> None:
        if not sigma > 0:
            raise InputError(f"sigma must be positive, got {sigma:g} instead.")
        self.sigma = sigma

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:
        """Cross-entropy of the batch, each input under a fresh draw of noise."""
        noise = torch.randn(x.shape, generator=moment.generator("noise"), dtype=x.dtype).to(x.device)
        logits = model(x + self.sigma * noise)
        return Loss(F.cross_entropy(logits, y), logits)
