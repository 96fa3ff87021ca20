"""Natural training: cross-entropy on clean inputs."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from radii.training.objectives.objective import Loss, Moment


class Natural:
    """loss = mean CE(f(x), y), with label smoothing if asked for."""

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:  # noqa: ARG002
        """Cross-entropy of the batch."""
        logits = model(x)
        return Loss(F.cross_entropy(logits, y, label_smoothing=self.label_smoothing), logits)
