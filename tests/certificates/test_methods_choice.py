"""The strongest certificate of each point: which method proves it, at what cost, and what was left out."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from radii.bounds.provably_robust import Bounded
from radii.certificates import bound_certificate, lipschitz
from radii.certificates.choose import certify, choose, passes_needed
from radii.certificates.margin import trained_bound
from radii.errors import InputError
from radii.models.zoo.lipschitz_networks import LipschitzConvNet
from radii.threat import Ball


def dense(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3)).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(2 * torch.randn_like(parameter))
    return net


def inputs(n: int = 60) -> Tensor:
    return torch.rand(n, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layer", ["aol", "cpl"])
def test_a_lipschitz_network_gets_its_margin(layer: str) -> None:
    """A quick bound of many residual layers is loose, but CROWN does not know them and the proof is tight."""
    torch.manual_seed(0)
    net = LipschitzConvNet((1, 8, 8), 4, width=4, layer=layer).eval()
    with torch.no_grad():
        net(torch.rand(2, 1, 8, 8))
    assert trained_bound(net, (1, 8, 8))
    found = choose(net, torch.rand(4, 1, 8, 8), Ball("l2", 0.01)).certificate
    assert found is not None
    assert set(found.methods) <= {"margin", ""}


@pytest.mark.parametrize("threat", ["linf:0.02", "l2:0.05"])
def test_each_point_gets_its_largest_radius_and_says_by_what(threat: str) -> None:
    model, x, ball = dense(), inputs(), Ball.parse(threat)
    chosen = choose(model, x, ball)
    found = chosen.certificate
    assert found is not None
    assert not chosen.refusals
    assert found.norm == ball.norm
    best = bound_certificate.certify(model, x, [ball.radius], ball.norm, "alpha-crown").radius
    assert bool((found.radius >= best).all())
    assert all((name != "") == (radius > 0) for name, radius in zip(found.methods, found.radius.tolist(), strict=True))
    if ball.norm == "l2":
        assert bool((found.radius >= lipschitz.certify(model, x).radius).all())
    assert len(set(found.methods)) >= 2


def test_a_budget_leaves_methods_out_and_says_so() -> None:
    chosen = choose(dense(), inputs(), Ball("linf", 0.02), passes=10)
    assert chosen.certificate is not None
    assert set(chosen.certificate.methods) <= {"margin", "ibp", ""}
    assert any("crown-ibp: it takes up to" in line for line in chosen.refusals)


def test_costs_grow_with_the_method() -> None:
    bounded, x, ball = Bounded(dense(), (8,)), inputs(), Ball("linf", 0.1)
    costs = [passes_needed(bounded, x, ball, method) for method in ("ibp", "crown-ibp", "crown", "alpha-crown")]
    assert all(bool((less <= more).all()) for less, more in pairwise(costs))
    assert len({int(cost.sum()) for cost in costs}) == 4


def test_only_neurons_whose_sign_is_open_cost_a_proof() -> None:
    """Counted beside brute force; a point that others cannot afford is still tried."""
    model, x = dense(), inputs()
    bounded = Bounded(model, (8,))
    small, large = (passes_needed(bounded, x, Ball("linf", radius), "crown") for radius in (1e-6, 0.3))
    hidden = model[:3](x)  # at a radius of almost nothing no sign of the second hidden layer is open
    assert bool((hidden.abs() > 1e-3).all())
    assert small.tolist() == [8 + 2 * 3] * len(x)
    assert bool((large > small).any())
    assert int(large.max()) <= 8 + 2 * 3 + 2 * hidden.shape[1]
    costs = passes_needed(bounded, x, Ball("linf", 0.2), "alpha-crown")
    assert int(costs.min()) < int(costs.max())
    allowed = int(costs.median()) + 100  # intervals and CROWN come first
    chosen = choose(model, x, Ball("linf", 0.2), passes=allowed, last="alpha-crown")
    assert any("alpha-crown" in line and "points" in line for line in chosen.refusals)
    alone = [choose(model, x[i : i + 1], Ball("linf", 0.2), passes=allowed, last="alpha-crown") for i in range(len(x))]
    assert chosen.certificate is not None
    radii = [float(one.certificate.radius) for one in alone if one.certificate is not None]
    assert radii == pytest.approx(
        chosen.certificate.radius.tolist(), rel=1e-9
    )  # no point's proof depends on the others


def test_nothing_fits() -> None:
    model = nn.Sequential(nn.Linear(8, 3), nn.Hardshrink()).eval()
    chosen = choose(model, inputs(4), Ball("linf", 0.1))
    assert chosen.certificate is None
    assert [line.split(":")[0] for line in chosen.refusals] == ["margin", "bounds"]
    with pytest.raises(InputError, match="No deterministic certificate fits"):
        certify(model, inputs(4), norm="linf")


def test_a_threat_is_text_or_a_ball() -> None:
    model, x = dense(), inputs(20)
    spoken, ball = certify(model, x, threat="linf:0.02"), certify(model, x, threat=Ball("linf", 0.02))
    assert torch.equal(spoken.radius, ball.radius)
    named = certify(model, x, "ibp", norm="linf", radii=[0.02])
    assert bool((named.radius <= spoken.radius).all())


def test_every_method_certifies_the_function_that_runs() -> None:
    """No attack in float32 breaks what was chosen."""
    from radii.attacks.pgd import PGD

    model, x, ball = dense(), inputs(), Ball("linf", 0.05)
    found = choose(model, x, ball).certificate
    assert found is not None
    rows = found.covers(ball.radius)
    assert bool(rows.any())
    result = PGD(40, 0.1)(model, x[rows], found.prediction[rows], ball, torch.Generator().manual_seed(0))
    assert not bool(result.broken.any())
