"""Ball: parsing, distances, projections and random starts, over random balls and points."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from oracles.exact_ball import is_in_ball
from radii.errors import InputError
from radii.feature_limits import FeatureLimits, Relation
from radii.randomness import stream
from radii.tables import format_radius
from radii.threat import Ball, converted, length, nearest_in_l1

NORMS = ["l1", "l2", "linf"]
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
        ("linf:2sd", "linf", 2.0, (0.0, 1.0)),
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
        ("linf:1/2/3", "not a number"),
        ("l2:0.5/2", "not a number"),
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


@pytest.mark.parametrize("source", NORMS)
@pytest.mark.parametrize("target", NORMS)
def test_a_ball_of_another_norm_just_fits(source: str, target: str) -> None:
    """Its farthest points are a corner, or all coordinates alike: within the first ball, and one of them on its rim."""
    for dimension in (1, 4, 9):
        radius = converted(torch.tensor([2.0]), source, target, dimension)  # type: ignore[arg-type]
        ends = torch.stack([torch.ones(dimension), torch.eye(dimension)[0]])
        ends = ends / length(ends, target)[:, None] * radius  # type: ignore[arg-type]
        assert float(length(ends, source).max()) == pytest.approx(2.0)  # type: ignore[arg-type]


def test_whole_grey_levels_read_as_such() -> None:
    assert [format_radius(r) for r in (8 / 255, 36 / 255, 0.2, 0.3, 1.0, 0.0)] == [
        *("8/255", "36/255", "0.2", "0.3", "1", "0")
    ]


def test_ball_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="radius must be at least 0"):
        Ball("l2", -1.0)
    with pytest.raises(InputError, match="finite"):
        Ball("l2", float("nan"))
    with pytest.raises(InputError, match="low < high"):
        Ball("l2", 1.0, (1.0, 0.0))
    with pytest.raises(ValidationError):
        Ball("l2", 1.0).radius = 2.0  # type: ignore[misc]
    with pytest.raises(InputError, match="scale must be positive"):
        Ball("l2", 1.0, scale=(1.0, 0.0))
    with pytest.raises(InputError, match="counts standard deviations"):
        Ball.parse("l2:0.1sd").project(*pair(0))


def exactly(ball: Ball, point: torch.Tensor, center: torch.Tensor) -> list[bool]:
    return [is_in_ball(ball, one, middle) for one, middle in zip(point, center, strict=True)]


@settings(deadline=None)
@given(balls, st.integers(0, 10**6), st.floats(0, 5))
def test_projection_lands_inside_and_changes_nothing_inside(ball: Ball, seed: int, spread: float) -> None:
    center, point = pair(seed, spread)
    projected = ball.project(point, center)
    assert all(exactly(ball, projected, center))
    assert torch.equal(ball.project(projected, center), projected)
    assert torch.allclose(ball.clip(point, center), projected, atol=1e-5)


ENDS = st.floats(-4, 4).filter(lambda end: end not in (0.0, 1.0))
extreme_balls = st.builds(
    lambda norm, radius, low, width, boxed: Ball(norm, radius, (low, low + width) if boxed else None),
    st.sampled_from(NORMS),
    st.one_of(st.floats(0, 3), st.sampled_from([0.0, 0.25, 8 / 255, 1e-9, 1e-30, 2.0**-149])),
    ENDS,
    st.floats(0.1, 4),
    st.booleans(),
)
singles = st.floats(-5, 5, width=32)
numbers = st.one_of(singles, st.sampled_from([0.0, 1.0, 0.5, 0.25, 2.0**-149, -(2.0**-126), 2.0**-24, 1 + 2.0**-23]))


@settings(deadline=None, max_examples=400)
@given(extreme_balls, st.lists(numbers, min_size=3, max_size=3), st.data())
def test_membership_is_exact(ball: Ball, values: list[float], data: st.DataObject) -> None:
    """On numbers of any size, on the surface and one float32 beside it."""
    center = torch.tensor([values], dtype=torch.float32)
    surface = [float(torch.tensor(value + sign * ball.radius)) for value in values for sign in (-1, 1)]
    there = data.draw(st.lists(st.one_of(numbers, st.sampled_from([*surface, *values])), min_size=3, max_size=3))
    point = torch.tensor([there], dtype=torch.float32)
    for trial in (point, torch.nextafter(point, center), torch.nextafter(point, 2 * point - center)):
        assert ball.contains(trial, center).tolist() == exactly(ball, trial, center)


@settings(deadline=None, max_examples=400)
@given(extreme_balls, st.lists(numbers, min_size=3, max_size=3), st.data())
def test_projection_of_extreme_numbers_is_exact(ball: Ball, values: list[float], data: st.DataObject) -> None:
    center = torch.tensor([values], dtype=torch.float32).clamp(*ball.ends)
    far = data.draw(st.lists(st.one_of(numbers, st.sampled_from([1e30, -3e38, 7.0])), min_size=3, max_size=3))
    projected = ball.project(torch.tensor([far], dtype=torch.float32), center)
    assert projected.dtype == torch.float32
    assert exactly(ball, projected, center) == [True]
    assert ball.contains(projected, center).tolist() == [True]


@pytest.mark.parametrize("norm", NORMS)
def test_projection_of_float64_is_exact(norm: str) -> None:
    """Nothing is rounded to float32 on the way, which would shorten a step by far more than float64 errs."""
    generator = torch.Generator().manual_seed(1)
    for ball in (Ball(norm, 0.3, None), Ball(norm, 0.3), Ball(norm, 0.3, None, scale=(0.1, 1.0, 3.0, 7.0))):  # type: ignore[arg-type]
        center = torch.rand(100, 4, generator=generator, dtype=torch.float64)
        point = center + 4 * torch.randn(100, 4, generator=generator, dtype=torch.float64)
        projected = ball.project(point, center)
        assert projected.dtype == torch.float64
        assert all(exactly(ball, projected, center))
        assert (ball.distance(center, projected) > 0.29).any()


def test_membership_where_float64_cannot_tell() -> None:
    """3-4-5 triangles on the surface, and points whose square length exceeds the radius' by 2^-60 of it."""
    center = torch.zeros(1, 2)
    assert Ball("l2", 5 / 16, None).contains(torch.tensor([[3 / 16, 4 / 16]]), center).tolist() == [True]
    assert Ball("l2", 1.0, None).contains(torch.tensor([[1.0, 2.0**-30]]), center).tolist() == [False]
    assert Ball("l1", 1.0, None).contains(torch.tensor([[1.0, 2.0**-100]]), center).tolist() == [False]
    assert Ball("l1", 1.0, None).contains(torch.tensor([[0.75, -0.25]]), center).tolist() == [True]
    assert Ball("linf", 1.0, None).contains(torch.tensor([[1.0]]), torch.tensor([[-(2.0**-100)]])).tolist() == [False]
    assert Ball("linf", 0.1, (0.0, 0.1)).contains(torch.tensor([[0.1]]), torch.tensor([[0.05]])).tolist() == [False]
    assert Ball("linf", 1.0, (0.0, 1e39)).ends == (0.0, torch.finfo(torch.float32).max)


