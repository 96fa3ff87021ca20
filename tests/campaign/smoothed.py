"""Smoothing of half-spaces, whose class probability and true radius are known in closed form."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import radii
from campaign.tally import Tally

SIGMA, ALPHA = 0.5, 0.05


class HalfSpace(nn.Module):
    """Class 1 where the mean of the coordinates, scaled to unit noise, exceeds a threshold."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        lead = x.flatten(1).sum(1) / x[0].numel() ** 0.5 - self.threshold
        return torch.stack([-lead, lead], 1)


def trial(seed: int, count: int) -> Tally:
    """Inputs whose true radius is just below a tested one: at most a share ALPHA may be certified there."""
    features = 4
    x = torch.full((100, features), 0.5)
    wanted = (0.1, 0.25, 0.5)[seed % 3]
    lead = wanted * (1 - 1e-3)  # the distance to the boundary, slightly too small
    model = HalfSpace(float(x[0].sum() / features**0.5) - lead)
    proof = radii.certify(
        model, x, method="smoothing", sigma=SIGMA, alpha=ALPHA, radii=(wanted / 2, wanted), seed=seed, box=None
    )
    proved = int((proof.radius >= wanted).sum())
    return Tally(networks=1, certificates=len(x), points=proved)
