"""The engine: nothing of the user's model is changed, nothing unproven is claimed, every point is its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch
from torch import Tensor, nn

from oracles.exact_ball import is_in_ball
from radii import progress
from radii.attacks.apgd import APGD
from radii.attacks.attack import Attack, AttackRun
from radii.attacks.fab import FAB
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.pgd import PGD
from radii.attacks.point_randomness import start_inside, start_on_surface
from radii.attacks.square import Square
from radii.errors import InputError
from radii.models.classifier import predict
from radii.randomness import stream
from radii.threat import Ball, Norm

ATTACKS: dict[str, Attack] = {
    "pgd": PGD(steps=10, step=0.25),
    "pgd restarts": PGD(steps=5, step=0.3, restarts=3),
    "apgd-ce": APGD("ce", steps=20),
    "apgd-dlr": APGD("dlr", steps=20),
    "apgd-t": APGD("dlr-targeted", steps=10, targets=2),
    "fab": FAB(steps=10, targets=2),
    "square": Square(queries=40),
    "minimum-norm": MinimumNorm(steps=20),
}
BALLS = [
    *(Ball("linf", 0.15), Ball("l2", 0.6), Ball("linf", 0.1, None), Ball("l2", 0.5, None)),
    Ball("linf", 0.15, (0.0, 1.0000000001)),  # an end that is no float32 number
]
every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
every_ball = pytest.mark.parametrize("ball", BALLS, ids=str)


@every_attack
@every_ball
def test_successes_are_real(attack: Attack, ball: Ball, digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][1200:1230], digits[1][1200:1230]
    result = attack(digits_net, x, y, ball, stream(0, "test"))
    assert result.x_adv.dtype == torch.float32
    assert result.broken.any(), "a naturally trained net breaks somewhere"
    for batch_size in (1, 7, 30):
        again = predict(digits_net, result.x_adv, batch_size)
        assert ((again != y) == result.broken)[result.broken].all()
    assert all(is_in_ball(ball, moved, clean) for moved, clean in zip(result.x_adv, x, strict=True))
    assert torch.equal(result.x_adv[~result.broken], x[~result.broken])
    assert result.broken[predict(digits_net, x) != y].all(), "clean mistakes count as broken"
    assert (result.queries >= 1).all()


@every_attack
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_model_is_asked_in_the_box_alone(attack: Attack, norm: Norm, digits: tuple[Tensor, Tensor]) -> None:
    """In the ball alone, too, but for searches of the smallest change and Auto-PGD's first steps in L1, by design."""
    x, y = digits[0][:4], digits[1][:4]
    ball = Ball(norm, {"linf": 0.3, "l2": 1.0, "l1": 4.0}[norm])
    asked: list[Tensor] = []
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with torch.no_grad():
        net[1].weight.mul_(0.01)
        net[1].bias.copy_(10.0 * torch.eye(10)[y[0]])  # nothing breaks the first class: its searches do all their steps

    class Seen(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            asked.append(batch.detach().clone())
            return net(batch)

    attack(Seen(), x, y[:1].repeat(4), ball, stream(0, "test"))
    points = torch.cat(asked)
    assert float(points.min()) >= 0
    assert float(points.max()) <= 1
    if not isinstance(attack, FAB | MinimumNorm) and not (isinstance(attack, APGD) and norm == "l1"):
        near = Ball(norm, ball.radius * (1 + 1e-5))
        reached = torch.stack([near.contains(points, one[None].expand_as(points)) for one in x]).any(0)
        assert reached.all()


@every_attack
@every_ball
def test_a_point_fares_alike_in_any_company(
    attack: Attack, ball: Ball, digits_net: nn.Module, digits: tuple[Tensor, Tensor]
) -> None:
    x, y = digits[0][1260:1280], digits[1][1260:1280]
    model = digits_net
    whole = attack(model, x, y, ball, stream(1, "test"))
    small = _with_batch(attack, 7)(model, x, y, ball, stream(1, "test"))
    part = attack(model, x[10:20], y[10:20], ball, stream(1, "test"))
    assert torch.equal(whole.broken, small.broken)
    assert torch.equal(whole.broken[10:20], part.broken)
    assert torch.allclose(whole.x_adv, small.x_adv, atol=1e-4) or _mostly_equal(whole.x_adv, small.x_adv)


def _mostly_equal(first: Tensor, second: Tensor) -> bool:
    """Rounding in the network's kernels may turn the sign of a vanishing gradient in single pixels."""
    return float(((first - second).abs() < 1e-4).float().mean()) > 0.95


def _with_batch(attack: Attack, batch_size: int) -> Attack:
    from dataclasses import replace

    return replace(attack, batch_size=batch_size)  # type: ignore[type-var]


@every_attack
def test_the_model_is_left_as_found(attack: Attack, digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:20], digits[1][:20]
    model = nn.Sequential(digits_net, nn.Dropout(0.5), nn.BatchNorm1d(10))
    model.train()
    model[1].eval()
    digits_net[0].weight.requires_grad_(False)
    marker = torch.ones_like(digits_net[4].weight)
    digits_net.zero_grad()
    digits_net[4].weight.grad = marker
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    try:
        attack(model, x, y, Ball("linf", 0.1), stream(0, "test"))
        assert model.training
        assert not model[1].training
        assert not digits_net[0].weight.requires_grad
        assert digits_net[4].weight.requires_grad
        assert digits_net[4].weight.grad is marker
        assert torch.equal(marker, torch.ones_like(marker))
        assert digits_net[0].weight.grad is None
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
        assert torch.equal(state, torch.get_rng_state()), "the global generator is the user's"
    finally:
        digits_net[0].weight.requires_grad_(True)
        digits_net[4].weight.grad = None
        digits_net.eval()


def test_broken_points_leave_at_once(digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    """The model sees what the queries say, and far less than a full run of 100 steps."""
    x, y = digits[0][:64], digits[1][:64]
    APGD("ce")(_Counting(digits_net), x, y, Ball("linf", 0.4), stream(0, "test"))  # measures the ways of passing
    counted = _Counting(digits_net)
    result = APGD("ce")(counted, x, y, Ball("linf", 0.4), stream(0, "test"))
    assert result.broken.all()
    assert counted.images + counted.backward == int(result.queries.sum())
    assert counted.images < 64 * 20


def test_batches_are_kept_full(digits_net: nn.Module, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:128], digits[1][:128]
    counted = _Counting(digits_net)
    PGD(steps=20, batch_size=32)(counted, x, y, Ball("linf", 0.08), stream(0, "test"))
    gradient_batches = counted.gradient_batches[:-20]  # the last ones shrink as nobody is waiting
    assert gradient_batches
    assert sum(gradient_batches) / len(gradient_batches) >= 24


class _Counting(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.images, self.backward = net, 0, 0
        self.gradient_batches: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.images += len(x)
        if x.requires_grad:
            self.gradient_batches.append(len(x))
            x.register_hook(self._seen)
        return self.net(x)

    def _seen(self, gradient: Tensor) -> None:
        self.backward += len(gradient)


def test_a_prediction_that_does_not_stand_is_no_success(linear: tuple[nn.Linear, Tensor, Tensor]) -> None:
    """A model that errs only in batches of the attack's size is not broken by it."""
    model, x, y = linear

    class Moody(nn.Module):
        calls = 0

        def forward(self, batch: Tensor) -> Tensor:
            Moody.calls += 1
            flip = Moody.calls % 2 == 0  # every second answer is wrong
            return -model(batch) if flip else model(batch)

    result = PGD(steps=3)(Moody(), x, y, Ball("linf", 1e-6, None), stream(0))
    again = predict(model, result.x_adv)
    assert (again[~result.broken] == y[~result.broken]).all()


@pytest.mark.parametrize("times_wrong", [0, 1])
def test_a_success_stands_twice_and_is_a_number(times_wrong: int, linear: tuple[nn.Linear, Tensor, Tensor]) -> None:
    """A wrong answer that does not come again is no success; neither is NaN, at which every answer is wrong."""
    model, x, y = linear

    class Once(nn.Module):
        calls = 0

        def forward(self, batch: Tensor) -> Tensor:
            self.calls += 1  # the first call asks about the clean inputs
            return -model(batch) if 2 <= self.calls < 2 + times_wrong else model(batch)

    trial = AttackRun(Once(), x, y, Ball("linf", 0.1, None), stream(0), 256)
    candidates = x if times_wrong else torch.full_like(x, torch.nan)
    every = torch.arange(len(x))
    trial.confirm(every, candidates)
    trial._confirm(every, candidates)
    assert not trial.broken.any()
    assert torch.equal(trial.x_adv, x)


@every_attack
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_clean_mistake_is_broken_without_a_search(attack: Attack, norm: Norm) -> None:
    """A model that errs at the inputs alone: no search would find the way back to them."""
    x = torch.rand(3, 5, generator=torch.Generator().manual_seed(0))

    class WrongThere(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            there = (batch[:, None] == x).all(2).any(1).float() + 0 * batch.sum(1)
            return torch.stack([1 - there, there], 1)

    result = attack(WrongThere(), x, torch.zeros(3, dtype=torch.int64), Ball(norm, 0.2), stream(0, "test"))
    assert result.broken.all()
    assert torch.equal(result.x_adv, x)
    assert (result.queries == 1).all()


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_starts_are_uniform_in_the_ball(norm: Norm) -> None:
    """The share of starts within r of the radius is r^d, and no direction is preferred."""
    ball, x = Ball(norm, 0.5, None), torch.zeros(1000, 3)
    seeds = torch.arange(1000) * 7919
    start = start_inside(x, ball, seeds)
    share = (ball.distance(x, start) / ball.radius) ** 3
    for level in (0.1, 0.5, 0.9):
        assert abs(float((share < level).float().mean()) - level) < 0.05
    assert float(start.mean(0).abs().max()) < 0.03
    surface = ball.distance(x, start_on_surface(x, ball, seeds))
    torch.testing.assert_close(surface, torch.full_like(surface, 0.5), rtol=1e-5, atol=0)


def test_progress_says_how_many_are_left(linear: tuple[nn.Linear, Tensor, Tensor]) -> None:
    model, x, y = linear
    seen: list[tuple[float, str]] = []
    totals: list[float | None] = []

    class Shown:
        def advance(self, amount: float = 1, note: str = "") -> None:
            seen.append((amount, note))

    class Display:
        @contextmanager
        def _open(self, total: float | None) -> Iterator[Shown]:
            totals.append(total)
            yield Shown()

        def task(self, what: str, total: float | None, unit: str) -> AbstractContextManager[Shown]:
            return self._open(total)

        def say(self, sentence: str) -> None: ...

    with progress.display(Display()):
        PGD(steps=5, batch_size=16)(model, x, y, Ball("linf", 0.05, None), stream(0))
    assert totals == [60]
    assert sum(amount for amount, _ in seen) == 60
    assert seen[-1][1].endswith(" broken, 0 to go")


def test_bad_input_is_refused(linear: tuple[nn.Linear, Tensor, Tensor]) -> None:
    model, x, y = linear
    with pytest.raises(InputError, match=r"must lie in \[0, 1\]"):
        PGD()(model, x * 3 - 1, y, Ball("linf", 0.1), stream(0))
    with pytest.raises(InputError, match="int64"):
        PGD()(model, x, y.float(), Ball("linf", 0.1), stream(0))
    with pytest.raises(InputError, match=r"Labels must lie in 0\.\.4"):
        PGD()(model, x, y + 5, Ball("linf", 0.1), stream(0))
    with pytest.raises(InputError, match="NaN"):
        PGD()(model, x * float("nan"), y, Ball("linf", 0.1), stream(0))
    with pytest.raises(InputError, match="divide uint8"):
        PGD()(model, (x * 255).byte(), y, Ball("linf", 0.1), stream(0))


def test_a_model_without_gradients_is_told_what_to_do(linear: tuple[nn.Linear, Tensor, Tensor]) -> None:
    model, x, y = linear

    class Opaque(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            return model(batch.detach()).detach()

    with pytest.raises(InputError, match="without gradients"):
        PGD()(Opaque(), x, y, Ball("linf", 0.1), stream(0))
    assert Square(queries=50)(Opaque(), x, y, Ball("linf", 0.5, None), stream(0)).broken.any()