def test_nan_is_nowhere_and_fixed_features_stay() -> None:
    center, nan = torch.zeros(1, 2), torch.tensor([[0.0, float("nan")]])
    for norm in ("l1", "l2", "linf"):
        assert not bool(Ball(norm, 1.0, None).contains(nan, center))  # type: ignore[arg-type]
    ball = Ball("linf", 1.0, None, fixed=(1,))
    moved = torch.tensor([[0.5, 2.0**-149]])
    assert not bool(ball.contains(moved, center))
    for nearest in (ball.project, ball.clip):
        assert nearest(moved, center).tolist() == [[0.5, 0.0]]


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
    assert all(exactly(ball, start, center))
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


scaled_balls = st.builds(
    lambda norm, radius, scale, low, boxed, fixed: Ball(norm, radius, (low, low + 3) if boxed else None, fixed, scale),
    st.sampled_from(NORMS),
    st.one_of(st.floats(1e-6, 3), st.sampled_from([0.0, 0.25, 8 / 255])),
    st.tuples(*[st.one_of(st.floats(1e-3, 1e3), st.sampled_from([1.0, 0.1, 3.0]))] * 3),
    ENDS,
    st.booleans(),
    st.sampled_from([(), (1,)]),
)


@settings(deadline=None, max_examples=300)
@given(scaled_balls, st.lists(numbers, min_size=3, max_size=3), st.data())
def test_scaled_membership_and_projection_are_exact(ball: Ball, values: list[float], data: st.DataObject) -> None:
    """On the surface of each feature's reach, one float32 beside it, and after a projection from anywhere."""
    center = torch.tensor([values], dtype=torch.float32).clamp(*ball.ends)
    ends = [
        value + sign * ball.radius * scale for value, scale in zip(values, ball.scale, strict=True) for sign in (-1, 1)
    ]
    reach = torch.tensor(ends).tolist()
    there = data.draw(st.lists(st.one_of(numbers, st.sampled_from([*reach, *values, 1e30])), min_size=3, max_size=3))
    point = torch.tensor([there], dtype=torch.float32)
    for trial in (point, torch.nextafter(point, center), torch.nextafter(point, 2 * point - center)):
        assert ball.contains(trial, center).tolist() == exactly(ball, trial, center)
    projected = ball.project(point, center)
    assert exactly(ball, projected, center) == [True]
    assert torch.equal(ball.project(projected, center), projected)


