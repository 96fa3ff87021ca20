"""Margins of networks that branch and join: against exact norms, closed forms, and attacks inside the radius."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.attacks.pgd import PGD
from radii.bounds.provably_robust import Bounded
from radii.certificates import _graph_margin as graph_margin
from radii.certificates import lipschitz
from radii.certificates.choose import certify, choose
from radii.errors import InputError
from radii.models.lipschitz.rounding_error import Float32Error
from radii.threat import Ball


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.3 * self.second(F.relu(self.norm(self.first(x))))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.head = nn.Linear(4 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.max_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(3)
    net = Residual()
    with torch.no_grad():
        net(torch.rand(64, 1, 8, 8))  # running statistics
    return net.eval()


def test_a_residual_network_has_margins_that_no_attack_enters(model: nn.Module) -> None:
    x = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with pytest.raises(InputError):
        lipschitz.certify(model, x)
    certificate = graph_margin.certify(model, x)
    assert certificate.kind == "deterministic"
    assert bool((certificate.radius > 0).all())
    labels = model(x).argmax(1)
    assert torch.equal(certificate.prediction, labels)
    for i, radius in enumerate(certificate.radius.tolist()):
        ball = Ball("l2", radius * 0.999, None)
        result = PGD(steps=40)(model, x[i : i + 1], labels[i : i + 1], ball, torch.Generator().manual_seed(0))
        assert not bool(result.broken.any())


def test_the_constant_bounds_every_pair_of_inputs(model: nn.Module) -> None:
    constant = graph_margin.graph_constant(model, (1, 8, 8))
    exact = model.double().requires_grad_(False)
    first = torch.rand(200, 1, 8, 8, dtype=torch.float64)
    second = first + 1e-4 * torch.randn_like(first)
    ratio = (exact(first) - exact(second)).norm(dim=1) / (first - second).flatten(1).norm(dim=1)
    assert float(ratio.max()) <= constant
    looser = graph_margin.graph_constant(model.float(), (1, 8, 8), prove=False)
    assert constant <= looser * (1 + 1e-9)


class Twice(nn.Module):
    """x -> V (W x + 2 x), whose constant is |V| |W + 2| and whose bound by parts |V| (|W| + 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6, bias=False)
        self.head = nn.Linear(6, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x) + 2 * x)


def test_a_sum_adds_constants_and_a_matrix_multiplies_by_its_norm() -> None:
    torch.manual_seed(0)
    model = Twice().eval()
    norms = [float(torch.linalg.matrix_norm(layer.weight.double(), 2)) for layer in (model.inner, model.head)]
    constant = graph_margin.graph_constant(model, (6,))
    assert constant == pytest.approx(norms[1] * (norms[0] + 2), rel=1e-5)
    assert constant >= norms[1] * (norms[0] + 2)


def test_sequences_get_about_the_same_margins_either_way() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4)).eval()
    x = torch.rand(10, 16)
    layered, graph = lipschitz.certify(model, x), graph_margin.certify(model, x)
    torch.testing.assert_close(graph.radius, layered.radius, rtol=1e-3, atol=1e-6)


def test_margins_of_residual_networks_are_chosen(model: nn.Module) -> None:
    x = torch.rand(4, 1, 8, 8)
    assert certify(model, x, "margin").method == "lipschitz-margin-graph"
    chosen = choose(model, x, Ball("l2", 1e-4), last="ibp").certificate
    assert chosen is not None
    assert "margin" in chosen.methods


def test_a_layer_without_a_constant_is_refused_by_name() -> None:
    class Product(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x

    with pytest.raises(InputError):
        graph_margin.certify(Product(), torch.rand(2, 3))


class Sides(nn.Module):
    """Two matrices side by side, added."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(30, 4), nn.Linear(30, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) + self.other(x)


@torch.no_grad()
def test_the_float64_evaluation_is_within_its_own_error() -> None:
    """By fractions, for a matrix and for a sum of two: no more is lost than is said."""
    torch.manual_seed(0)
    x = torch.randn(20, 30) ** 5  # no grid on which float64 sums would be exact
    for model in (nn.Linear(30, 4), Sides()):
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) ** 5)
        program = Bounded(model, (30,)).exact
        norms = {number: graph_margin._bounds_of(step, True) for number, step in program.steps.items()}
        value = graph_margin._values(program, norms, x.double())[program.output]
        layers = [model] if isinstance(model, nn.Linear) else [model.one, model.other]
        for row, at, own in zip(x.tolist(), value.at.tolist(), value.own.tolist(), strict=True):
            off = []
            for k, computed in enumerate(at):
                exact = sum((Fraction(layer.bias[k].item()) for layer in layers), Fraction(0))
                for layer in layers:
                    exact += sum(Fraction(w) * Fraction(v) for w, v in zip(layer.weight[k].tolist(), row, strict=True))
                off.append(float(abs(exact - Fraction(computed))))
            assert sum(own_off**2 for own_off in off) ** 0.5 <= own
            assert own < 1e-9


def test_two_logits_may_be_off_in_opposite_ways() -> None:
    """An L2 error of e is at most sqrt(2) e of a difference, at the input and as it grows with the distance."""
    one = torch.ones(1, dtype=torch.float64)
    error = graph_margin._difference(Float32Error(0.3 * one, 0.7, 9 * one), torch.ones(3, 3, dtype=torch.float64))
    assert (error.fixed >= 0.3 * 2**0.5).all()
    assert (error.slope >= 0.7 * 2**0.5).all()
    assert error.most.tolist() == [9.0]
