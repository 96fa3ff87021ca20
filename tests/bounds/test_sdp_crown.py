"""SDP-CROWN: its inequality against samples and descent, its bounds against attacks, CROWN and exact answers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from radii.attacks.pgd import PGD
from radii.bounds._sdp_crown import BallEngine, ball_offset
from radii.bounds.provably_robust import Bounded
from radii.bounds.regions import Domain
from radii.certificates.bound_certificate import certify
from radii.certificates.choose import certify as certify_by_name
from radii.certificates.choose import choose
from radii.errors import InputError
from radii.models.classifier import predict
from radii.threat import Ball


class Skip(nn.Module):
    """A convolution, then a branch that is added to what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Linear(3 * 25, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return self.head(torch.relu(x + self.second(x)).flatten(1))


def networks(seed: int) -> dict[str, nn.Module]:
    torch.manual_seed(seed)
    return {
        "dense": nn.Sequential(
            nn.Flatten(), nn.Linear(25, 20), nn.ReLU(), nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 3)
        ),
        "convolution": nn.Sequential(
            nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
        ),
        "pool": nn.Sequential(
            nn.Conv2d(1, 4, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
        ),
        "leaky": nn.Sequential(
            nn.Flatten(), nn.Linear(25, 16), nn.LeakyReLU(0.2), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 3)
        ),
        "skip": Skip(),
    }


def drawn(seed: int, size: int = 6) -> dict[str, np.ndarray]:
    """A row, slopes, a box and a ball that meet, all drawn."""
    rng = np.random.default_rng(seed)
    low, high = -rng.gamma(2, 1, size), rng.gamma(2, 1, size)
    low[0], high[1] = 0.1 if seed % 3 == 0 else low[0], -0.1 if seed % 3 == 1 else high[1]
    low[1], high[0] = min(low[1], high[1] - 1), max(high[0], low[0] + 1)
    return {
        "A": rng.normal(size=(1, size)),
        "slopes": rng.uniform(-0.2, 1.2, (1, 2 * size)),
        "low": low[None],
        "high": high[None],
        "center": rng.uniform(low, high)[None],
        "radius": rng.uniform(0.2, 2.0, 1),
    }


def offset_of(case: dict[str, np.ndarray], slopes: np.ndarray) -> tuple[np.ndarray, float]:
    size = case["A"].shape[1]
    back, worst, offset = np.empty((1, size)), np.empty((1, size)), np.empty(1)
    lines = np.zeros((1, size)), case["high"] / (case["high"] - case["low"])
    box = case["low"], case["high"], case["center"], case["radius"]
    ball_offset(case["A"], np.zeros(1, np.int64), slopes, *lines, *box, back, worst, offset)
    return back[0], float(offset[0])


