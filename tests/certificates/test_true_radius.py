"""Complete certificates and brackets of the true radius, against the exact radius of networks that have one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from radii.certificates.choose import certify
from radii.certificates.complete.true_radius import true_radii
from radii.errors import InputError


def hinge() -> nn.Module:
    """Class 1 beyond |x_0 - 0.5| + |x_1 - 0.5| = 0.4: the Linf radius at the middle is 0.2."""
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        model[0].bias.copy_(torch.tensor([-0.5, 0.5, -0.5, 0.5]))
        model[2].weight.copy_(torch.tensor([[0.0] * 4, [1.0] * 4]))
        model[2].bias.copy_(torch.tensor([0.4, 0.0]))
    return model


def test_brackets_close_on_the_exact_radius() -> None:
    x = torch.tensor([[0.5, 0.5], [0.6, 0.5], [0.5, 0.2], [0.1, 0.1]])
    exact = torch.tensor([0.2, 0.15, 0.05, 0.2]).double()
    found = true_radii(hinge(), x, 0.4, seconds=60, tolerance=0.01)
    assert found.prediction.tolist() == [0, 0, 0, 1]
    assert found.known(0.01).all()
    assert (found.proved <= exact + 1e-6).all()
    assert (found.broken >= exact - 1e-6).all()
    assert (found.broken - found.proved <= 0.01 * found.broken).all()


def test_complete_proves_what_bounds_cannot() -> None:
    x = torch.tensor([[0.5, 0.5], [0.6, 0.5]])
    radii = (0.1, 0.149, 0.199, 0.201)
    found = certify(hinge(), x, "complete", norm="linf", radii=radii)
    assert found.radius.tolist() == [0.199, 0.149]
    assert found.kind == "deterministic"
    bounds = certify(hinge(), x, "crown", norm="linf", radii=radii)
    assert (bounds.radius <= found.radius).all()


def test_a_deeper_network_has_no_sample_below_its_radius() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)).eval()
    x = torch.rand(3, 30)
    found = true_radii(model, x, 0.5, seconds=30)
    assert (found.proved <= found.broken).all()
    assert (found.proved > 0).any()
    for i in range(3):
        step = (torch.rand(4000, 30) * 2 - 1) * float(found.proved[i])
        around = (x[i] + step).clamp(0, 1)
        assert (model(around).argmax(1) == found.prediction[i]).all()


def test_l2_balls_are_refused() -> None:
    with pytest.raises(InputError, match="linf"):
        certify(hinge(), torch.rand(1, 2), "complete", norm="l2", radii=(0.1,))
