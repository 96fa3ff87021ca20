"""Complete certificates and brackets of the true radius, against the exact radius of networks that have one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import radii
from radii.bounds.bound_engine import Engine
from radii.bounds.regions import Domain, least
from radii.certificates.choose import certify, choose
from radii.networks.operations.pooling import MaxPool
from radii.networks.read_torch import read_torch
from radii.threat import Ball
from radii.verification._pooling_as_relus import without_pools
from radii.verification.true_radius import RadiusBracket, true_radii


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


def test_l2_brackets_close_on_the_exact_radius() -> None:
    x = torch.tensor([[0.5, 0.5], [0.6, 0.5]])
    exact = torch.tensor([0.4, 0.3]).double() / 2**0.5  # to the nearest side of the diamond
    found = true_radii(hinge(), x, 0.6, norm="l2", seconds=60, tolerance=0.02)
    assert found.known(0.02).all()
    assert (found.proved <= exact + 1e-6).all()
    assert (found.broken >= exact - 1e-6).all()
    away = (found.nearest - x).double().norm(dim=1)
    assert (away <= found.broken * (1 + 1e-5)).all()
    assert (hinge()(found.nearest).argmax(1) == 1).all()


def test_a_start_is_never_made_worse() -> None:
    x = torch.tensor([[0.5, 0.5], [0.6, 0.5]])
    ends = torch.tensor([0.1, 0.149]).double(), torch.tensor([0.21, 0.151]).double()
    start = RadiusBracket(torch.zeros(2, dtype=torch.int64), *ends, x)
    found = true_radii(hinge(), x, 0.4, seconds=60, start=start)
    assert (found.proved >= ends[0]).all()
    assert (found.broken <= ends[1]).all()
    assert found.known(0.02).all()
    assert found.summary(0.02)["known"] == 2


def test_pooling_is_written_with_relus_and_gives_the_same_values() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(3, 1), nn.Flatten())
    x = torch.rand(1, 1, 8, 8)
    with torch.no_grad():
        engine = Engine(without_pools(read_torch(model.eval(), (1, 8, 8), torch.float64)))
        assert not any(isinstance(step, MaxPool) for step in engine.program.steps.values())
        known = engine.intervals(Domain(x.double().flatten(1), x.double().flatten(1)))
        low, high = known.lower[engine.program.output], known.upper[engine.program.output]
        assert (low <= model(x)).all()
        assert (model(x) <= high).all()
        assert float((high - low).max()) < 1e-4


def test_a_pooled_network_is_proved_and_broken() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)).eval()
    x = torch.rand(2, 1, 6, 6)
    found = true_radii(model, x, 0.05, seconds=5, tolerance=0.2)
    assert (found.proved > 0).any()
    for i in range(2):
        around = (x[i] + (torch.rand(4000, 1, 6, 6) * 2 - 1) * float(found.proved[i])).clamp(0, 1)
        assert (model(around).argmax(1) == found.prediction[i]).all()
        if found.broken[i] < torch.inf:
            assert int(model(found.nearest[i : i + 1]).argmax()) != int(found.prediction[i])


def test_the_choice_spends_what_is_left_on_complete_verification() -> None:
    x = torch.tensor([[0.5, 0.5], [0.6, 0.5], [0.5, 0.2]])
    ball, radii = Ball("linf", 0.199), (0.04, 0.149, 0.199)
    bounds = choose(hinge(), x, ball, radii=radii).certificate
    found, again = (choose(hinge(), x, ball, radii=radii, last="complete").certificate for _ in range(2))
    assert bounds is not None
    assert found is not None
    assert again is not None
    assert found.radius.tolist() == [0.199, 0.149, 0.04]
    assert (found.radius >= bounds.radius).all()
    assert (found.radius == again.radius).all()
    assert found.methods == again.methods
    poor = choose(hinge(), x, ball, radii=radii, last="complete", passes=200)
    assert any("complete" in refusal for refusal in poor.refusals)


def test_lines_over_a_ball_that_its_box_cuts() -> None:
    generator = torch.Generator().manual_seed(0)
    center = torch.rand(1, 5, generator=generator).double()
    domain = Domain(torch.zeros(1, 5).double(), torch.ones(1, 5).double(), center, 0.6)
    rows = torch.randn(20, 5, generator=generator).double()
    bound = least(rows, domain, torch.zeros(20, dtype=torch.int64))
    points = torch.rand(400_000, 5, generator=generator).double()
    points = points[(points - center).norm(dim=1) <= 0.6]
    smallest = (points @ rows.T).amin(0)
    assert (bound <= smallest).all()
    assert (smallest - bound < 0.25).all()
    alone = rows @ center[0] - 0.6 * rows.norm(dim=1)
    corners = (rows.clamp_max(0)).sum(1)
    assert (bound >= torch.maximum(alone, corners) - 1e-9).all()
    assert (bound > torch.maximum(alone, corners) + 1e-3).any()


class Steps(nn.Module):
    """A layer of steps, which has no gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.round(4 * x) / 4


class Overwriting(nn.Module):
    """A ReLU, whose output is overwritten in place although its gradient needs it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).clamp_(min=0)


@pytest.mark.parametrize("features", [3, 24])
@pytest.mark.parametrize("bend", [Steps(), nn.Hardtanh(-0.2, 0.2), Overwriting()])
def test_networks_without_gradient_or_relu_are_bounded_or_left_open(features: int, bend: nn.Module) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(features, 8), bend, nn.Linear(8, 3)).eval().requires_grad_(False)
    x = torch.rand(4, features)
    found = certify(model, x, "complete", norm="linf", radii=(0.001, 0.01, 0.1), seconds=2)
    assert (found.radius > 0).any()
    for i, radius in enumerate(found.radius.tolist()):
        around = (x[i] + (torch.rand(4000, features) * 2 - 1) * radius).clamp(0, 1)
        assert (model(around).argmax(1) == found.prediction[i]).all()


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_radius_on_the_boundary_of_a_linear_network_is_left_open(norm: str, hidden: bool) -> None:
    """There is no sign to fix and no bound to prove: neither a certificate nor a crash."""
    layers = [nn.Linear(2, 2, bias=False), nn.ReLU()] if hidden else []
    network = nn.Sequential(*layers, nn.Linear(2, 2, bias=False)).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.eye(2))
    x = torch.tensor([[0.6, 0.4]])
    truth = 0.2 / 2**0.5 if norm == "l2" else 0.1
    for factor, proved in ((0.99, True), (1 - 1e-9, False), (1.0, False), (1.01, False)):
        certificate = radii.certify(
            network,
            x,
            "complete",
            norm=norm,
            radii=(truth * factor,),
            seconds=5,
            outputs="logits",  # type: ignore[arg-type]
        )
        assert bool(certificate.radius[0] > 0) == proved, (factor, certificate.radius)
