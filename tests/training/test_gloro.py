"""GloRo counts everything between pixels and logits."""

from __future__ import annotations

import torch
from torch import nn

from radii.models.classifier import Classifier
from radii.models.layers.last_layers import MarginHead
from radii.models.layers.residual import LinearResidualConv2d
from radii.training.objectives.cross_entropies import GloRo


def test_standardization_stretches_the_radius() -> None:
    """Dividing by a standard deviation of 1/2 is the same as pixels and a radius twice as large."""
    torch.manual_seed(0)
    net = nn.Sequential(LinearResidualConv2d(2, 3, input_size=(4, 4)), nn.Flatten(), MarginHead(32, 3)).eval()
    x, y = torch.rand(5, 2, 4, 4), torch.tensor([0, 1, 2, 0, 1])
    divided = GloRo(0.2).loss(Classifier(net, std=0.5), x, y, None)  # type: ignore[arg-type]
    stretched = GloRo(0.4).loss(Classifier(net), 2 * x, y, None)  # type: ignore[arg-type]
    torch.testing.assert_close(divided.value, stretched.value)
