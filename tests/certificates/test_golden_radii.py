"""Certified radii of tiny networks by every method, equal to those on record: moving code must not move a radius.

The record was made by ``python tests/certificates/test_golden_radii.py > tests/certificates/golden_radii.json`` before
the certificates had one table. Radii from a list are compared exactly; the others to the last digits of float64,
because libraries of linear algebra sum in another order on other processors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.certificates.choose import certify, choose
from radii.errors import InputError
from radii.models.zoo.linf_distance import LinfDistanceNetwork
from radii.models.zoo.lipschitz_networks import LipschitzConvNet
from radii.threat import Ball, Norm

RECORD = Path(__file__).with_name("golden_radii.json")
LEVELS = (0.003, 0.01, 0.02, 0.04, 0.08)
BOUNDS = ("ibp", "crown-ibp", "crown", "alpha-crown", "sdp-crown", "wong-kolter")
METHODS = ("margin", "smoothing", "estimate", *BOUNDS, "complete", "auto")


class Branching(nn.Module):
    """Two convolutions around a sum, and a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Linear(27, 3)

    def forward(self, x: Tensor) -> Tensor:
        value = F.relu(self.first(x))
        return self.head(F.max_pool2d(value + F.relu(self.second(value)), 2).flatten(1))


def dense() -> nn.Module:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return net


def pooled() -> nn.Module:
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))
    return nn.Sequential(*layers)


def curved() -> nn.Module:
    net = nn.Sequential(nn.Linear(8, 12), nn.Sigmoid(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(2 * torch.randn_like(parameter))
    return net


def contracting() -> nn.Module:
    net = LipschitzConvNet((1, 4, 4), 3, width=2, depth=1)
    with torch.no_grad():
        net(torch.rand(2, 1, 4, 4))
    return net


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "dense": (dense, (8,)),
    "pooled": (pooled, (1, 6, 6)),
    "branching": (Branching, (1, 6, 6)),
    "curved": (curved, (8,)),
    "contracting": (contracting, (1, 4, 4)),
    "distances": (lambda: LinfDistanceNetwork((8,), 3, width=8, depth=2), (8,)),
}


def measured(name: str, norm: Norm) -> dict[str, Any]:
    """Predictions, radii and methods of points, by every method; None where the method refuses."""
    make, shape = NETWORKS[name]
    torch.manual_seed(7)
    model = make().eval()
    x = torch.rand(5, *shape, generator=torch.Generator().manual_seed(1))
    found: dict[str, Any] = {}
    for method in METHODS if name == "dense" else [method for method in METHODS if method != "complete"]:
        sigma = 0.1 if method in ("smoothing", "estimate") else None
        radii = LEVELS[2:] if method == "smoothing" else LEVELS
        try:
            proof = certify(model, x, method, norm=norm, radii=radii, sigma=sigma, samples=300, alpha=0.01)
        except InputError:
            found[method] = None
            continue
        found[method] = [proof.prediction.tolist(), proof.radius.tolist(), list(proof.methods)]
    for last in ("crown-ibp", "complete"):
        choice = choose(model, x, Ball(norm, 0.08), radii=LEVELS[-2:], passes=4000, last=last).certificate
        found[f"choose {last}"] = choice and [choice.prediction.tolist(), choice.radius.tolist(), list(choice.methods)]
    return found


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("name", NETWORKS)
def test_radii_are_those_on_record(name: str, norm: Norm) -> None:
    record = json.loads(RECORD.read_text())[f"{name} {norm}"]
    found = measured(name, norm)
    assert set(found) == set(record)
    for method, recorded in record.items():
        here = found[method]
        assert (here is None) == (recorded is None), method
        if here is not None:
            assert [here[0], here[2]] == [recorded[0], recorded[2]], method
            exact = method in (*BOUNDS, "complete", "smoothing")
            assert here[1] == (recorded[1] if exact else pytest.approx(recorded[1], rel=1e-12, abs=0)), method


if __name__ == "__main__":
    norms: tuple[Norm, ...] = ("l1", "l2", "linf")
    print(json.dumps({f"{name} {norm}": measured(name, norm) for name in NETWORKS for norm in norms}, indent=1))