def test_a_scale_of_one_is_no_scale_and_distances_count_in_scales() -> None:
    center, point = torch.zeros(1, 2), torch.tensor([[3.0, 0.4]])
    for norm, far in (("l1", 1.0), ("l2", (0.36 + 0.16) ** 0.5), ("linf", 0.6)):
        ball = Ball(norm, 1.0, None, scale=(5.0, 1.0))  # type: ignore[arg-type]
        assert float(ball.distance(center, point)) == pytest.approx(far)
        same = Ball(norm, 0.3, None, scale=(1.0, 1.0))  # type: ignore[arg-type]
        assert torch.equal(same.clip(point, center), Ball(norm, 0.3, None).clip(point, center))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="scale for 2 features, the rows have 3"):
        ball.contains(torch.zeros(1, 3), torch.zeros(1, 3))


limits = st.builds(
    lambda whole, rising, falling, ranges: FeatureLimits(whole=whole, rising=rising, falling=falling, ranges=ranges),
    st.sampled_from([(), (0,), (0, 2)]),
    st.sampled_from([(), (1,)]),
    st.sampled_from([(), (2,)]),
    st.sampled_from([(), ((1, -1.5, 2.5),), ((0, 0.1, 0.3), (2, -7.0, 7.0))]),
)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(NORMS), st.floats(0, 3), limits, st.integers(0, 10**6))
def test_projection_keeps_feature_limits(norm: str, radius: float, allowed: FeatureLimits, seed: int) -> None:
    ball = Ball(norm, radius, None, scale=(2.0, 1.0, 0.5), limits=allowed)  # type: ignore[arg-type]
    center = torch.randn(4, 3, generator=stream(seed, "center")).mul(2)
    center[:2] = center[:2].round()
    point = center + 5 * torch.randn(4, 3, generator=stream(seed, "point"))
    projected = ball.project(point, center)
    assert all(exactly(ball, projected, center))
    low, high = ball.room(center)
    assert bool(((projected >= low) & (projected <= high)).all())
    for trial in (projected, point, center):
        assert ball.contains(trial, center).tolist() == exactly(ball, trial, center)


def test_whole_features_take_every_step_that_fits() -> None:
    ball = Ball("linf", 2.0, None, limits=FeatureLimits(whole=(0,)))
    assert ball.project(torch.tensor([[9.0, 9.0]]), torch.tensor([[1.0, 1.0]])).tolist() == [[3.0, 3.0]]
    assert ball.project(torch.tensor([[-0.9, 0.0]]), torch.tensor([[1.0, 1.0]])).tolist() == [[0.0, 0.0]]


def test_relations_draw_a_row_back() -> None:
    """x0 + x1 <= 3 from (1, 1): the step (2, 2) ends where the sum is 3; an equation stands."""
    at_most = FeatureLimits(relations=(Relation(weights=((0, 1.0), (1, 1.0)), high=3.0),))
    center = torch.ones(1, 2)
    moved = Ball("linf", 2.0, None, limits=at_most).project(torch.tensor([[3.0, 3.0]]), center)
    assert moved[0].tolist() == pytest.approx([1.5, 1.5], abs=1e-5)
    equation = FeatureLimits(relations=(Relation(weights=((0, 1.0), (1, 1.0)), low=2.0, high=2.0),))
    ball = Ball("linf", 2.0, None, limits=equation)
    assert ball.contains(torch.tensor([[3.0, -1.0], [3.0, 3.0]]), center.repeat(2, 1)).tolist() == [True, False]
    assert ball.contains(ball.project(torch.tensor([[3.0, -0.5]]), center), center).tolist() == [True]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.01, 5))
def test_the_l1_step_is_the_nearest(seed: int, radius: float) -> None:
    """It is feasible and no feasible point on the way to random others is nearer: the condition of a projection."""
    generator = stream(seed, "l1")
    step = 3 * torch.randn(6, 7, generator=generator, dtype=torch.float64)
    low, high = -torch.rand(6, 7, generator=generator).double(), 2 * torch.rand(6, 7, generator=generator).double()
    high[:, 0] = torch.inf
    own = nearest_in_l1(step, radius, low, high)
    assert bool((own.abs().sum(1) <= radius * (1 + 1e-12)).all())
    assert bool(((own >= low) & (own <= high)).all())
    for _ in range(20):
        other = torch.randn(6, 7, generator=generator).double().clamp(low, high)
        other *= (radius / other.abs().sum(1, keepdim=True)).clamp_max(1)
        assert bool((((step - own) * (other - own)).sum(1) <= 1e-9).all())


def test_a_plain_ball_has_the_canonical_form_of_old() -> None:
    assert Ball("linf", 0.1).canonical_json() == '{"box":[0.0,1.0],"norm":"linf","radius":0.1}'
    scaled = Ball("l1", 1.0, None, (1,), (1.0, 2.0), FeatureLimits(whole=(0,)), "sd")
    assert Ball(**json.loads(scaled.canonical_json())) == scaled
