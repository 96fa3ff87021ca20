"""The running average of a network's weights: the mean of a path generalizes better than its end."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeightAverage:
    """a <- d a + (1 - d) w after every step (Polyak & Juditsky 1992, with exponential weights).

    d = min(``decay``, (1 + t) / (10 + t)) after t steps, so that the first,
    random weights are soon forgotten. Buffers that are numbers (batch norm's
    statistics) are averaged too, whole numbers are taken as they are. The
    training itself never sees the average.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors: dict[str, Tensor] = {key: value.detach().clone() for key, value in model.state_dict().items()}

    @torch.no_grad()
    def follow(self, model: nn.Module, steps: int) -> None:
        """Take in the weights that ``model`` has after ``steps`` steps."""
        share = 1 - min(self.decay, (1 + steps) / (10 + steps))
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                self.tensors[key].lerp_(value, share)
            else:
                self.tensors[key].copy_(value)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue with an average that was stored."""
        for key, value in self.tensors.items():
            value.copy_(tensors[key])

    def give(self, model: nn.Module) -> None:
        """Put the average in the place of the weights."""
        model.load_state_dict(self.tensors)
