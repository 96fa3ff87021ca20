"""OneCycle: the learning rate and momentum as functions of the step, with no state to save."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, model_validator

from radii.spec import Spec


class OneCycle(Spec):
    """Up to the peak learning rate by a cosine, then down to almost nothing by another.

    ``peak`` is reached after ``warmup`` of the steps, starting at ``peak/25`` and
    ending at ``peak/25e4``; momentum runs from 0.95 to 0.85 and back when
    ``cycle_momentum`` (what torch's OneCycleLR does by default, and so what
    Prach & Lampert 2025 trained with, although the text says 0.9).
    """

    peak: float = Field(0.1, gt=0)
    warmup: float = Field(0.3, ge=0, le=1)
    momentum: float = Field(0.9, ge=0, lt=1)
    cycle_momentum: bool = False

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.cycle_momentum and self.momentum != 0.9:
            raise ValueError("momentum is not used when cycle_momentum is true; leave it out")
        return self

    def at(self, step: int, total: int) -> tuple[float, float]:
        """Learning rate and momentum of ``step`` (0-based) of ``total``."""
        turn = self.warmup * total - 1
        low, lowest = self.peak / 25, self.peak / 25e4
        if step <= turn:
            part = step / turn if turn > 0 else 1.0
            rate, momentum = _cosine(low, self.peak, part), _cosine(0.95, 0.85, part)
        else:
            part = (step - turn) / max(total - 1 - turn, 1e-12)
            rate, momentum = _cosine(self.peak, lowest, part), _cosine(0.85, 0.95, part)
        return rate, momentum if self.cycle_momentum else self.momentum


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))
