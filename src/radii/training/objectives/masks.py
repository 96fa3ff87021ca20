"""Dropout masks that can be drawn again: finite differences must see one network, not two."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Masks:
    """The state of the global random streams before a forward pass."""

    cpu: Tensor
    device: torch.device
    accelerator: Tensor | None

    @classmethod
    def before(cls, x: Tensor) -> Masks:
        """Remember the masks that the next pass over ``x`` will draw."""
        on_device = torch.cuda.get_rng_state(x.device) if x.is_cuda else None
        return cls(torch.random.get_rng_state(), x.device, on_device)

    def again(self) -> None:
        """Let the next pass draw the same masks."""
        torch.random.set_rng_state(self.cpu)
        if self.accelerator is not None:
            torch.cuda.set_rng_state(self.accelerator, self.device)
