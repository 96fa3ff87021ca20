"""The running average of a network's weights, which generalizes better than the last weights.

``torch.optim.swa_utils`` has such an average, but it begins with a copy at the
first update and averages whole-number buffers (the step counter of a batch
norm) like weights; stored runs would change their bits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeightAverage:
    """a <- d a + (1 - d) w after every step (Polyak & Juditsky 1992, with exponential weights).

    d = min(``decay``, (1 + t) / (10 + t)) after t steps, so that the first, random
    weights soon have no influence. Floating point buffers (the statistics of batch
    norms) are averaged too, whole numbers are copied. The training itself does not
    use the average.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors: dict[str, Tensor] = {key: value.detach().clone() for key, value in model.state_dict().items()}

    @torch.no_grad()
    def follow(self, model: nn.Module, steps: int) -> None:
        """Update the average with the weights of ``model`` after ``steps`` steps."""
        share = 1 - min(self.decay, (1 + steps) / (10 + steps))
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                self.tensors[key].lerp_(value, share)
            else:
                self.tensors[key].copy_(value)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue with a stored average."""
        for key, value in self.tensors.items():
            value.copy_(tensors[key])

    def give(self, model: nn.Module) -> None:
        """Replace the weights of ``model`` by the average."""
        model.load_state_dict(self.tensors)
