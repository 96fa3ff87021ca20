"""Slopes that are ascended, of hidden values too: gradients against autograd, bounds against sampled values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.nn import functional as F

from radii.bounds.alpha_crown import hidden_ascent, lower_with_slopes, raised
from radii.bounds.bound_engine import Engine
from radii.bounds.regions import Domain, least, lowest_input
from radii.networks.read_torch import read_torch


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 12), nn.Linear(12, 12), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        return self.last(h + F.leaky_relu(self.second(h), 0.1))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3)
    )


def mixed() -> nn.Module:
    """Max pooling and tanh between the ReLUs: lines of their own, without slopes."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, padding=1), nn.Tanh(),
        nn.Flatten(), nn.Linear(36, 9), nn.ReLU(), nn.Linear(9, 3),
    )  # fmt: skip


NETWORKS = {"branching": (Branching, (5,)), "images": (images, (1, 6, 6)), "mixed": (mixed, (1, 6, 6))}


def made(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Engine]:
    factory, shape = NETWORKS[name]
    torch.manual_seed(1)
    model = factory().eval()
    with torch.no_grad():
        return model, Engine(read_torch(model, shape, dtype))


def region(engine: Engine, radius: float | None = None) -> Domain:
    size = engine.program.sizes[0]
    center = torch.rand(1, size, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    if radius is None:
        return Domain(center - 0.6, center + 0.6)
    return Domain((center - 0.15).clamp(0, 1), (center + 0.15).clamp(0, 1), center, radius)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("radius", [None, 0.3])
def test_gradients_are_those_of_autograd(name: str, radius: float | None) -> None:
    _, engine = made(name)
    with torch.no_grad():
        known = engine.bounds(region(engine, radius))
    rows = torch.randn(4, 3, dtype=torch.float64)
    alphas = {}
    for place in engine.relus:
        source = engine.program.steps[place].inputs[0]
        shape = (4, engine.program.sizes[source])
        alphas[place] = 0.2 + 0.6 * torch.rand(shape, dtype=torch.float64)
    betas = {engine.program.steps[place].inputs[0]: torch.randn_like(value) for place, value in alphas.items()}
    met = lower_with_slopes(engine, known, engine.program.output, rows, None, alphas, betas)
    leaves = {place: value.clone().requires_grad_() for place, value in alphas.items()}
    extra = {source: value.clone().requires_grad_() for source, value in betas.items()}
    first = rows.clone().requires_grad_()
    bound = engine.lower(known, engine.program.output, first, None, leaves, extra)
    torch.testing.assert_close(met.bound, bound.detach())
    bound.sum().backward()
    for place, value in leaves.items():
        assert value.grad is not None
        torch.testing.assert_close(met.by_alpha[place], value.grad, rtol=1e-3, atol=1e-4)  # but for the rounding errors
    for source, value in extra.items():
        assert value.grad is not None
        torch.testing.assert_close(met.values[source], value.grad, rtol=1e-3, atol=1e-4)
    assert first.grad is not None
    torch.testing.assert_close(met.values[engine.program.output], first.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_ascended_hidden_bounds_hold_and_are_no_looser(name: str, dtype: torch.dtype) -> None:
    model, engine = made(name, dtype)
    domain = region(engine)
    plain, fine = engine.bounds(domain), engine.bounds(domain, refine=hidden_ascent(engine, 20))
    tighter = 0
    x = domain.lower + (domain.upper - domain.lower) * torch.rand(4000, engine.program.sizes[0]).double()
    values = engine.program.values(x.to(dtype))
    for number in engine.program.steps:
        assert bool((values[number] >= fine.lower[number] - 1e-5).all())
        assert bool((values[number] <= fine.upper[number] + 1e-5).all())
        if number in engine.bent and number in engine.behind:
            width = [(known.upper[number] - known.lower[number]).sum() for known in (plain, fine)]
            tighter += int(width[1] < width[0])
    assert tighter
    specs = torch.tensor([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]], dtype=dtype)
    output = engine.program.output
    crown = engine.lower(plain, output, specs.clone())
    alpha = raised(engine, fine, output, specs, None, 20, until=torch.inf)
    assert bool((alpha >= crown - 1e-6).all())
    logits = model(x.float().view(-1, *NETWORKS[name][1])).double()
    assert bool(((logits @ specs.double().T).amin(0) >= alpha).all())


@torch.no_grad()
def test_slopes_of_a_ball_cut_by_its_box_are_least_there() -> None:
    generator = torch.Generator().manual_seed(0)
    center = torch.rand(3, 7, dtype=torch.float64, generator=generator)
    domain = Domain((center - 0.4).clamp_min(0), (center + 0.4).clamp_max(1), center, 0.45)
    A = torch.randn(3, 7, dtype=torch.float64, generator=generator)
    dom = torch.arange(3)
    bound, x = least(A, domain, dom), lowest_input(A, domain, dom)
    for row in range(3):
        low, high, c = (value[row].numpy() for value in (domain.lower, domain.upper, center))
        found = minimize(
            lambda v, row=row: float(A[row].numpy() @ v),
            c,
            bounds=list(zip(low, high, strict=True)),
            constraints=[{"type": "ineq", "fun": lambda v, c=c: 0.45**2 - float(((v - c) ** 2).sum())}],
            options={"ftol": 1e-12},
        )
        assert float(bound[row]) <= found.fun + 1e-9
        assert float(bound[row]) == pytest.approx(found.fun, abs=1e-4)
        assert float(A[row] @ x[row]) == pytest.approx(found.fun, abs=1e-4)
        assert np.linalg.norm(x[row].numpy() - c) <= 0.45 * (1 + 1e-6)
