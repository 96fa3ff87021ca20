"""Ball: parsing, distances, projections and random starts, over random balls and points."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from radii.errors import InputError
from radii.randomness import stream
from radii.rounding import format_radius
from radii.threat import Ball, length

NORMS = ["l2", "linf"]
balls = st.builds(
    Ball,
    st.sampled_from(NORMS),
    st.floats(1e-4, 10),
    st.sampled_from([None, (0.0, 1.0), (-1.0, 2.0)]),
)


def pair(seed: int, spread: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Centers inside [0, 1] and points anywhere."""
    center = torch.rand(5, 2, 3, 3, generator=stream(seed, "center"))
    return center, center + spread * torch.randn(center.shape, generator=stream(seed, "point"))


@pytest.mark.parametrize(
    ("text", "norm", "radius", "box"),
    [
        ("linf:8/255", "linf", 8 / 255, (0.0, 1.0)),
        ("l2:36/255", "l2", 36 / 255, (0.0, 1.0)),
        ("L2:0.5", "l2", 0.5, (0.0, 1.0)),
        ("linf:0.3,nobox", "linf", 0.3, None),
        (" l1 : 3 ".replace(" ", ""), "l1", 3.0, (0.0, 1.0)),
        ("l2:1e-3, nobox", "l2", 1e-3, None),
    ],
)
def test_parsing(text: str, norm: str, radius: float, box: tuple[float, float] | None) -> None:
    ball = Ball.parse(text)
    assert (ball.norm, ball.radius, ball.box) == (norm, radius, box)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("linf", "not understood"),
        ("l3:0.1", "No norm is called 'l3'"),
        ("linff:0.1", "Did you mean 'linf'"),
        ("linf:8/0", "divides by zero"),
        ("linf:-0.1", "at least 0"),
        ("linf:nan", "finite"),
        ("linf:inf", "finite"),
        ("linf:eight", "not a number"),
        ("l2:1,box", "only ',nobox'"),
        ("", "not understood"),
    ],
)
def test_mistakes_are_told(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Ball.parse(text)


def test_a_ball_that_covers_the_box_is_questioned() -> None:
    with pytest.raises(InputError, match=r"linf:8 covers the whole box \[0, 1\]. Did you mean linf:8/255\?"):
        Ball.parse("linf:8")
    assert Ball.parse("linf:8,nobox").radius == 8
    assert Ball.parse("linf:1").radius == 1
    assert Ball.parse("l2:8").radius == 8


@given(balls)
def test_text_reads_back(ball: Ball) -> None:
    if ball.box == (-1.0, 2.0) or (ball.norm == "linf" and ball.radius > 1 and ball.box is not None):
        return
    again = Ball.parse(str(ball))
    assert again.radius == pytest.approx(ball.radius, rel=1e-9)
    assert (again.norm, again.box) == (ball.norm, ball.box)


def test_whole_grey_levels_read_as_such() -> None:
    assert [format_radius(r) for r in (8 / 255, 36 / 255, 0.3, 1.0, 0.0)] == ["8/255", "36/255", "0.3", "1", "0"]


def test_ball_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="radius must be at least 0"):
        Ball("l2", -1.0)
    with pytest.raises(InputError, match="finite"):
        Ball("l2", float("nan"))
    with pytest.raises(InputError, match="low < high"):
        Ball("l2", 1.0, (1.0, 0.0))
    with pytest.raises(ValidationError):
        Ball("l2", 1.0).radius = 2.0  # type: ignore[misc]
    with pytest.raises(InputError, match="l2 and linf"):
        Ball("l1", 1.0).project(*pair(0))


@settings(deadline=None)
@given(balls, st.integers(0, 10**6), st.floats(0, 5))
def test_projection_lands_inside_and_changes_nothing_inside(ball: Ball, seed: int, spread: float) -> None:
    center, point = pair(seed, spread)
    projected = ball.project(point, center)
    assert bool(ball.contains(projected, center).all())
    assert torch.allclose(ball.project(projected, center), projected, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(NORMS), st.integers(0, 10**6))
def test_projection_without_box_is_the_nearest_point(norm: str, seed: int) -> None:
    """No other point of the ball is closer (in L2, to which both projections are orthogonal)."""
    ball = Ball(norm, 0.7, None)  # type: ignore[arg-type]
    center, point = pair(seed)
    best = length(ball.project(point, center) - point, "l2")
    for trial in range(20):
        other = ball.random_start(center, stream(seed, "other", trial))
        assert bool((length(other - point, "l2") >= best - 1e-5).all())


@settings(deadline=None)
@given(balls, st.integers(0, 10**6))
def test_random_starts_lie_in_the_ball_and_are_reproducible(ball: Ball, seed: int) -> None:
    center, _ = pair(seed)
    start = ball.random_start(center, stream(seed, "start"))
    assert bool(ball.contains(start, center).all())
    assert torch.equal(start, ball.random_start(center, stream(seed, "start")))


def test_l2_random_starts_are_uniform_in_volume() -> None:
    """The share within half the radius is 2^-d."""
    x = torch.full((200_000, 3), 0.5)
    distance = length(Ball("l2", 1.0, None).random_start(x, stream(1, "volume")) - x, "l2")
    assert float((distance <= 0.5).double().mean()) == pytest.approx(1 / 8, abs=3e-3)


def test_distances_agree_with_numpy() -> None:
    x, y = pair(3)
    flat = (x - y).flatten(1).double().numpy()
    for norm, expected in (
        ("l1", abs(flat).sum(1)),
        ("l2", (flat**2).sum(1) ** 0.5),
        ("linf", abs(flat).max(1)),
    ):
        assert Ball(norm, 1.0).distance(x, y).numpy() == pytest.approx(expected, rel=1e-5)  # type: ignore[arg-type]
