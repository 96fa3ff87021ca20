"""Proofs in L1 balls and in balls with scales: closed forms, linear programs, samples and attacks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

import radii
from radii.attacks.minimum_norm import MinimumNorm
from radii.bounds.provably_robust import Bounded, domain_of
from radii.bounds.regions import least, lowest_input
from radii.feature_limits import FeatureLimits
from radii.randomness import stream
from radii.threat import Ball, Norm, radius_in

SCALE = (2.0, 0.5, 1.0, 3.0)
NORMS: list[Norm] = ["l1", "l2", "linf"]
DUAL = {"l1": float("inf"), "l2": 2.0, "linf": 1.0}


def network(seed: int = 0, classes: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, classes)).eval()
    with torch.no_grad():
        model[-1].bias -= model(torch.rand(200, 4)).mean(0)  # several classes
    return model


@pytest.mark.parametrize("scale", [(), SCALE])
@pytest.mark.parametrize("fixed", [(), (2,)])
def test_the_least_of_a_line_is_that_of_a_linear_program(scale: tuple[float, ...], fixed: tuple[int, ...]) -> None:
    """Variables x and t with |x - c| <= scale t and sum of t <= r, solved by HiGHS."""
    generator = torch.Generator().manual_seed(1)
    x, A = torch.rand(1, 4, generator=generator), torch.randn(40, 4, generator=generator, dtype=torch.float64)
    for radius in (0.05, 0.4, 3.0):
        ball = Ball("l1", radius, (0.0, 1.0), fixed, scale)
        domain = domain_of(x, ball)
        own, where = least(A, domain, None), lowest_input(A, domain, torch.zeros(40, dtype=torch.int64))
        size, center = np.diag(scale or np.ones(4)), x[0].double().numpy()
        rows = np.block([[np.eye(4), -size], [-np.eye(4), -size], [np.zeros(4), np.ones(4)]])
        ends = [(c, c) if place in fixed else (0.0, 1.0) for place, c in enumerate(center)]
        for row, bound, point in zip(A.numpy(), own.tolist(), where.double().numpy(), strict=True):
            limits = np.concatenate([center, -center, [radius]])
            answer = linprog([*row, *np.zeros(4)], rows, limits, bounds=ends + [(0, None)] * 4)
            assert answer.fun - 1e-6 <= bound <= answer.fun + 1e-9
            assert row @ point == pytest.approx(answer.fun, abs=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("method", ["ibp", "crown-ibp", "crown"])
def test_a_linear_network_is_proved_up_to_its_exact_radius(norm: Norm, method: str) -> None:
    """|z_y - z_c| over the dual norm of the scaled difference of weights."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 3)).eval(), torch.rand(20, 4)
    weight, scale = model[0].weight.detach().double(), torch.tensor(SCALE).double()
    logits = x.double() @ weight.T + model[0].bias.detach().double()
    own = logits.argmax(1)
    gaps = logits.gather(1, own[:, None]) - logits
    slopes = ((weight[own][:, None] - weight[None]) * scale).norm(p=DUAL[norm], dim=2)
    exact = torch.where(gaps > 0, gaps / slopes, torch.inf).amin(1)
    bounded = Bounded(model, (4,))
    for place in range(20):
        for share, proved in ((0.999, True), (1.001, False)):
            ball = Ball(norm, float(exact[place]) * share, None, (), SCALE)
            assert bool(bounded.proves(x[place : place + 1], own[place : place + 1], ball, [method])) is proved


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [(), SCALE])
def test_bounds_hold_at_samples(norm: Norm, scale: tuple[float, ...]) -> None:
    model, x = network(), torch.rand(6, 4, generator=torch.Generator().manual_seed(2))
    bounded = Bounded(model, (4,))
    prediction = bounded.predict(x)
    limits = FeatureLimits(rising=(0,), ranges=((1, 0.2, 0.9),))
    for ball in (Ball(norm, 0.3, (0.0, 1.0), (), scale), Ball(norm, 0.3, None, (3,), scale, limits)):
        lowest = torch.full((6, 2), torch.inf)
        for draw in range(100):
            logits = model(ball.random_start(x, stream(draw, "samples"))).detach()
            others = [[c for c in range(3) if c != label] for label in prediction.tolist()]
            margins = logits.gather(1, prediction[:, None]) - logits.gather(1, torch.tensor(others))
            lowest = torch.minimum(lowest, margins)
        for method in ("ibp", "crown-ibp", "crown", "alpha-crown"):
            assert bool((bounded.margins(x, prediction, ball, method) <= lowest).all()), method