def gap(case: dict[str, np.ndarray], back: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.maximum(z, 0) @ case["A"][0] - z @ back


@pytest.mark.parametrize("seed", range(40))
def test_the_inequality_holds_at_samples_and_at_what_descent_finds(seed: int) -> None:
    case = drawn(seed)
    back, offset = offset_of(case, case["slopes"])
    rng, center, radius = np.random.default_rng(seed), case["center"][0], float(case["radius"][0])
    steps = rng.normal(size=(20000, len(center)))
    steps *= (rng.uniform(size=(20000, 1)) ** 0.1) / np.linalg.norm(steps, axis=1, keepdims=True)
    z = np.clip(center + radius * steps, case["low"][0], case["high"][0])  # clipping comes nearer to the center
    assert gap(case, back, z).min() >= offset
    rim = {"type": "ineq", "fun": lambda z: radius**2 - ((z - center) ** 2).sum()}
    for start in z[np.argsort(gap(case, back, z))[:3]]:
        box = list(zip(case["low"][0], case["high"][0], strict=True))
        found = minimize(lambda z: gap(case, back, z), start, bounds=box, constraints=[rim], method="SLSQP")
        shrunk = min(1.0, radius / np.linalg.norm(found.x - center))
        inside = np.clip(center + (found.x - center) * shrunk, case["low"][0], case["high"][0])
        assert gap(case, back, inside) >= offset - 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_the_offset_is_the_best_of_the_papers_formula(seed: int) -> None:
    """Without a box it is the largest value of the paper's offset over its multiplier; with one, at least that."""
    case = drawn(seed)
    wide = case | {"low": np.full((1, 6), -1e6), "high": np.full((1, 6), 1e6)}
    back, offset = offset_of(wide, case["slopes"])
    c, z0, rho = case["A"][0], case["center"][0], float(case["radius"][0])

    def formula(t: float) -> float:
        least = np.minimum(np.minimum(c - back - t * z0, back + t * z0), 0)
        return float(-0.5 * (t * (rho**2 - z0 @ z0) + (least**2).sum() / t))

    rough = max(np.geomspace(1e-4, 1e4, 2001), key=formula)
    best = max(formula(t) for t in np.geomspace(rough / 1.02, rough * 1.02, 20001))
    assert best - 0.01 * abs(best) - 1e-9 <= offset <= best + 1e-5
    narrow, inner = offset_of(case, case["slopes"])
    if np.array_equal(narrow, back):  # no sign is fixed by the box
        assert inner >= offset - 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_the_offset_is_not_below_crowns(seed: int) -> None:
    case = drawn(seed)
    _, offset = offset_of(case, np.zeros((0, 12)))
    low, high = case["low"][0], case["high"][0]
    open_ = (low < 0) & (high > 0)
    lift = np.where(open_, -low * high / (high - low), 0.0)
    assert offset >= float(np.minimum(case["A"][0], 0) @ lift) - 1e-12


@pytest.mark.parametrize("name", list(networks(0)))
@pytest.mark.parametrize("radius", [0.1, 0.4])
def test_no_attack_reaches_below_a_bound(name: str, radius: float) -> None:
    for seed in range(3):
        model = networks(seed)[name].eval()
        x, ball = torch.rand(2, 1, 5, 5), Ball("l2", radius)
        bounded = Bounded(model, (1, 5, 5))
        label = bounded.predict(x)
        crown = bounded.margins(x, label, ball, "crown")
        found = {steps: bounded.margins(x, label, ball, "sdp-crown", steps=steps) for steps in (0, 8)}
        others = torch.arange(3).expand(2, 3)[torch.arange(3) != label[:, None]].view(2, 2)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(4):
            for column in range(2):
                point = ball.random_start(x, generator)
                for _ in range(30):
                    point = point.detach().requires_grad_()
                    logits = model(point)
                    margin = logits.gather(1, label[:, None]) - logits.gather(1, others[:, column, None])
                    assert all(bool((bound[:, column] <= margin[:, 0]).all()) for bound in found.values())
                    (slope,) = torch.autograd.grad(margin.sum(), point)
                    step = slope / slope.flatten(1).norm(dim=1)[:, None, None, None].clamp_min(1e-12)
                    point = ball.project(point.detach() - 0.2 * radius * step, x)
        assert all(bool((bound >= crown).all()) for bound in found.values())


@pytest.mark.parametrize("name", ["dense", "convolution", "skip", "pool"])
def test_float32_values_lie_in_their_balls(name: str) -> None:
    """What float32 computes, at inputs on the rim, is within each layer's ball around the center's value."""
    model = networks(3)[name].eval()
    x, radius = torch.rand(1, 1, 5, 5), 0.2
    engine = BallEngine(Bounded(model, (1, 5, 5)).engine.program)
    flat = x.double().flatten(1)
    known = engine.bounds(Domain(flat - radius, flat + radius, flat, radius))
    rim = torch.randn(200, 25, generator=torch.Generator().manual_seed(0))
    inputs = (x.flatten(1) + radius * (1 - 1e-6) * rim / rim.norm(dim=1, keepdim=True)).float()
    with torch.no_grad():
        values = engine.program.values(inputs)
    for number in engine.program.steps:
        center, reach = known.spheres[number]
        assert bool(((values[number].double() - center).norm(dim=1) <= reach).all())


def wide() -> nn.Module:
    """Four wide layers that keep lengths: each ReLU alone may go to its end, but not all together."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((64, 128), (128, 128), (128, 128), (128, 128), (128, 2)):
        layer = nn.Linear(before, after, bias=False)
        nn.init.orthogonal_(layer.weight)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


def inputs(count: int) -> Tensor:
    return torch.rand(count, 64, generator=torch.Generator().manual_seed(0))


def test_three_times_the_proofs_of_crown() -> None:
    model, x = wide(), inputs(12)
    crown, ours = (certify(model, x, [0.1, 0.2], "l2", method).radius for method in ("crown", "sdp-crown"))
    assert bool((ours >= crown).all())
    assert int((ours >= 0.2).sum()) >= 9
    assert int((crown >= 0.2).sum()) <= 3
    for row in torch.nonzero(ours > 0)[:, 0].tolist():
        one, label = x[row : row + 1], predict(model, x[row : row + 1])
        attack = PGD(20, 0.25)(model, one, label, Ball("l2", float(ours[row])), torch.Generator().manual_seed(0))
        assert not attack.broken.any()


def least_margin(first: nn.Linear, last: nn.Linear, row: Tensor, x: Tensor, radius: float) -> float:
    """The least row . logits over an L2 ball without a box, sign pattern by sign pattern (SLSQP on each)."""
    w, b = first.weight.detach().double().numpy(), first.bias.detach().double().numpy()
    v, d = (row.double() @ last.weight.double()).detach().numpy(), float((row.double() @ last.bias.double()).detach())
    center, best = x.double().numpy(), np.inf
    for pattern in product((0.0, 1.0), repeat=len(b)):
        on = np.array(pattern)
        signs = 2 * on - 1
        slope = (v * on) @ w
        rules = [
            {"type": "ineq", "fun": lambda z: radius**2 - ((z - center) ** 2).sum()},
            {"type": "ineq", "fun": lambda z, signs=signs: signs * (w @ z + b)},
        ]
        found = minimize(lambda z, slope=slope: slope @ z, center, constraints=rules, method="SLSQP")
        if found.success and (signs * (w @ found.x + b) >= -1e-9).all():
            best = min(best, float(np.maximum(w @ found.x + b, 0) @ v + d))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_tiny_networks_by_brute_force_over_sign_patterns(seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).eval()
    x, ball = torch.rand(1, 3), Ball("l2", 0.3, None)
    bounded = Bounded(model, (3,))
    label = bounded.predict(x)
    row = torch.eye(2)[int(label)] - torch.eye(2)[1 - int(label)]
    exact = least_margin(model[0], model[2], row, x[0], 0.3)
    crown, ours = (float(bounded.margins(x, label, ball, method)) for method in ("crown", "sdp-crown"))
    assert crown <= ours <= exact + 1e-6
    assert exact - ours < 0.05


def test_complete_verification_proves_what_is_proved_here() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    x, radii = torch.rand(5, 4), [0.02, 0.05, 0.1, 0.2]
    ours = certify(model, x, radii, "l2", "sdp-crown").radius
    assert bool((certify_by_name(model, x, "complete", radii=radii).radius >= ours).all())


def test_the_method_has_its_name() -> None:
    model, x = wide(), inputs(2)
    assert certify_by_name(model, x, "sdp-crown", norm="l2", radii=[0.02]).method == "sdp-crown"
    with pytest.raises(InputError, match="'sdp-crown' certifies l2 balls, got 'linf'"):
        certify(model, x, [0.1], "linf", "sdp-crown")
    exact = certify(model, x, [0.02], "l2", "sdp-crown", rounding=False)
    assert exact.arithmetic == "exact"


def test_choose_tries_it_on_l2_balls() -> None:
    model, x = wide(), inputs(4)
    levels = [0.1, 0.2]
    chosen = choose(model, x, Ball("l2", 0.2), radii=levels, passes=10**6).certificate
    assert chosen is not None
    assert bool((chosen.radius >= certify(model, x, levels, "l2", "sdp-crown").radius).all())
