"""Catastrophic overfitting: a network that resists the single step of its training, and no other attack.

Such a network loses its robustness within a few hundred steps while the loss of its training falls. What shows it
is a stronger attack on points that take no part in the training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor, nn

from radii.data.dataset import Dataset, balanced_order
from radii.errors import InputError
from radii.models.classifier import predict
from radii.training.history import Watched
from radii.training.objectives.objective import Objective, TrainingProgress

LOOKS = 10  # in a training, the last one at its end
MARGIN = 0.1  # of the points; more than chance separates two attacks on a hundred points


@runtime_checkable
class SingleStep(Protocol):
    """An objective whose attack is one step; it can attack in several steps, too."""

    def attacked(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Tensor:
        """Inputs [n, …] after the single step of the training."""

    def strong(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Tensor:
        """Inputs [n, …] after several projected steps in the ball."""


@dataclass(frozen=True)
class HeldOut:
    """Training points that are only attacked, and the others, which train."""

    objective: SingleStep
    x: Tensor
    y: Tensor
    rest: Dataset

    @classmethod
    def of(cls, objective: Objective, data: Dataset, count: int, seed: int) -> HeldOut:
        """``count`` points of ``data``, class-balanced, for ``objective``."""
        if not isinstance(objective, SingleStep):
            raise InputError("watch compares a single step with several; it belongs to --method noise-fgsm.")
        if not count < len(data):
            raise InputError(f"watch must leave points to train on, got {count} of {len(data)}.")
        order = balanced_order(data.y, seed)
        x, y = data.take(np.sort(order[:count])).tensors()
        return cls(objective, x, y, data.take(np.sort(order[count:])))

    def is_due(self, done: int, total: int) -> bool:
        """Whether to look after ``done`` of ``total`` steps."""
        return done == total or (done * LOOKS) // total > ((done - 1) * LOOKS) // total

    def look(self, model: nn.Module, progress: TrainingProgress) -> Watched:
        """Accuracy on the held-out points under both attacks, in eval mode."""
        model.eval()
        device = next(model.parameters()).device
        x, y = self.x.to(device), self.y.to(device)
        single, several = (
            float((predict(model, attack(model, x, y, progress)) == y).double().mean())
            for attack in (self.objective.attacked, self.objective.strong)
        )
        return Watched(progress.number, len(y), single, several, several < single / 2 and single - several > MARGIN)