@pytest.mark.parametrize("norm", NORMS)
def test_brackets_close_in_scales(norm: Norm) -> None:
    """proved <= broken for every point, and complete verification with the attack's error as a start closes them."""
    model, x = network(3), torch.rand(4, 4, generator=torch.Generator().manual_seed(5))
    ball = Ball(norm, 0.2, (-4.0, 5.0), (1,), SCALE)
    scores = radii.evaluate(model, x, model(x).argmax(1), ball, suite="pgd", complete=20.0)
    points = scores.points
    assert bool((points.proved_radius <= points.changed_radius).all())
    known = np.isfinite(points.changed_radius)
    assert known.any()
    assert (points.proved_radius[known] >= 0.95 * points.changed_radius[known]).all()
    near = MinimumNorm().radii(model, x, model(x).argmax(1), ball, stream(0, "near"))
    assert bool((near.radius >= torch.from_numpy(points.proved_radius) - 1e-9).all())


def test_whole_features_make_the_broken_radius_whole() -> None:
    """One feature in whole steps: the attack ends at a whole number, and the proof over all numbers is below it."""
    model = nn.Sequential(nn.Linear(1, 2)).eval()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0], [0.0]]))
        model[0].bias.copy_(torch.tensor([0.0, 2.5]))
    x, y = torch.tensor([[0.0]]), torch.tensor([1])
    ball = Ball("linf", 4.0, None, limits=FeatureLimits(whole=(0,)))
    found = radii.attack(model, x, y, ball)
    assert bool(found.broken)
    assert float(found.x_adv) in (3.0, 4.0)
    assert not bool(radii.attack(model, x, y, ball.with_radius(2.9)).broken)
    nearest = MinimumNorm().radii(model, x, y, ball, stream(0, "whole"))
    assert float(nearest.radius) == 3.0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("source", NORMS)
def test_radii_in_scales_fit_inside_and_touch(norm: Norm, source: Norm) -> None:
    ball = Ball(norm, 1.0, None, (2,), SCALE)
    radius = float(radius_in(torch.tensor(2.0, dtype=torch.float64), source, ball, 4))
    scale = torch.tensor(SCALE).double()
    scale[2] = 0
    steps = torch.cat([torch.randn(5000, 4), torch.eye(4), scale[None], scale[None] ** 0.5]).double()
    steps = torch.cat([steps, scale[None] * scale[None]])
    steps[:, 2] = 0
    steps = steps[steps.abs().sum(1) > 0]
    largest = 0.0
    for step in steps:
        sized = step / step.norm(p={"l1": 1, "l2": 2, "linf": float("inf")}[norm]) * radius * scale
        largest = max(largest, float(sized.norm(p={"l1": 1, "l2": 2, "linf": float("inf")}[source])))
    assert 0.93 * 2 <= largest <= 2.0 * (1 + 1e-9)


def test_certificates_of_layers_are_converted_to_scales() -> None:
    model, x = network(7), torch.rand(5, 4)
    ball = Ball("l2", 0.1, None, (), SCALE)
    plain = radii.certify(model, x, "margin", Ball("l2", 0.1, None))
    scaled = radii.certify(model, x, "margin", ball)
    assert scaled.scale == SCALE
    assert torch.allclose(scaled.radius, plain.radius / 3.0)
    assert torch.equal(radii.certify(model, x, "margin", Ball("l1", 0.1, None)).radius, plain.radius)
    with pytest.raises(radii.InputError, match="another scale"):
        radii.evaluate(model, x, model(x).argmax(1), Ball("l2", 0.1, None), certificate=scaled)
