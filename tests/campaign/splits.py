"""Networks of more inputs than complete proofs split, so that they split ReLUs; dense, residual and convolutional."""

from __future__ import annotations

import torch
from tests.bounds import test_relaxation_fuzz
from torch import Tensor, nn

from campaign.tally import Tally, try_certificates

INPUTS = 24  # more than complete.verify.FEW_INPUTS


class Stacked(nn.Module):
    """Linear layers with ReLUs between them; every second layer is added to what it reads."""

    def __init__(self, depth: int, width: int, classes: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(INPUTS, width), nn.Linear(width, classes)
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        for number, layer in enumerate(self.inner):
            h = torch.relu(layer(h)) + (h if number % 2 else 0)
        return self.last(h)


def trial(seed: int, count: int) -> Tally:
    """One network and two inputs, every method."""
    torch.manual_seed(seed)
    shape: tuple[int, ...] = (INPUTS,)
    if seed % 3:
        model: nn.Module = Stacked(seed % 3 - 1 + seed % 2, 6 + seed % 7, 2 + seed % 3)
    else:
        model, shape = test_relaxation_fuzz.network(200_000 + seed)
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(seed))
    model = model.eval().requires_grad_(False)
    return try_certificates(model, x, "linf", seed, count // 8, f"splits {seed}")
