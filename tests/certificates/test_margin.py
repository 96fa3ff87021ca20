"""Margin certificates: exact where the truth is known, and never broken by any attack."""

from __future__ import annotations

import copy
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn

from radii.certificates.lipschitz import DifferenceError, certify, logits_with_error, margin_radius
from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.lipschitz.network_bound import certified_network, lipschitz_bound, pair_norms
from radii.models.lipschitz.rounding_error import Float32Error
from radii.models.zoo.lipschitz_networks import LipschitzConvNet


def orthogonal(size: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(seed)).double())[0]


def linear(weight: Tensor) -> nn.Sequential:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False).to(weight)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return nn.Sequential(layer)


@pytest.mark.parametrize("form", ["pairwise", "sqrt2"])
def test_the_radius_of_an_orthogonal_map_is_exact(form: str) -> None:
    """At 0.9999 of it nothing flips; at 1.0001 in the worst direction everything does (Eq. 5 is tight)."""
    model = linear(orthogonal(6))
    x = torch.rand(200, 6, generator=torch.Generator().manual_seed(1)).double()
    found = certify(model, x, form=form, arithmetic="exact")
    logits = model(x)
    top = logits.topk(2, dim=1)
    torch.testing.assert_close(found.radius, (top.values[:, 0] - top.values[:, 1]) / 2**0.5, rtol=1e-5, atol=0)
    weight = model[0].weight.detach()
    direction = weight[top.indices[:, 1]] - weight[top.indices[:, 0]]
    direction /= direction.norm(dim=1, keepdim=True)
    inside = model(x + 0.9999 * found.radius[:, None] * direction).argmax(1)
    outside = model(x + 1.0001 * found.radius[:, None] * direction).argmax(1)
    assert bool((inside == found.prediction).all())
    assert bool((outside != found.prediction).all())


def test_the_pairwise_form_is_exact_for_any_linear_map() -> None:
    weight = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).double()
    x = torch.rand(50, 5, generator=torch.Generator().manual_seed(1)).double()
    found = certify(linear(weight), x, arithmetic="exact")
    logits = x @ weight.T
    own = logits.argmax(1)
    distance = (logits.gather(1, own[:, None]) - logits) / (weight[own][:, None] - weight).norm(dim=2)
    distance.scatter_(1, own[:, None], torch.inf)
    torch.testing.assert_close(found.radius, distance.amin(1), rtol=1e-9, atol=0)
    assert bool((found.radius <= distance.amin(1)).all())
    assert bool((certify(linear(weight), x, form="sqrt2", arithmetic="exact").radius <= found.radius).all())


def test_ties_and_nan_are_never_certified() -> None:
    logits = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [torch.nan, 1.0, 0.0], [2.0, 1.0, 0.0]]).double()
    prediction, radius = margin_radius(logits, torch.zeros(4).double(), torch.ones(3, 3).double())
    assert prediction.tolist() == [0, 0, -1, 0]
    assert radius[:3].tolist() == [0.0, 0.0, 0.0]
    assert 0 < float(radius[3]) <= 1.0


def test_errors_shrink_the_radius() -> None:
    model, x = linear(orthogonal(4)), torch.rand(20, 4).double()
    exact = certify(model, x, arithmetic="exact")
    slack = certify(model, x, arithmetic="exact", evaluation_error=1e-3)
    expected = (exact.radius - 2e-3 / 2**0.5).clamp_min(0)
    torch.testing.assert_close(slack.radius, expected, rtol=1e-5, atol=1e-9)
    assert any("within 0.001" in line for line in slack.assumptions)


def test_a_radius_ends_where_a_sum_may_overflow() -> None:
    logits, zero = torch.tensor([[2.0, 0.0]]).double(), torch.zeros(1).double()
    deployed = DifferenceError(torch.zeros(1, 2, 2).double(), torch.zeros(2, 2).double(), torch.tensor([0.25]).double())
    assert margin_radius(logits, zero, torch.ones(2, 2).double(), deployed)[1].tolist() == [0.25]


