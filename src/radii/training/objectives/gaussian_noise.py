"""Training under Gaussian noise: the base classifier of randomized smoothing (Cohen et al. 2019)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.training.objectives.objective import Loss, Moment


class GaussianNoise:
    """loss = mean CE(f(x + sigma z), y) with z ~ N(0, I), not clipped: the noise that smoothing will add.

    sigma 1/8 in Prach & Lampert 2025 (100 epochs on CIFAR-10). ``temperature``
    T gives CE(f/T, y); their networks have T = 8.
    """

    def __init__(self, sigma: float = 0.125, temperature: float = 1.0) -> None:
        if not sigma >= 0 or not temperature > 0:
            raise InputError(f"sigma must be at least 0 and temperature positive, got {sigma} and {temperature}.")
        self.sigma, self.temperature = sigma, temperature

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:
        """Cross-entropy of the noisy batch."""
        logits = model(x + self.sigma * moment.normal("noise", x))
        return Loss(F.cross_entropy(logits / self.temperature, y), logits)
