"""The same points under independent implementations: nothing they break is left standing, up to seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from radii.attacks.apgd import APGD
from radii.attacks.fab import FAB
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.attacks.suite import members, run_suite
from radii.models.classifier import predict
from radii.randomness import stream
from radii.threat import Ball

Digits = tuple[Tensor, Tensor]


@pytest.fixture
def points(digits_net: nn.Module, digits: Digits) -> Digits:
    """80 points that the net gets right."""
    x, y = digits[0][1200:1320], digits[1][1200:1320]
    right = predict(digits_net, x) == y
    return x[right][:80], y[right][:80]


def broken_by(model: nn.Module, x: Tensor, y: Tensor, x_adv: Tensor, ball: Ball) -> Tensor:
    """Their successes, by our rule."""
    return (predict(model, x_adv) != y) & ball.with_radius(ball.radius * (1 + 1e-4) + 1e-7).contains(x_adv, x)


def assert_no_weaker(ours: Tensor, theirs: Tensor, slack: int = 2) -> None:
    """At most ``slack`` points more stand, which different random starts explain."""
    assert 5 < int(theirs.sum()) < len(theirs) - 5, "the radius should break some and not all"
    assert int(ours.sum()) >= int(theirs.sum()) - slack


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_apgd_fab_and_square_beside_torchattacks(norm: str, digits_net: nn.Module, points: Digits) -> None:
    torchattacks = pytest.importorskip("torchattacks")
    x, y = points
    ball = Ball("linf", 0.06) if norm == "Linf" else Ball("l2", 0.35)
    pairs = [
        (APGD("ce", steps=20), torchattacks.APGD(digits_net, norm=norm, eps=ball.radius, steps=20, seed=0)),
        (
            APGD("dlr-targeted", steps=10),
            torchattacks.APGDT(digits_net, norm=norm, eps=ball.radius, steps=10, seed=0, n_classes=10),
        ),
        (
            FAB(steps=10),
            torchattacks.FAB(
                digits_net, norm=norm, eps=ball.radius, steps=10, seed=0, n_classes=10, multi_targeted=True
            ),
        ),
        (Square(queries=150), torchattacks.Square(digits_net, norm=norm, eps=ball.radius, n_queries=150, seed=0)),
    ]
    for ours, theirs in pairs:
        found = ours(digits_net, x, y, ball, stream(0)).broken
        assert_no_weaker(found, broken_by(digits_net, x, y, theirs(x, y).detach(), ball), 3)


def test_pgd_beside_foolbox(digits_net: nn.Module, points: Digits) -> None:
    foolbox = pytest.importorskip("foolbox")
    x, y = points
    ball = Ball("linf", 0.06)
    attack = foolbox.attacks.LinfPGD(rel_stepsize=1 / 30, steps=40)
    torch.manual_seed(0)
    _, clipped, _ = attack(foolbox.PyTorchModel(digits_net, bounds=(0, 1)), x, y, epsilons=ball.radius)
    assert_no_weaker(PGD()(digits_net, x, y, ball, stream(0)).broken, broken_by(digits_net, x, y, clipped, ball))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_minimum_norm_beside_foolbox(norm: str, digits_net: nn.Module, points: Digits) -> None:
    """Our median radius is no larger than that of foolbox's implementation with the same steps."""
    foolbox = pytest.importorskip("foolbox")
    x, y = points
    attack = {"linf": foolbox.attacks.LInfFMNAttack, "l2": foolbox.attacks.L2FMNAttack}[norm](steps=100)
    _, found, success = attack(foolbox.PyTorchModel(digits_net, bounds=(0, 1)), x, y, epsilons=None)
    ball = Ball(norm, 1.0)  # type: ignore[arg-type]
    theirs = torch.where(success, ball.distance(x, found), torch.inf)
    ours = MinimumNorm().radii(digits_net, x, y, ball, stream(0)).radius
    assert float(ours.median()) <= 1.02 * float(theirs.median())
    assert bool((ours < torch.inf).all())


def test_pgd_beside_art(digits_net: nn.Module, points: Digits) -> None:
    pytest.importorskip("art")
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    x, y = points
    ball = Ball("linf", 0.06)
    estimator = PyTorchClassifier(digits_net, nn.CrossEntropyLoss(), (1, 8, 8), 10, clip_values=(0, 1))
    np.random.seed(0)
    attack = ProjectedGradientDescentPyTorch(
        estimator, eps=ball.radius, eps_step=ball.radius / 30, max_iter=40, num_random_init=1, verbose=False
    )
    theirs = torch.from_numpy(attack.generate(x.numpy(), y.numpy()))
    digits_net.eval()
    assert_no_weaker(PGD()(digits_net, x, y, ball, stream(0)).broken, broken_by(digits_net, x, y, theirs, ball))


@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_the_standard_suite_beside_torchattacks_autoattack(digits_net: nn.Module, points: Digits) -> None:
    torchattacks = pytest.importorskip("torchattacks")
    x, y = points
    ball = Ball("linf", 0.06)
    attack = torchattacks.AutoAttack(digits_net, norm="Linf", eps=ball.radius, n_classes=10, seed=0)
    for member in attack._autoattack.attacks[:3]:
        member.steps = 100  # as in the original; the class leaves its attacks at 10
    theirs = broken_by(digits_net, x, y, attack(x, y), ball)
    ours = run_suite(members("standard"), digits_net, x, y, ball).broken
    assert int((theirs & ~ours).sum()) <= 1