def test_what_is_lost_before_the_last_layer_moves_its_differences() -> None:
    """By at most the pair's norm; what that layer and the distance add comes on top."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    bound, x = lipschitz_bound(model, (3,)), torch.rand(2, 4).double()
    before = Float32Error(torch.tensor([0.5, 2.0]).double(), 0.25, torch.ones(2).double())
    behind = Float32Error(torch.ones(2).double(), 1.0, torch.tensor([3.0, 4.0]).double())
    head = certified_network(model, (3,))[-1]
    error = DifferenceError.of(head, bound, x, before, behind)
    assert (error.fixed >= bound.pairs * torch.tensor([0.5, 2.0])[:, None, None].double()).all()
    assert (error.slope >= bound.pairs * 0.25).all()
    assert error.most.tolist() == [3.0, 4.0]


def test_norms_of_pairs_are_rounded_up() -> None:
    weight = torch.randn(12, 7, generator=torch.Generator().manual_seed(0)).double() ** 5
    rows = [[Fraction(value) for value in row] for row in weight.tolist()]
    for one, found in zip(rows, pair_norms(weight).tolist(), strict=True):
        for other, norm in zip(rows, found, strict=True):
            square = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
            assert square <= Fraction(norm) ** 2 <= square * (1 + Fraction(1, 10**12))


def small_network(seed: int = 0, classes: int = 4) -> nn.Module:
    net = LipschitzConvNet((1, 8, 8), classes, width=4, depth=1)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return Classifier(net, mean=0.5).eval()


def test_the_running_error_covers_exact_arithmetic() -> None:
    """Against the same logits in rational arithmetic of a small network: sums of 53-bit fractions."""
    weight = torch.randn(3, 40, generator=torch.Generator().manual_seed(3)).double()
    model = linear(weight)
    x = torch.rand(5, 40, generator=torch.Generator().manual_seed(4)).double()
    bound = lipschitz_bound(model, (40,))
    logits, error, _ = logits_with_error(certified_network(model, (40,)), bound, x)
    for row in range(5):
        exact = [
            sum(Fraction(float(w)) * Fraction(float(v)) for w, v in zip(line, x[row], strict=True)) for line in weight
        ]
        off = sum((Fraction(float(a)) - b) ** 2 for a, b in zip(logits[row].detach(), exact, strict=True))
        assert off <= Fraction(float(error[row])) ** 2
    assert float(error.max()) < 1e-11


def test_certificates_are_deterministic_and_say_what_they_assume() -> None:
    model, x = small_network(), torch.rand(8, 1, 8, 8)
    first, second = certify(model, x, batch_size=3), certify(model, x)
    torch.testing.assert_close(first.radius, second.radius, rtol=1e-9, atol=1e-12)
    assert first.kind == "deterministic"
    assert first.norm == "l2"
    assert first.radius.dtype == torch.float64
    assert any("1x8x8" in line for line in first.assumptions)
    assert bool((first.prediction == model(x).argmax(1)).all())


def test_stale_bounds_and_bad_inputs_are_refused() -> None:
    model, x = small_network(), torch.rand(2, 1, 8, 8)
    bound = lipschitz_bound(model, (1, 8, 8))
    certify(model, x, bound)
    certify(copy.deepcopy(model), x, bound)  # equal weights are the same network
    with pytest.raises(InputError, match="holds for inputs of shape"):
        certify(model, torch.rand(2, 1, 9, 8), bound)
    with torch.no_grad():
        next(model.parameters()).mul_(1.01)
    with pytest.raises(InputError, match="other weights"):
        certify(model, x, bound)
    with pytest.raises(InputError, match="form must be"):
        certify(model, x, form="tight")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="evaluation_error"):
        certify(model, x, evaluation_error=-1.0)
    with pytest.raises(InputError, match="floating point"):
        certify(model, (x * 255).byte())


def l2_attack(model: nn.Module, x: Tensor, own: Tensor, radius: Tensor, steps: int = 20) -> Tensor:
    """Projected gradient on the smallest margin, normalized steps, inside each point's own radius."""
    reach = radius.view(-1, 1, 1, 1)
    delta = torch.randn_like(x)
    delta *= reach / delta.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    for _ in range(steps):
        delta.requires_grad_()
        logits = model(x + delta)
        masked = logits.scatter(1, own[:, None], -torch.inf)
        gap = masked.amax(1) - logits.gather(1, own[:, None])[:, 0]
        (gradient,) = torch.autograd.grad(gap.sum(), delta)
        gradient /= gradient.flatten(1).norm(dim=1).clamp_min(1e-30).view(-1, 1, 1, 1)
        delta = delta.detach() + 0.3 * reach * gradient
        delta *= (reach / delta.flatten(1).norm(dim=1).clamp_min(1e-30).view(-1, 1, 1, 1)).clamp_max(1.0)
    return x + delta


def test_no_certified_prediction_changes_inside_its_radius() -> None:
    """100,000 (point, direction) pairs and a gradient attack, in float64, at 0.999 of each radius."""
    model = small_network().double()
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(1000, 1, 8, 8, generator=generator, dtype=torch.float64)
    found = certify(model, x)
    assert float((found.radius > 0).double().mean()) > 0.99
    reach = 0.999 * found.radius
    network = certified_network(model, (1, 8, 8))
    with torch.no_grad():
        for _ in range(100):
            step = torch.randn(x.shape, generator=generator, dtype=torch.float64)
            step *= (reach / step.flatten(1).norm(dim=1)).view(-1, 1, 1, 1)
            assert bool((network(x + step).argmax(1) == found.prediction).all())
    attacked = l2_attack(network, x, found.prediction, reach)
    assert bool((network(attacked).argmax(1) == found.prediction).all())
    beyond = l2_attack(network, x, found.prediction, 30 * found.radius)  # the attack is no straw man
    assert float((network(beyond).argmax(1) != found.prediction).double().mean()) > 0.5
