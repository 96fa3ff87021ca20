"""Starts by name: what they fill, and that certificates still hold."""

from __future__ import annotations

import pytest
import torch

from radii.errors import InputError
from radii.models.io.bundle import build, start_from

SHAPE = (1, 8, 8)


def test_orthogonal_matrices_are_orthogonal() -> None:
    network = build("lipschitz-mlp", SHAPE, 10, {"width": 64, "depth": 3, "layer": "aol"})
    start_from(network, "orthogonal", 1)
    weight = network.linear0.weight
    assert torch.allclose(weight @ weight.T, torch.eye(64), atol=1e-5)


def test_identity_lets_inputs_through() -> None:
    network = build("lipschitz-mlp", SHAPE, 10, {"width": 64, "depth": 2, "layer": "plain"})
    start_from(network, "identity", 0)
    x = torch.rand(3, *SHAPE)
    assert torch.equal(network.linear0(x.flatten(1)), x.flatten(1))


def test_kaiming_has_its_variance_and_depends_on_the_seed() -> None:
    network = build("lipschitz-convnet", SHAPE, 10, {"width": 32, "layer": "plain", "depth": 1})
    start_from(network, "kaiming", 0)
    weight = network.block0_conv0.weight.detach().clone()
    assert weight.std().item() == pytest.approx((2 / (32 * 9)) ** 0.5, rel=0.05)
    start_from(network, "kaiming", 1)
    assert not torch.equal(weight, network.block0_conv0.weight)
    before = network.block0_conv0.weight.detach().clone()
    start_from(network, "own", 5)
    assert torch.equal(before, network.block0_conv0.weight)


@pytest.mark.parametrize("name", ["orthogonal", "identity", "kaiming"])
@pytest.mark.parametrize("layer", ["aol", "cpl"])
def test_networks_stay_1_lipschitz(name: str, layer: str) -> None:
    from radii.models.lipschitz.network_bound import lipschitz_bound

    network = build("lipschitz-convnet", SHAPE, 10, {"width": 4, "layer": layer, "depth": 1})
    start_from(network, name, 0)  # type: ignore[arg-type]
    assert lipschitz_bound(network.eval(), SHAPE).value <= 1 + 1e-5


def test_matrices_that_must_stay_orthogonal_refuse_kaiming() -> None:
    network = build("isometric", SHAPE, 10, {"tokens": 1, "width": 64})
    with pytest.raises(InputError, match="must stay orthogonal"):
        start_from(network, "kaiming", 0)
    start_from(network, "orthogonal", 3)
    weight = network.stage0_layer1.weight
    assert torch.allclose(weight @ weight.T, torch.eye(64), atol=1e-5)
