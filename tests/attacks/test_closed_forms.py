"""Attacks against truths: exact radii of linear models, brute force, the papers' definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from torch import Tensor, nn

from radii.attacks import losses
from radii.attacks.apgd import APGD, _ApgdSearch, nearest_targets, targets_in_order
from radii.attacks.attack import Attack, AttackRun
from radii.attacks.fab import FAB, _to_plane
from radii.attacks.gradient_free import Blur, Noise, Transfer
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.pgd import PGD, ascend, steepest
from radii.attacks.point_randomness import derived, normal, point_seeds, sign, start_inside, start_on_surface, uniform
from radii.attacks.square import Square, _bump
from radii.errors import InputError
from radii.randomness import stream
from radii.threat import Ball, Norm


def linear_distance(model: nn.Linear, x: Tensor, norm: Norm) -> Tensor:
    """min_j (z_y - z_j) / ||w_y - w_j||_dual in float64: the exact radius of a linear model without a box."""
    dual = {"linf": 1, "l2": 2, "l1": float("inf")}[norm]
    weight, bias = model.weight.detach().double(), model.bias.detach().double()
    logits = x.double() @ weight.T + bias
    y = logits.argmax(1)
    rise = logits.gather(1, y[:, None]) - logits
    slope = (weight[y][:, None, :] - weight[None]).norm(p=dual, dim=2)
    ratio = torch.where(torch.nn.functional.one_hot(y, len(weight)).bool(), torch.inf, rise / slope)
    return ratio.amin(1)


Linear = tuple[nn.Linear, Tensor, Tensor]
NORMS: list[Norm] = ["linf", "l2", "l1"]
TARGETED: dict[str, Attack] = {"apgd-t": APGD("dlr-targeted", steps=30), "fab": FAB(steps=20)}
UNTARGETED: dict[str, Attack] = {
    "pgd": PGD(steps=80),
    "apgd-ce": APGD("ce", steps=30),
    "apgd-dlr": APGD("dlr", steps=30),
    "minimum-norm": MinimumNorm(steps=40),
}


@pytest.fixture
def two_classes(linear: Linear) -> Linear:
    """The same points before the first two classes: one boundary, so the nearest error is where the gradient leads."""
    model, x, _ = linear
    two = nn.Linear(20, 2)
    with torch.no_grad():
        two.weight.copy_(model.weight[:2])
        two.bias.copy_(model.bias[:2])
    return two, x, two(x).argmax(1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("attack", TARGETED.values(), ids=TARGETED.keys())
def test_targeted_attacks_are_exact_on_five_classes(attack: Attack, norm: Norm, linear: Linear) -> None:
    assert_exact(attack, norm, linear)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("attack", UNTARGETED.values(), ids=UNTARGETED.keys())
def test_untargeted_attacks_are_exact_on_two_classes(attack: Attack, norm: Norm, two_classes: Linear) -> None:
    assert_exact(attack, norm, two_classes)


def assert_exact(attack: Attack, norm: Norm, linear: Linear) -> None:
    """A linear model breaks beyond its radius and nowhere before."""
    model, x, y = linear
    exact = linear_distance(model, x, norm)
    radius = float(exact.median())
    broken = attack(model, x, y, Ball(norm, radius, None), stream(0)).broken
    assert not broken[exact > radius * (1 + 1e-5)].any(), "nothing breaks inside its radius"
    assert broken[exact < radius * 0.97].all(), "everything breaks 3% beyond"


@pytest.mark.parametrize("norm", NORMS)
def test_minimum_norm_measures_the_exact_radius(norm: Norm, two_classes: Linear) -> None:
    model, x, y = two_classes
    found = MinimumNorm().radii(model, x, y, Ball(norm, 1.0, None), stream(0))
    ratio = found.radius / linear_distance(model, x, norm)
    assert float(ratio.min()) > 1 - 1e-5
    assert float(ratio.max()) < 1.001
    again = MinimumNorm(restarts=2).radii(model, x, y, Ball(norm, 1.0, None), stream(0))
    assert (again.radius <= found.radius * (1 + 1e-9)).all(), "restarts never lose a find"


def test_minimum_norm_of_mistakes_and_of_the_unbreakable(linear: Linear) -> None:
    model, x, y = linear
    wrong = (y + 1) % 5
    assert (MinimumNorm().radii(model, x, wrong, Ball("l2", 1.0, None), stream(0)).radius == 0).all()

    class Constant(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            return torch.stack([1 + 0 * batch[:, 0], 0 * batch[:, 0]], 1)

    found = MinimumNorm(steps=5).radii(Constant(), x, torch.zeros_like(y), Ball("l2", 1.0), stream(0))
    assert torch.isinf(found.radius).all()
    assert torch.equal(found.x_adv, x)


@pytest.mark.parametrize("norm", NORMS)
def test_square_finds_its_share_of_a_linear_model(norm: Norm, linear: Linear) -> None:
    model, x, y = linear
    exact = linear_distance(model, x, norm)
    radius = 1.001 * float(exact.median())  # no point stands on the boundary
    broken = Square(queries=300)(model, x, y, Ball(norm, radius, None), stream(0)).broken
    assert not broken[exact > radius * (1 + 1e-5)].any()
    assert broken.sum() >= {"linf": 0.8, "l2": 0.3, "l1": 0.3}[norm] * (exact < radius).sum()


def test_targeted_attacks_reach_their_class(linear: Linear) -> None:
    model, x, y = linear
    target = torch.full_like(y, int((y[0] + 1) % 5))
    ball = Ball("linf", 0.8, None)
    result = PGD(steps=40, step=0.1, targeted=True)(model, x, target, ball, stream(0))
    assert result.broken.float().mean() > 0.9
    assert (model(result.x_adv).argmax(1) == target)[result.broken].all()


def test_restarts_only_ever_add(digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    """The defect of a peer: a restart that overwrites what an earlier one found."""
    x, y = digits[0][1200:1260], digits[1][1200:1260]
    ball = Ball("linf", 0.06)
    once = PGD(steps=5, step=0.3)(digits_net, x, y, ball, stream(0)).broken
    often = PGD(steps=5, step=0.3, restarts=5)(digits_net, x, y, ball, stream(0)).broken
    assert (often | ~once).all()
    assert once.any()


@pytest.mark.parametrize("box", [None, (0.0, 1.0)])
def test_steps_to_a_plane_are_the_shortest_linf(box: tuple[float, float] | None) -> None:
    """Against a linear program: min t with |d_i| <= t, <w, d> = -v, x + d in the box."""
    generator = torch.Generator().manual_seed(1)
    x, w = torch.rand(12, 6, generator=generator), torch.randn(12, 6, generator=generator)
    w[0, :3] = 0
    value = torch.randn(12, generator=generator) * 0.4
    step = _to_plane(x, w, value, Ball("linf", 1.0, box))
    for i in range(12):
        bounds = [(None, None) if box is None else (-float(p), 1 - float(p)) for p in x[i]]
        sides = np.block([[np.eye(6), -np.ones((6, 1))], [-np.eye(6), -np.ones((6, 1))]])
        solved = linprog(
            [0] * 6 + [1], A_ub=sides, b_ub=np.zeros(12),
            A_eq=[[*w[i].tolist(), 0]], b_eq=[-float(value[i])], bounds=[*bounds, (0, None)],
        )  # fmt: skip
        if solved.status == 0:
            assert float(step[i].abs().max()) == pytest.approx(solved.fun, abs=1e-5)
            assert float((w[i] * step[i]).sum()) == pytest.approx(-float(value[i]), abs=1e-5)


def test_steps_to_a_plane_are_the_shortest_l2() -> None:
    generator = torch.Generator().manual_seed(2)
    x, w = torch.rand(6, 5, generator=generator), torch.randn(6, 5, generator=generator)
    value = torch.randn(6, generator=generator) * 0.5
    step = _to_plane(x, w, value, Ball("l2", 1.0))
    free = _to_plane(x, w, value, Ball("l2", 1.0, None))
    assert torch.allclose(free, -value[:, None] * w / w.pow(2).sum(1, keepdim=True), atol=1e-6)
    for i in range(6):
        plane = {"type": "eq", "fun": lambda d, i=i: float(value[i]) + w[i].double().numpy() @ d}
        bounds = [(-float(p), 1 - float(p)) for p in x[i]]
        solved = minimize(lambda d: d @ d, np.zeros(5), constraints=[plane], bounds=bounds, tol=1e-12)
        if solved.success:
            assert float(step[i].norm()) == pytest.approx(solved.fun**0.5, abs=1e-4)


def test_the_ratio_losses_are_the_papers() -> None:
    logits = torch.tensor([[5.0, 3.0, 1.0, 0.0], [1.0, 2.0, 4.0, 8.0]])
    y, target = torch.tensor([0, 1]), torch.tensor([2, 0])
    assert losses.dlr(logits, y).tolist() == pytest.approx([-(5 - 3) / (5 - 1), -(2 - 8) / (8 - 2)])
    expected = [-(5 - 1) / (5 - 0.5), -(2 - 1) / (8 - 1.5)]
    assert losses.targeted_dlr(logits, y, target).tolist() == pytest.approx(expected)
    assert losses.margin(logits, y).tolist() == [-2.0, 6.0]
    scaled = losses.dlr(logits * 10 + 3, y)
    assert torch.allclose(scaled, losses.dlr(logits, y)), "invariant to scale and shift"


@pytest.mark.parametrize("classes", [2, 3])
def test_below_four_classes_the_margin_stands_in(classes: int) -> None:
    logits = torch.randn(5, classes, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 1, 0, 1])
    target = (y + 1) % classes
    assert torch.equal(losses.targeted_dlr(logits, y, target), losses.targeted_margin(logits, y, target))
    if classes == 2:
        assert torch.equal(losses.dlr(logits, y), losses.margin(logits, y))
    model = nn.Linear(4, classes)
    x = torch.rand(20, 4, generator=torch.Generator().manual_seed(1))
    labels = model(x).argmax(1)
    for attack in (APGD("dlr-targeted", steps=20), APGD("dlr", steps=20), FAB(steps=10), Square(queries=50)):
        result = attack(model, x, labels, Ball("linf", 3.0, None), stream(0))
        if len(labels.unique()) > 1:
            assert result.broken.any()


def test_checkpoints_shrink_as_in_the_paper() -> None:
    windows = _ApgdSearch("ce", 100, Ball("linf", 0.1), 0).windows
    ends = torch.nonzero(windows).squeeze(1).tolist()
    assert ends == [22, 41, 57, 70, 80, 87, 93, 99]
    assert windows[ends].tolist() == [22, 19, 16, 13, 10, 7, 6, 6]


def test_targets_come_in_order_of_their_logits() -> None:
    order = targets_in_order(torch.tensor([[1.0, 9.0, 3.0, 2.0]]), torch.tensor([1]))
    assert order.tolist() == [[2, 3, 0]]


@pytest.mark.parametrize("size", [3, 5, 8])
def test_bumps_have_length_one_and_two_signs(size: int) -> None:
    made = _bump(size)
    assert float(made.norm()) == pytest.approx(1.0)
    assert bool((made[: size // 2] > 0).all())
    assert bool((made[size // 2 :] < 0).all())


def test_square_asks_only_what_it_does_not_know(digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    """Skipping known answers saves passes."""
    x, y = digits[0][1200:1220], digits[1][1200:1220]
    result = Square(queries=300)(digits_net, x, y, Ball("linf", 0.1), stream(0))
    left = result.queries[~result.broken]
    assert len(left)
    assert (left < 302).all()
    assert int(left.sum()) < 0.95 * 302 * len(left)


def test_draws_are_addressed_and_uniform() -> None:
    x = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(50, dtype=torch.int64)
    seeds = point_seeds(x, y, stream(0))
    assert torch.equal(seeds[7:9], point_seeds(x[7:9], y[7:9], stream(0)))
    assert not torch.equal(seeds, point_seeds(x, y, stream(1)))
    assert not torch.equal(seeds, point_seeds(x, y + 1, stream(0)))
    assert len(seeds.unique()) == 50
    draw = uniform(seeds, 3, 2000)
    assert float(draw.min()) >= 0
    assert float(draw.max()) < 1
    assert float(draw.mean()) == pytest.approx(0.5, abs=0.005)
    assert float(draw.var()) == pytest.approx(1 / 12, abs=0.002)
    assert torch.equal(uniform(seeds, torch.full((50,), 3), 2000), draw)
    assert float(torch.corrcoef(torch.stack([draw[0], uniform(seeds, 4, 2000)[0]]))[0, 1].abs()) < 0.1
    assert float(normal(seeds, 0, 2000).std()) == pytest.approx(1, abs=0.02)
    assert set(sign(seeds, 0, 9).unique().tolist()) == {-1.0, 1.0}
    assert not torch.equal(derived(seeds, 0), derived(seeds, 1))


@pytest.mark.parametrize("norm", NORMS)
def test_starts_lie_in_the_ball(norm: Norm) -> None:
    x = torch.rand(40, 10, generator=torch.Generator().manual_seed(0))
    seeds = point_seeds(x, torch.zeros(40, dtype=torch.int64), stream(0))
    ball = Ball(norm, 0.2, None)
    inside, surface = start_inside(x, ball, seeds), start_on_surface(x, ball, seeds)
    assert ball.contains(inside, x).all()
    assert torch.allclose(ball.distance(x, surface), torch.tensor(0.2), atol=1e-5)
    assert Ball(norm, 0.2).contains(start_inside(x, Ball(norm, 0.2), seeds), x).all()


def test_the_shared_step() -> None:
    gradient = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    assert steepest(gradient, "linf").tolist() == [[1, -1], [0, 0]]
    assert torch.allclose(steepest(gradient, "l2"), torch.tensor([[0.6, -0.8], [0.0, 0.0]]))
    center = torch.full((2, 2), 0.5)
    moved = ascend(center, gradient, center, Ball("l2", 0.1), 1.0)
    assert torch.allclose(moved, torch.tensor([[0.56, 0.42], [0.5, 0.5]]))
    assert torch.allclose(
        ascend(center, gradient, center, Ball("linf", 1.0), torch.tensor([0.7, 1.0]))[0, 1:], torch.zeros(1)
    )
    assert steepest(gradient, "l1").tolist() == [[0, -1], [0, 0]]


def test_noise_is_weaker_than_gradients(digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][1200:1300], digits[1][1200:1300]
    ball = Ball("linf", 0.12)
    noise = Noise(draws=10)(digits_net, x, y, ball, stream(0))
    blur = Blur()(digits_net, x, y, ball, stream(0))
    strong = APGD("ce", steps=30)(digits_net, x, y, ball, stream(0))
    assert noise.broken.sum() < strong.broken.sum()
    assert blur.broken.sum() < strong.broken.sum()
    assert ball.contains(blur.x_adv, x).all()
    with pytest.raises(InputError, match="Blur needs images"):
        Blur()(digits_net, x.flatten(1), y, ball, stream(0))
    with pytest.raises(InputError, match="odd"):
        Blur(widths=(2,))(digits_net, x, y, ball, stream(0))


def test_perturbations_transfer(digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    """A model that hides its gradients falls to perturbations made for the model behind."""
    x, y = digits[0][1200:1260], digits[1][1200:1260]

    class Hidden(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            return digits_net(batch).round()

    ball = Ball("linf", 0.25)
    result = Transfer(digits_net)(Hidden(), x, y, ball, stream(0))
    assert result.broken.float().mean() > 0.8
    assert digits_net[0].weight.requires_grad, "the surrogate is left as found too"


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InputError, match="loss of APGD"):
        APGD("cw")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="loss of PGD"):
        PGD(loss="dlr")


def test_targets_in_the_order_of_distance(linear: Linear) -> None:
    """Of a linear model the tangent plane is the boundary: the first target is the class of the exact radius."""
    model, x, y = linear
    for norm in NORMS:
        trial = AttackRun(model, x, y, Ball(norm, 0.1, None), stream(0), 16)
        order = nearest_targets(trial, targets_in_order(trial.clean_logits, y))
        weight, logits = model.weight.detach().double(), model(x).detach().double()
        dual = {"linf": 1, "l2": 2, "l1": float("inf")}[norm]
        slope = (weight[y][:, None] - weight[None]).norm(p=dual, dim=2)
        far = ((logits.gather(1, y[:, None]) - logits) / slope).scatter(1, y[:, None], torch.inf)
        assert torch.equal(order, far.argsort(dim=1)[:, :-1])
    one = APGD("margin-targeted", targets=1, order="distance", steps=30)
    assert_exact(one, "l2", linear)


def test_the_margin_of_probabilities() -> None:
    logits, y = torch.tensor([[1.0, 0.0, 3.0], [0.0, 0.0, 0.0]]), torch.tensor([2, 1])
    p = logits.softmax(1)
    assert losses.by_name("pm", logits, y, y).tolist() == pytest.approx([float(p[0, 0] - p[0, 2]), 0.0])
    target = torch.tensor([1, 0])
    assert losses.by_name("pm-targeted", logits, y, target)[0] == pytest.approx(float(p[0, 1] - p[0, 2]))
    for loss in ("pm", "pm-targeted", "margin-targeted"):
        assert losses.by_name(loss, logits, y, target).shape == (2,)
    with pytest.raises(InputError, match="must be one of ce, dlr, margin, pm"):
        APGD("hinge")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="order of targets"):
        APGD(order="random")  # type: ignore[arg-type]
