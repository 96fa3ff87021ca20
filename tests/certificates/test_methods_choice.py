"""The strongest certificate: every family of 1-Lipschitz layers gets its margin, whatever a quick bound says."""

from __future__ import annotations

import pytest
import torch

from radii.certificates.choose import strongest
from radii.models.zoo.lipschitz_networks import LipschitzConvNet


@pytest.mark.parametrize("layer", ["aol", "cpl"])
def test_a_lipschitz_network_gets_its_margin(layer: str) -> None:
    """A quick bound of many residual layers is loose, but CROWN does not know them and the proof is tight."""
    torch.manual_seed(0)
    net = LipschitzConvNet((1, 8, 8), 4, width=4, layer=layer).eval()
    with torch.no_grad():
        net(torch.rand(2, 1, 8, 8))
    assert strongest(net, (1, 8, 8)).method == "margin"
