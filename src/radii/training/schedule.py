"""SGD under OneCycle: learning rate and momentum as functions of the step, with no state to save."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, model_validator

from radii.spec import Spec


class Optimizer(Spec):
    """SGD with Nesterov momentum; the rate rises to ``lr`` by a cosine, then falls to almost nothing by another.

    ``lr`` is reached after ``warmup`` of the steps, starting at ``lr/25`` and
    ending at ``lr/25e4``; momentum runs from 0.95 to 0.85 and back when
    ``cycle_momentum`` (what torch's OneCycleLR does by default, and so what
    Prach & Lampert 2025 trained with, although the text says 0.9).
    """

    lr: float = Field(0.1, gt=0)
    warmup: float = Field(0.3, ge=0, le=1)
    momentum: float = Field(0.9, ge=0, lt=1)
    cycle_momentum: bool = False
    weight_decay: float = Field(0.0, ge=0)
    clip_gradient: float = Field(0.0, ge=0, description="largest gradient norm; 0 for no limit")

    @model_validator(mode="after")
    def _one_momentum(self) -> Self:
        if self.cycle_momentum and self.momentum != 0.9:
            raise ValueError("momentum is not used when cycle_momentum is true; leave it out")
        return self

    def at(self, step: int, total: int) -> tuple[float, float]:
        """Learning rate and momentum of ``step`` (0-based) of ``total``."""
        turn = self.warmup * total - 1
        low, lowest = self.lr / 25, self.lr / 25e4
        if step <= turn:
            part = step / turn if turn > 0 else 1.0
            rate, momentum = _cosine(low, self.lr, part), _cosine(0.95, 0.85, part)
        else:
            part = (step - turn) / max(total - 1 - turn, 1e-12)
            rate, momentum = _cosine(self.lr, lowest, part), _cosine(0.85, 0.95, part)
        return rate, momentum if self.cycle_momentum else self.momentum


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))
