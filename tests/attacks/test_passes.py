"""Ways of passing: the fastest that agrees is taken, the model is left as found, and outcomes stay the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from radii.attacks import passes
from radii.attacks.apgd import APGD
from radii.attacks.passes import AS_IT_IS, CHANNELS_LAST, GRAPH, forward_way, frozen_graph, gradient_layout
from radii.attacks.square import Square
from radii.models.classifier import frozen
from radii.randomness import stream
from radii.threat import Ball

Digits = tuple[Tensor, Tensor]
MANY = 10**6


@pytest.fixture(autouse=True)
def fresh_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was measured before."""
    monkeypatch.setattr(passes, "_measured", {})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that only the passes themselves move."""
    now = [0.0]
    monkeypatch.setattr(passes.time, "process_time", lambda: now[0])

    def spend(seconds: float) -> None:
        now[0] += seconds

    return spend


@pytest.mark.parametrize(("cost", "chosen"), [(0.5, GRAPH), (0.89, GRAPH), (0.95, AS_IT_IS), (2.0, AS_IT_IS)])
def test_another_way_must_be_clearly_faster(clock: Callable[[float], None], cost: float, chosen: str) -> None:
    calls = []
    ways = {AS_IT_IS: lambda: clock(1.0), GRAPH: lambda: (calls.append(1), clock(cost))}
    assert passes._fastest(("net",), ways) == chosen
    before = len(calls)
    assert passes._fastest(("net",), ways) == chosen
    assert len(calls) == before, "measured once, so that results repeat"


def test_frozen_graphs_are_made_only_of_models_that_do_not_branch(digits_net: nn.Module, digits: Digits) -> None:
    x = digits[0][:16]

    class Branching(nn.Module):
        """Does another thing for bright images, which a trace of two images cannot know."""

        def __init__(self) -> None:
            super().__init__()
            self.net = digits_net

        def forward(self, batch: Tensor) -> Tensor:
            return self.net(batch) if float(batch.mean()) < 2 else -self.net(batch)

    with frozen(digits_net):
        graph = frozen_graph(digits_net, x)
        assert graph is not None
        assert torch.allclose(graph(x[:5]), digits_net(x[:5]), atol=1e-4)
        assert frozen_graph(Branching(), x) is None


def test_a_way_that_disagrees_is_not_taken(
    digits_net: nn.Module, digits: Digits, monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None]
) -> None:
    """However fast: here nothing but the model itself takes time."""
    monkeypatch.setattr(passes, "frozen_graph", lambda model, x: lambda batch: model(batch) + 0.1)
    monkeypatch.setattr(passes, "_inside", lambda layout, model, batch: model(batch).flip(1))
    with frozen(digits_net):
        assert forward_way(digits_net, digits[0], MANY) is digits_net
        inside = gradient_layout(digits_net, digits[0], MANY)
    assert set(passes._measured.values()) == {AS_IT_IS}
    with inside():
        assert digits_net[0].weight.is_contiguous()


def test_nothing_is_measured_for_few_passes_or_where_bits_matter(digits_net: nn.Module, digits: Digits) -> None:
    x = digits[0]
    assert forward_way(digits_net, x, 100) is digits_net
    assert forward_way(nn.Linear(4, 2).eval(), torch.rand(8, 4), MANY) is not None
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert forward_way(digits_net, x, MANY) is digits_net
        gradient_layout(digits_net, x, MANY)
    finally:
        torch.use_deterministic_algorithms(False)
    assert not passes._measured


def test_channels_last_puts_everything_back(digits_net: nn.Module) -> None:
    weight = digits_net[0].weight
    before, values, place = weight.stride(), weight.detach().clone(), weight.data_ptr()
    layout = passes.channels_last(digits_net)
    seen = []

    def fail() -> None:
        with layout():
            seen.append((weight.stride() != before, torch.equal(weight, values)))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [(True, True)]
    assert digits_net[0].weight is weight
    assert weight.stride() == before
    assert weight.data_ptr() == place


def test_strided_pointwise_convolutions_keep_their_order() -> None:
    """torch 2.13 writes out of bounds there in channels_last."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1, stride=2))
    with passes.channels_last(net)():
        assert all(part.weight.is_contiguous() for part in net)


@pytest.mark.parametrize("way", [AS_IT_IS, CHANNELS_LAST, GRAPH])
def test_every_way_has_the_same_outcome(
    way: str, digits_net: nn.Module, digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = digits[0][1200:1260], digits[1][1200:1260]
    ball = Ball("linf", 0.08)
    attacks = (APGD("ce", steps=20), Square(queries=60))
    plain = [attack(digits_net, x, y, ball, stream(0)).broken for attack in attacks]
    monkeypatch.setattr(passes, "WORTH_MEASURING", 0)
    monkeypatch.setattr(passes, "_fastest", lambda key, ways: passes._measured.setdefault(key, _of(way, ways)))
    for attack, wanted in zip(attacks, plain, strict=True):
        assert torch.equal(attack(digits_net, x, y, ball, stream(0)).broken, wanted)
    assert way in passes._measured.values()


def _of(way: str, ways: dict[str, object]) -> str:
    return way if way in ways else AS_IT_IS
