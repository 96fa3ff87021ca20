"""Each alarm rings on a model built to trigger it and is silent on a sound one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from radii.attacks.gradient_free import Transfer
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.attacks.suite import Member, SuiteResult, run_suite
from radii.evaluation._trust_alarms import model_alarms, result_alarms
from radii.models.classifier import predict
from radii.threat import Ball

Digits = tuple[Tensor, Tensor]
BALL = Ball("linf", 0.1)


def first_breaks(result: SuiteResult) -> dict[str, int]:
    """How many points each attack was the first to break."""
    return {name: result.broken_by.count(name) for name in result.passes}


class Around(nn.Module):
    """A net with something done to its input and output."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net


class Randomized(Around):
    def forward(self, x: Tensor) -> Tensor:
        return self.net(x + 0.05 * torch.randn_like(x))


class Staircase(Around):
    """Rounded inputs: the gradient is 0 everywhere, the function is nearly the same."""

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x * 16).round() / 16)


class Exploding(Around):
    """The derivative of sqrt|0| is not finite."""

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + 0 * (x - x.detach()).abs().sqrt().flatten(1).sum(1, keepdim=True)


class Backwards(Around):
    """The function of the net with the opposite gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return self.net(2 * x.detach() - x)


class Softmax(Around):
    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).softmax(1)


def names(model: nn.Module, x: Tensor, y: Tensor, ball: Ball = BALL) -> set[str]:
    return {alarm.name for alarm in model_alarms(model, x, y, ball)}


def test_a_sound_model_is_silent(digits_net: nn.Module, digits: Digits) -> None:
    x, y = digits[0][1200:1264], digits[1][1200:1264]
    assert names(digits_net, x, y) == set()
    assert names(digits_net, x, y, Ball("l2", 0.5)) == set()
    assert names(digits_net, x, y, Ball("linf", 0.1, None)) == set()


@pytest.mark.parametrize(
    ("build", "alarm"),
    [
        (Randomized, "randomized"),
        (Staircase, "zero gradients"),
        (Staircase, "unbounded attack fails"),
        (Exploding, "exploding gradients"),
        (Backwards, "loss does not rise"),
        (Softmax, "probabilities"),
    ],
)
def test_an_unsound_model_rings(build: type[Around], alarm: str, digits_net: nn.Module, digits: Digits) -> None:
    assert alarm in names(build(digits_net).eval(), digits[0][1200:1264], digits[1][1200:1264])


def test_train_mode_rings(digits_net: nn.Module, digits: Digits) -> None:
    model = nn.Sequential(digits_net, nn.Dropout(0.5)).train()
    try:
        assert names(model, digits[0][:8], digits[1][:8]) >= {"train mode"}
        assert model.training
    finally:
        digits_net.eval()


def test_normalized_images_ring(digits_net: nn.Module, digits: Digits) -> None:
    x, y = (digits[0][:16] - 0.3) / 0.4, digits[1][:16]
    assert "inputs outside [0, 1]" in names(digits_net, x, y, Ball("linf", 0.1, None))


class Detector(nn.Module):
    """Linear near grid points; further away it snaps inputs to the grid, and its gradient vanishes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(20) / 20)

    def forward(self, x: Tensor) -> Tensor:
        snapped = (x * 4).round() / 4
        noisy = (x - snapped).abs().mean(1, keepdim=True) > 0.055
        score = (torch.where(noisy, snapped, x) - 0.5) @ self.weight + 0.04
        return torch.stack([score, -score], 1)


def test_a_radius_that_helps_the_model_rings() -> None:
    generator = torch.Generator().manual_seed(0)
    x = 0.5 + 0.25 * torch.randint(-1, 2, (64, 20), generator=generator)
    x[:, 1::2] = 1 - x[:, ::2]  # every point has the score 0.04
    y = torch.zeros(64, dtype=torch.int64)
    assert "bigger radius is weaker" in names(Detector(), x, y, Ball("linf", 0.05))


def test_black_box_beats_white_box(digits_net: nn.Module, digits: Digits) -> None:
    x, y = digits[0][1200:1240], digits[1][1200:1240]
    attacks = (Member("pgd-40", PGD(steps=10)), Member("square", Square(queries=300)))
    masked = run_suite(attacks, Staircase(digits_net), x, y, Ball("linf", 0.15))
    assert {alarm.name for alarm in result_alarms(first_breaks(masked), len(x))} == {"black-box beats white-box"}
    strong = (Member("pgd-40", PGD(steps=40, step=0.1)), Member("square", Square(queries=300)))
    sound = run_suite(strong, digits_net, x, y, Ball("linf", 0.15))
    assert result_alarms(first_breaks(sound), len(x)) == []
    assert result_alarms({"square": 30}, 40) == [], "without a gradient attack there is nothing to compare"


def test_transfer_beats_white_box(digits_net: nn.Module, digits: Digits) -> None:
    x, y = digits[0][1200:1240], digits[1][1200:1240]
    attacks = (Member("pgd-40", PGD(steps=5)), Member("transfer", Transfer(digits_net, steps=20)))
    masked = run_suite(attacks, Staircase(digits_net), x, y, Ball("linf", 0.15))
    assert {alarm.name for alarm in result_alarms(first_breaks(masked), len(x))} == {"transfer beats white-box"}
    found = result_alarms({"apgd-ce": 3, "transfer": 5}, 100)
    assert [alarm.name for alarm in found] == ["transfer beats white-box"]
    assert result_alarms({"apgd-ce": 3, "transfer": 1}, 100) == []


def test_a_model_that_gets_nothing_right_is_not_examined(digits_net: nn.Module, digits: Digits) -> None:
    x = digits[0][:8]
    assert names(digits_net, x, (predict(digits_net, x) + 1) % 10) == set()


def test_accuracy_at_chance_rings_where_it_means_something(digits_net: nn.Module, digits: Digits) -> None:
    x, y = digits[0][:200], digits[1][:200]
    assert "accuracy at chance" not in names(digits_net, x, y)
    assert "accuracy at chance" in names(digits_net, x, (y + 1) % 10), "classes in another order"
    assert "accuracy at chance" not in names(digits_net, x[:8], (y[:8] + 1) % 10), "eight points tell nothing"


def test_train_mode_rings_for_layers_that_have_modes(digits: Digits) -> None:
    x, y = digits[0][:30], digits[1][:30]
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).train()
    assert "train mode" not in names(plain, x, y)
    assert "train mode" in names(nn.Sequential(plain, nn.Dropout(0.5)).train(), x, y)

    class Own(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if self.training else x

    assert "train mode" in names(nn.Sequential(plain, Own()).train(), x, y)
