"""Every robust method against the formula written out by hand on a small network in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.classifier import predict
from radii.models.io.bundle import Architecture, initialize, save_bundle
from radii.models.zoo.mlp import MLP
from radii.threat import Ball
from radii.training.objectives import METHODS
from radii.training.objectives.adversarial import AdversarialTraining, Trades
from radii.training.objectives.cross_entropies import GaussianNoise
from radii.training.objectives.gradient_regularization import GradientRegularization
from radii.training.objectives.local_linearity import LocalLinearity
from radii.training.objectives.objective import Objective, TrainingProgress
from radii.training.objectives.robust_self_training import RobustSelfTraining

MOMENT = TrainingProgress(3, 10, seed=5)
EPS = 0.2


@pytest.fixture
def net() -> nn.Module:
    """A smooth two-layer network, so that derivatives can be checked by differences."""
    torch.manual_seed(0)
    return MLP((6,), 3, width=9, depth=2, activation="tanh").double().train()


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.rand(5, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])


def weight_gradient(net: nn.Module, value: Tensor) -> Tensor:
    net.zero_grad()
    value.backward()
    return torch.cat([parameter.grad.flatten() for parameter in net.parameters() if parameter.grad is not None])


def by_differences(net: nn.Module, value: Callable[[], Tensor], h: float = 1e-6) -> Tensor:
    """The gradient of ``value`` in every weight, by central differences."""
    found = []
    for parameter in net.parameters():
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            kept = float(flat[i])
            flat[i] = kept + h
            high = float(value().detach())
            flat[i] = kept - h
            low = float(value().detach())
            flat[i] = kept
            found.append((high - low) / (2 * h))
    return torch.tensor(found, dtype=torch.float64)


def one_ascent(x: Tensor, start: Tensor, gradient: Tensor, size: float) -> Tensor:
    point = start + size * gradient.sign()
    return torch.min(torch.max(point, x - EPS), x + EPS).clamp(0, 1)


def pgd(net: nn.Module, x: Tensor, y: Tensor, start: Tensor, steps: int, size: float) -> Tensor:
    """The textbook loop: backward, sign, clip."""
    point = start.clone()
    for _ in range(steps):
        point = point.detach().requires_grad_()
        F.cross_entropy(net(point), y).backward()
        assert point.grad is not None
        point = one_ascent(x, point.detach(), point.grad, size)
    net.zero_grad()
    return point.detach()


def uniform_start(x: Tensor) -> Tensor:
    return (x + MOMENT.offset("start", x, Ball("linf", EPS))).clamp(0, 1)


def normal_start(x: Tensor) -> Tensor:
    return (x + 0.001 * MOMENT.normal("start", x)).clamp(0, 1)


def test_gaussian_noise(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    noisy = x + 0.5 * MOMENT.normal("noise", x)
    logits = net(noisy)
    expected = -(logits / 2).log_softmax(1)[range(5), y].mean()
    assert torch.allclose(GaussianNoise(0.5, temperature=2.0).loss(net, x, y, MOMENT).value, expected)
    many = torch.zeros(4000, 3, dtype=torch.float64)
    assert MOMENT.normal("noise", many).std() == pytest.approx(1, abs=0.02)


def test_adversarial_training_is_the_textbook_loop(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    worst = pgd(net, x, y, uniform_start(x), 7, EPS / 5)
    expected = F.cross_entropy(net(worst), y)
    ours = AdversarialTraining(f"linf:{EPS}", steps=7).loss(net, x, y, MOMENT).value
    assert torch.allclose(ours, expected, atol=1e-12)
    assert torch.allclose(weight_gradient(net, ours), weight_gradient(net, expected), atol=1e-12)
    assert ours > F.cross_entropy(net(x), y)


def test_robust_self_training_of_the_slides(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    worst = pgd(net, x, y, uniform_start(x), 4, EPS / 5)
    expected = F.cross_entropy(net(x), y) + 2 * F.cross_entropy(net(worst), y)
    ours = RobustSelfTraining(f"linf:{EPS}", weight=2.0, steps=4).loss(net, x, y, MOMENT)
    assert torch.allclose(ours.value, expected, atol=1e-12)
    assert torch.allclose(ours.logits, net(x))


def kl(p_logits: Tensor, q_logits: Tensor) -> Tensor:
    p, q = p_logits.softmax(1), q_logits.softmax(1)
    return (p * (p.log() - q.log())).sum(1)


def test_trades_by_hand(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    point = normal_start(x)
    for _ in range(5):
        point = point.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(kl(net(x).detach(), net(point)).sum(), point)
        point = one_ascent(x, point.detach(), gradient, EPS / 5)

    def expected() -> Tensor:
        return F.cross_entropy(net(x), y) + 3 * kl(net(x), net(point)).mean()

    ours = Trades(f"linf:{EPS}", beta=3.0, steps=5).loss(net, x, y, MOMENT)
    assert torch.allclose(ours.value, expected(), atol=1e-12)
    assert torch.allclose(weight_gradient(net, ours.value), weight_gradient(net, expected()), atol=1e-12)
    assert torch.allclose(weight_gradient(net, expected()), by_differences(net, expected), atol=1e-7)


@pytest.mark.parametrize("norms", ["none", "batch", "dropout"])
def test_trades_reuses_passes_only_where_it_may(norms: str) -> None:
    """With batch norm or dropout the search sees eval mode, the outer loss train mode."""
    torch.manual_seed(3)
    layer = {"none": nn.Identity(), "batch": nn.BatchNorm1d(8), "dropout": nn.Dropout(0.5)}[norms]
    net = nn.Sequential(nn.Linear(6, 8), layer, nn.ReLU(), nn.Linear(8, 3)).train()
    x, y = torch.rand(16, 6), torch.arange(16) % 3
    net(x), net(2 * x)  # running statistics away from their start
    fresh = copy.deepcopy(net)
    net.eval()
    point = normal_start(x)
    for _ in range(3):
        point = point.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(kl(net(x).detach(), net(point)).sum(), point)
        point = one_ascent(x, point.detach(), gradient, EPS / 5)
    net.train()
    torch.manual_seed(9)
    if norms == "dropout":  # one pass over both halves, with independent masks
        clean, moved = net(torch.cat([x, point])).chunk(2)
    else:
        clean, moved = net(x), net(point)
    expected = F.cross_entropy(clean, y) + 6 * kl(clean, moved).mean()
    torch.manual_seed(9)
    ours = Trades(f"linf:{EPS}", steps=3).loss(fresh, x, y, MOMENT).value
    assert torch.allclose(ours, expected, atol=1e-5)
    assert fresh.training
    assert all(parameter.requires_grad for parameter in fresh.parameters())


def squared_slope(net: nn.Module, x: Tensor, y: Tensor, h: float) -> Tensor:
    """((CE(x + h d) - CE(x)) / h)^2 with d found by differences in the input."""
    rows = []
    for i in range(len(x)):
        g = torch.zeros_like(x[i])
        for j in range(x.shape[1]):
            e = torch.zeros_like(x[i])
            e[j] = 1e-6
            high = F.cross_entropy(net((x[i] + e)[None]), y[i : i + 1])
            g[j] = ((high - F.cross_entropy(net((x[i] - e)[None]), y[i : i + 1])) / 2e-6).detach()
        if h == 0:
            rows.append(g.square().sum())
            continue
        there = F.cross_entropy(net((x[i] + h * g / g.norm())[None]), y[i : i + 1])
        rows.append(((there - F.cross_entropy(net(x[i][None]), y[i : i + 1])) / h).square())
    return torch.stack(rows).mean()


def test_gradient_regularization(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    clean = F.cross_entropy(net(x), y)
    double = GradientRegularization(2.0)
    assert torch.allclose(double.loss(net, x, y, MOMENT).value, clean + 2 * squared_slope(net, x, y, 0), atol=1e-8)
    gradient = weight_gradient(net, double.loss(net, x, y, MOMENT).value)
    numeric = by_differences(net, lambda: double.loss(net, x, y, MOMENT).value)
    assert torch.allclose(gradient, numeric, atol=1e-7)
    finite = GradientRegularization(2.0, "finite-difference", h=0.3).loss(net, x, y, MOMENT).value
    assert torch.allclose(finite, clean + 2 * squared_slope(net, x, y, 0.3), atol=1e-7)
    reference = GradientRegularization(1.0, "reference", h=1.0).loss(net, x, y, MOMENT).value
    assert torch.allclose(reference, 2 * clean + squared_slope(net, x, y, 1.0) / 2, atol=1e-7)


def test_finite_differences_approach_double_backpropagation(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    """Value and gradient of the square; without the square (as misprinted) they would not."""
    x, y = batch
    double = weight_gradient(net, GradientRegularization(1.0).loss(net, x, y, MOMENT).value)
    small = GradientRegularization(1.0, "finite-difference", h=1e-4).loss(net, x, y, MOMENT).value
    assert torch.allclose(weight_gradient(net, small), double, atol=1e-3)


def test_finite_differences_see_one_dropout_mask() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Dropout(0.5), nn.Linear(64, 3)).double()
    x, y = torch.rand(8, 6, dtype=torch.float64), torch.arange(8) % 3
    torch.manual_seed(4)
    double = GradientRegularization(1.0).loss(net, x, y, MOMENT).value
    torch.manual_seed(4)
    finite = GradientRegularization(1.0, "finite-difference", h=1e-4).loss(net, x, y, MOMENT).value
    assert torch.allclose(double, finite, rtol=1e-3)


def ce_and_slope(net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    each = F.cross_entropy(net(x), y, reduction="none")
    return each, torch.autograd.grad(each.sum(), x, create_graph=True)[0]


def test_local_linearity_by_hand(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    ours = LocalLinearity(f"linf:{EPS}", steps=2)
    value, slope = (part.detach() for part in ce_and_slope(net, x, y))
    point = normal_start(x)
    for _ in range(2):
        point = point.detach().requires_grad_()
        bend = (F.cross_entropy(net(point), y, reduction="none") - value - ((point - x) * slope).sum(1)).abs()
        (gradient,) = torch.autograd.grad(bend.sum(), point)
        point = one_ascent(x, point.detach(), gradient, EPS / 2)
    delta = (point - x).detach()

    def expected() -> Tensor:
        each, slope = ce_and_slope(net, x, y)
        linear = (delta * slope).sum(1)
        bend = (F.cross_entropy(net(x + delta), y, reduction="none") - each - linear).abs()
        return (each + 4 * bend + 3 * linear.abs()).mean()

    loss = ours.loss(net, x, y, MOMENT).value
    assert torch.allclose(loss, expected(), atol=1e-12)
    assert torch.allclose(weight_gradient(net, loss), by_differences(net, expected), atol=1e-6)


def test_local_linearity_of_a_linear_loss_is_free(batch: tuple[Tensor, Tensor]) -> None:
    """The bend of a network whose loss is linear in x vanishes wherever it is measured."""
    x, y = batch
    objective = LocalLinearity(f"linf:{EPS}", mu=0.0)
    flat = MLP((6,), 3, depth=1).double()
    with torch.no_grad():
        flat.head.weight.zero_()
    assert torch.allclose(objective.loss(flat, x, y, MOMENT).value, F.cross_entropy(flat(x), y), atol=1e-12)


def test_local_linearity_as_the_public_code_has_it(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    point = normal_start(x)
    for _ in range(2):
        _, gradient = ce_and_slope(net, point, y)
        point = point + EPS / 2 * gradient.detach() / gradient.detach().abs().amax(1, keepdim=True)
        point = torch.min(torch.max(point, x - EPS), x + EPS).clamp(0, 1)
    expected = F.cross_entropy(net(x), y) + 4 * F.cross_entropy(net(point), y)
    ours = LocalLinearity(f"linf:{EPS}", variant="reference").loss(net, x, y, MOMENT).value
    assert torch.allclose(ours, expected, atol=1e-12)


L2 = ["adversarial", "trades", "robust-self-training", "local-linearity"]


@pytest.mark.parametrize("name", L2)
def test_l2_balls_are_kept(name: str, net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    objective: Objective = METHODS.factory(name)(**METHODS.arguments(name, {"threat": "l2:0.5"}))
    seen: list[Tensor] = []
    hook = net.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    value = objective.loss(net, x, y, MOMENT).value
    hook.remove()
    assert torch.isfinite(value)
    ball = Ball("l2", 0.5 * (1 + 1e-6))  # steps of a training are clipped up to rounding
    for points in seen:
        for part in points.split(len(x)):
            assert ball.contains(part, x).all()


def test_the_radius_grows_over_the_warm_up(net: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    inner = AdversarialTraining("linf:0.2", warmup=0.5).inner
    radii = [inner.ball_at(TrainingProgress(step, 10)).radius for step in range(10)]
    assert radii == pytest.approx([0.04, 0.08, 0.12, 0.16, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2])


def test_train_mode_attack_draws_dropout_and_moves_statistics() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).train()
    x, y = torch.rand(16, 6), torch.arange(16) % 3
    AdversarialTraining("linf:0.1", steps=4, inner="train").loss(net, x, y, MOMENT)
    assert int(net[1].num_batches_tracked) == 5
    AdversarialTraining("linf:0.1", steps=4).loss(net, x, y, MOMENT)
    assert int(net[1].num_batches_tracked) == 6
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())


def test_unlabeled_points_get_the_teachers_labels(tmp_path: Path) -> None:
    shape, classes = (6,), ("a", "b", "c")
    card = Architecture(name="mlp", arguments={"width": 5}, input_shape=shape, classes=classes)
    teacher = initialize(card, 2)
    save_bundle(tmp_path / "teacher", teacher, card)
    random = np.random.default_rng(0)
    pool = random.random((40, 6), dtype=np.float32)
    y = np.arange(40) % 3
    np.savez(tmp_path / "pool.npz", x=pool, y=y)
    objective = RobustSelfTraining(
        "linf:0.1", unlabeled=str(tmp_path / "pool.npz"), teacher=str(tmp_path / "teacher"), ratio=2.0
    )
    inputs, guesses = objective.pseudo_labeled
    assert torch.equal(guesses, predict(teacher, inputs))
    net = initialize(card, 3).train()
    x, y_batch = torch.rand(4, 6), torch.tensor([0, 1, 2, 0])
    rows = []
    hook = net.register_forward_pre_hook(lambda module, given: rows.append(len(given[0])))
    loss = objective.loss(net, x, y_batch, MOMENT)
    hook.remove()
    assert rows[-1] == 2 * (4 + 8)
    assert torch.allclose(loss.logits, net(x), atol=1e-6)
    wrong = RobustSelfTraining(unlabeled=str(tmp_path / "pool.npz"), teacher=str(tmp_path / "teacher"))
    with pytest.raises(InputError, match="Unlabeled inputs must have the shape"):
        wrong.loss(net, torch.rand(4, 7), y_batch, MOMENT)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdversarialTraining("linf:0.1", steps=0), "steps and step"),
        (lambda: AdversarialTraining(warmup=2.0), "share of the training"),
        (lambda: Trades(inner="evaluate"), "Did you mean 'eval'"),  # type: ignore[arg-type]
        (lambda: GradientRegularization(variant="finite"), "Known: double"),  # type: ignore[arg-type]
        (lambda: GradientRegularization(h=0.0), "h must be positive"),
        (lambda: LocalLinearity(variant="code"), "Known: paper, reference"),  # type: ignore[arg-type]
        (lambda: RobustSelfTraining(unlabeled="mnist"), "or neither"),
        (lambda: RobustSelfTraining(weight=-1.0), "weight must be"),
        (lambda: GaussianNoise(-1.0), "sigma must be"),
    ],
)
def test_mistakes_are_told(make: Callable[[], Objective], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_inputs_outside_the_box_are_refused(net: nn.Module) -> None:
    x, y = torch.randn(5, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    with pytest.raises(InputError, match="nobox"):
        AdversarialTraining("linf:0.1").loss(net, x, y, TrainingProgress(0, 10))
    assert torch.isfinite(AdversarialTraining("linf:0.1,nobox").loss(net, x, y, TrainingProgress(0, 10)).value)


def test_every_method_of_the_registry_takes_its_defaults() -> None:
    ours = ("natural", "gaussian-noise", "gradient-regularization", "local-linearity", "adversarial", "trades")
    for name in (*ours, "robust-self-training"):
        METHODS.factory(name)(**METHODS.arguments(name, {}))
