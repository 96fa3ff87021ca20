"""Every operation against torch and samples: equal values, and bounds that hold for what float32 computes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.bounds.bound_engine import Engine
from radii.bounds.regions import Domain
from radii.errors import InputError
from radii.networks.operations.activations import Relu, Rising
from radii.networks.operations.curves import CURVES, Curved
from radii.networks.operations.linear import Peak, batch_norm_peak
from radii.networks.operations.pooling import MaxPool
from radii.networks.operations.products import Product
from radii.networks.program import Program
from radii.networks.read_torch import read_torch

ARGUMENTS: dict[str, tuple[float, ...]] = {
    "clamp": (-0.5, 0.75),
    "elu": (1.7, 1.05, 0.8),  # a kink at 0, as SELU has
    "softplus": (2.0,),
    "pow": (3.0,),
}


def intervals(curve: str, count: int = 300) -> tuple[Tensor, Tensor]:
    """Intervals of all widths, many around 0, inside the domain of the curve."""
    generator = torch.Generator().manual_seed(len(curve))
    center = torch.randn(count, 1, generator=generator) * 4
    reach = torch.rand(count, 1, generator=generator) ** 4 * 8
    first, last = CURVES[curve].domain
    low, high = center - reach, center + reach
    if first > 0:
        low, high = low.abs() + 1e-3, low.abs() + 1e-3 + 2 * reach
    return low.clamp(max(first, -50), min(last, 50)), high.clamp(max(first, -50), min(last, 50))


@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_lies_between_its_lines(curve: str) -> None:
    low, high = intervals(curve)
    step = Curved("f", (0,), (1,), curve, ARGUMENTS.get(curve, ()))
    x = torch.minimum(low + (high - low) * torch.linspace(0, 1, 400), high)
    single, double = step.value(x).double(), step.value(x.double())
    for dtype in (torch.float32, torch.float64):
        least, most = (end.double() for end in step.interval((low.to(dtype), high.to(dtype))))
        under, down, over, up = (band.double() for band in step.bands(low.to(dtype), high.to(dtype)))
        for y in (single, double):
            assert (y >= least).all()
            assert (y <= most).all()
            assert (y >= under * x.double() + down).all()
            assert (y <= over * x.double() + up).all()


@pytest.mark.parametrize("curve", CURVES)
def test_the_lines_of_a_narrow_interval_are_narrow(curve: str) -> None:
    """The gap shrinks with the square of the width, down to float32's error."""
    low, _ = intervals(curve)
    step = Curved("f", (0,), (1,), curve, ARGUMENTS.get(curve, ()))
    first, last = CURVES[curve].domain
    inside = (low > max(first, 0.05)) & (low < min(last, 3) - 1) if first > 0 else low.abs() < 3
    low = low[inside][:, None].double()
    under, down, over, up = step.bands(low, low + 1e-3)
    middle = low + 5e-4
    size = 1 + step.value(low + 1e-3).abs() + torch.as_tensor(CURVES[curve].curvature(low, low + 1e-3, step.arguments))
    kinks = [abs(middle - kink) < 1e-2 for kink in CURVES[curve].kinks(step.arguments)]
    smooth = ~torch.stack(kinks).any(0) if kinks else torch.ones_like(middle, dtype=torch.bool)
    gap = (over * middle + up) - (under * middle + down)
    assert (gap[smooth] <= ((2e-5 + 4 * CURVES[curve].error[1]) * size)[smooth]).all()


@pytest.mark.parametrize("curve", [curve for curve in CURVES if curve != "hardsigmoid"])  # torch differentiates it once
def test_the_second_derivative_is_bounded(curve: str) -> None:
    low, high = intervals(curve)
    arguments = ARGUMENTS.get(curve, ())
    bound = torch.as_tensor(CURVES[curve].curvature(low.double(), high.double(), arguments)).expand_as(low)
    x = torch.minimum(low + (high - low) * torch.linspace(0, 1, 50), high).double().requires_grad_()
    (first,) = torch.autograd.grad(CURVES[curve].value(x, *arguments).sum(), x, create_graph=True)
    second = torch.autograd.grad(first.sum(), x)[0] if first.requires_grad else torch.zeros_like(x)
    assert (second.abs() <= bound * (1 + 1e-9) + 1e-9).all()


def test_products_lie_between_their_planes() -> None:
    generator = torch.Generator().manual_seed(0)
    ends = [torch.randn(2, 500, 1, generator=generator).sort(0).values * 3 for _ in range(2)]
    (a, b), (c, d) = ((low, high) for low, high in ends)
    share = torch.rand(2, 200, 500, 1, generator=generator)
    share[:, :20] = share[:, :20].round()
    x, y = a + (b - a) * share[0], c + (d - c) * share[1]
    step = Product("f", (0, 1), (1,))
    least, most = step.interval((a, b), (c, d))
    assert (x * y >= least).all()
    assert (x * y <= most).all()
    for sign in (1.0, -1.0):
        (by_x, by_y), constant = step.lines(torch.full((500, 1, 1), sign), [(a, b), (c, d)])
        assert by_x is not None
        assert by_y is not None
        line = by_x[:, 0].double() * x.double() + by_y[:, 0].double() * y.double() + constant.double()
        assert (sign * (x * y).double() >= line).all()


def test_the_square_of_a_value_begins_at_0_only_where_the_value_has_both_signs() -> None:
    low, high = torch.tensor([[-2.0, 0.5, -3.0]]), torch.tensor([[1.0, 2.0, -1.0]])
    least, most = Product("f", (1, 1), (3,)).interval((low, high), (low, high))
    torch.testing.assert_close(least, torch.tensor([[0.0, 0.25, 1.0]]), atol=1e-5, rtol=0)
    torch.testing.assert_close(most, torch.tensor([[4.0, 4.0, 9.0]]), atol=1e-5, rtol=0)
    assert (least <= torch.tensor([[0.0, 0.25, 1.0]])).all()


def test_the_peak_of_a_batch_norm_is_above_all_that_is_computed_on_its_way() -> None:
    """(x - mean) / std weight + bias, from the left, from the right, or as x s + (bias - mean s)."""
    size = 10.0 ** (8 * torch.rand(5, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 4)
    x, weight, bias, mean, inverse = size * torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])[:, None]
    factor, offset = batch_norm_peak(weight, bias, mean, inverse)
    s, moved = weight * inverse, x - mean
    for value in (moved, moved * inverse, moved * inverse * weight + bias, s, x * s, mean * s, bias - mean * s):
        assert (value.abs() <= Peak(factor, offset).of(x.abs())).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("slope", [0.0, 0.01, 0.3])
def test_the_lines_of_a_relu_hold_to_the_last_digit(dtype: torch.dtype, slope: float) -> None:
    """By fractions: a convex function is below a line if it is at both ends, and a line through 0 is below it there."""
    generator = torch.Generator().manual_seed(4)
    size = 10.0 ** (12 * torch.rand(2, 300, generator=generator, dtype=torch.float64) - 8)
    low, high = -size[0].to(dtype), size[1].to(dtype)
    step = Relu("f", (0,), (300,), slope)
    ends = zip(low.tolist(), high.tolist(), *(band.tolist() for band in step.relaxation(low, high)), strict=True)
    for first, last, under, over, up in ends:
        exact = torch.tensor(slope, dtype=dtype).item()
        for x in (Fraction(first), Fraction(last)):
            y = max(x, Fraction(exact) * x)
            assert Fraction(under) * x <= y <= Fraction(over) * x + Fraction(up)


def test_a_step_is_bounded_by_its_number_in_float32_and_in_float64() -> None:
    """0.7 is 0.69999999 in float32, which reaches the step as float32 compares and misses it as float64 does."""
    for number in (0.1, 0.3, 0.7, 0.9):
        step = Rising("f", (0,), (1,), "ge", (number,))
        x = torch.tensor([[number]])
        near = torch.cat([torch.nextafter(x, 0 * x), x, torch.nextafter(x, 2 * x)])
        least, most = step.interval((near.double(), near.double()))
        for y in (near >= torch.tensor(number, dtype=torch.float32), near.double() >= number):
            assert ((least <= y.double()) & (y.double() <= most)).all()


def test_a_pool_lies_above_and_below_its_lines() -> None:
    """On images of random boxes, wide and narrow, for every sign of the coefficients; each pixel may be a rival."""
    generator = torch.Generator().manual_seed(2)
    middle = torch.rand(400, 1, 3, 3, generator=generator)
    reach = torch.rand(400, 1, 3, 3, generator=generator) ** 4
    low, high = middle - reach, middle + reach
    corners = torch.where(torch.rand(60, 400, 1, 3, 3, generator=generator) < 0.5, low, high)
    pool = MaxPool("f", (0,), (1, 3, 3), (2, 2), (1, 1), (0, 0), (1, 1), False)
    for sign in (1.0, -1.0):
        for window in range(4):
            A = torch.zeros(400, 1, 1, 4)
            A[..., window] = sign
            (back,), constant = pool.lines(A.view(400, 1, 1, 2, 2), [(low, high)])
            assert back is not None
            line = (back[:, 0].double() * corners.double()).flatten(2).sum(2) + constant[:, 0]
            value = sign * pool.value(corners.flatten(0, 1)).view(60, 400, 4)[..., window]
            assert (value >= line - 1e-6).all()


class Calls(nn.Module):
    """A network whose middle is one function of [n, 3, 4]."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.function = nn.Linear(6, 12), function
        size = function(torch.rand(2, 3, 4)).flatten(1).shape[1]
        self.last = nn.Linear(size, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x).view(-1, 3, 4)).flatten(1))


torch.manual_seed(11)
DENSE, CONV, UP = nn.Linear(4, 5), nn.Conv1d(3, 2, 3, padding=1), nn.ConvTranspose1d(3, 2, 2, stride=2)
NORM, GROUPS, PRELU = nn.LayerNorm(4), nn.GroupNorm(3, 3), nn.PReLU(3, 0.3)
TOKEN = torch.linspace(-1, 1.5, 4)[None, None]
HEADS = nn.Parameter(torch.randn(4, 12) / 2)
MASK, MATRICES, INSTANCES = (
    torch.tensor([True, False, True, True]),
    torch.randn(3, 4, 2),
    nn.InstanceNorm1d(3, affine=True),
)
MANY_HEADS = nn.MultiheadAttention(4, 2, batch_first=True).eval()
TRANSFORMER = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
for _norm in (NORM, GROUPS):
    nn.init.normal_(_norm.weight)
    nn.init.normal_(_norm.bias)


class Many(nn.Module):
    """Self-attention by torch's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = MANY_HEADS

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x, x)[0]


MANY = Many()


def attention(x: Tensor) -> Tensor:
    q, k, v = (x @ HEADS).chunk(3, dim=-1)
    return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]


def written_attention(x: Tensor) -> Tensor:
    q, k, v = (x @ HEADS).chunk(3, dim=-1)
    return (q @ k.transpose(1, 2) * 0.5).softmax(-1) @ v


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "negative": lambda x: -x,
    "minus from a number": lambda x: 1.5 - x,
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "elu": F.elu,
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "mish": F.mish,
    "relu6": F.relu6,
    "clamp": lambda x: x.clamp(-0.2, 0.4),
    "clamp from below": lambda x: x.clamp(min=0.1),
    "hardtanh": F.hardtanh,
    "prelu": PRELU,
    "abs": torch.abs,
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "a value times itself": lambda x: x * x,
    "two values": lambda x: x * x.flip(1),
    "a value over a value": lambda x: x / (1 + x.flip(2).abs()),
    "one over a value": lambda x: 2 / (1 + x.abs()),
    "exp": lambda x: (x / 2).exp(),
    "erf": torch.erf,
    "sine": torch.sin,
    "square root": lambda x: (1 + x.abs()).sqrt(),
    "logarithm": lambda x: (1 + x.abs()).log(),
    "softmax": lambda x: x.softmax(-1),
    "softmax over another axis": lambda x: x.softmax(1),
    "layer norm": NORM,
    "group norm": GROUPS,
    "linear on the last axis": DENSE,
    "one-dimensional convolution": CONV,
    "transposed one-dimensional convolution": UP,
    "attention": attention,
    "attention, written": written_attention,
    "unbind and stack": lambda x: torch.stack(x.unbind(1)[::-1], 2),
    "concatenation": lambda x: torch.cat([x, x.flip(2), x[:, :1]], 1),
    "a class token": lambda x: torch.cat([TOKEN.expand(len(x), -1, -1), x], 1),
    "constants between values": lambda x: torch.cat([x, TOKEN.expand(len(x), -1, -1), x * x], 1),
    "stacked with a constant": lambda x: torch.stack([x[:, 0], TOKEN[:, 0].expand(len(x), -1)], 2),
    "broadcast sum": lambda x: x + x[:, :1],
    "broadcast product": lambda x: x * x[:, :, :1],
    "pad by a number": lambda x: F.pad(x, (1, 2), value=0.7),
    "reflection": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "upsampling": lambda x: F.interpolate(x, scale_factor=2),
    "mean and variance": lambda x: x - x.mean(2, keepdim=True),
    "gather": lambda x: x[:, :, [3, 0, 0]],
    "maximum": lambda x: torch.maximum(x, x.flip(1)),
    "largest of a row": lambda x: x.max(2, keepdim=True).values,
    "largest of all": lambda x: x.amax((1, 2), keepdim=True),
    "smallest of all": lambda x: x.amin((1, 2), keepdim=True),
    "logarithm of softmax": lambda x: x.log_softmax(-1),
    "attention without heads": lambda x: F.scaled_dot_product_attention(x, x, x),
    "multi-head attention": MANY,
    "transformer": TRANSFORMER,
    "instance norm": INSTANCES,
    "variance": lambda x: x.var(-1, keepdim=True),
    "standard deviation": lambda x: (x * x + 1).std(-1, keepdim=True, correction=0),
    "unit length": lambda x: F.normalize(x + 3, dim=-1),
    "a constant where a mask is set": lambda x: torch.where(MASK, x, 0.3 * torch.ones(4)),
    "a value where a mask is set": lambda x: torch.where(MASK, torch.zeros(()), x),
    "masked": lambda x: x.masked_fill(MASK, 0.5),
    "times a mask": lambda x: x * MASK,
    "lower triangle": torch.tril,
    "patches": lambda x: F.unfold(x[:, None], 2),
    "half of a second value": lambda x: torch.add(x, x.flip(1), alpha=0.5),
    "between": lambda x: torch.lerp(x, x.flip(2), 0.3),
    "means as numbers": lambda x: x.mean((1, 2))[:, None],
    "a product of numbers": lambda x: (x[:, 0, 0] * x[:, 1, 1] + 0.5 * x[:, 2, 2].relu())[:, None],
    "a matrix for each row": lambda x: x[:, :, None] @ MATRICES,
    "a matrix on the left": lambda x: MATRICES[0] @ x[:, :2],
    "a constant of more axes": lambda x: x[:, None, :, :] + MATRICES[:, :1, :1],
    "circular padding": lambda x: F.pad(x, (2, 1), mode="circular"),
    "bilinear": lambda x: F.interpolate(x[:, None], scale_factor=2, mode="bilinear"),
}


class ByMask(nn.Module):
    """Attention with a mask is refused: it adds minus infinity."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).view(-1, 3, 4)
        return self.last(F.scaled_dot_product_attention(h, h, h, is_causal=True).flatten(1))


def test_what_cannot_be_read_ends_with_a_sentence() -> None:
    with pytest.raises(InputError, match="cannot be bounded"):
        read_torch(ByMask().eval(), (6,))


def bounds_of(program: Program, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    engine = Engine(program)
    with torch.no_grad():
        known = engine.bounds(Domain(lower.double(), upper.double()))
        rows = torch.eye(program.outputs, dtype=program.dtype).repeat(len(lower), 1)
        dom = torch.arange(len(lower)).repeat_interleave(program.outputs)
        low = engine.lower(known, program.output, rows, dom).view(len(lower), -1)
        return low, -engine.lower(known, program.output, -rows, dom).view(len(lower), -1)


@pytest.mark.parametrize("name", FUNCTIONS)
@torch.no_grad()
def test_a_function_of_torch_is_read_and_bounded(name: str) -> None:
    model = Calls(FUNCTIONS[name]).eval()
    x = torch.rand(4, 6, generator=torch.Generator().manual_seed(5))
    reach = torch.tensor([[0.0], [1e-3], [0.02], [0.1]])
    for dtype in (torch.float32, torch.float64):
        program = read_torch(model, (6,), dtype)
        torch.testing.assert_close(program.run(x.to(dtype)).float(), model(x), rtol=1e-4, atol=1e-5)
        low, high = bounds_of(program, x - reach, x + reach)
        inside = x + reach * (2 * torch.rand(400, 4, 6, generator=torch.Generator().manual_seed(6)) - 1)
        corners = x + reach * (2 * torch.rand(100, 4, 6, generator=torch.Generator().manual_seed(7)).round() - 1)
        for sample in (inside, corners):
            y = model(sample.flatten(0, 1)).view(len(sample), 4, 3)
            assert (y >= low).all()
            assert (y <= high).all()
        width = (high - low).amax(1)
        assert float(width[0]) < 1e-2, "a point has the width of rounding"
        assert float(width[1]) < 1.0, "a narrow box has narrow bounds"


class Alone(nn.Module):
    """A function of [n, 3, 4] with nothing before and behind it, whose rounding would cover its own."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x.view(-1, 3, 4)).flatten(1)


ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    **FUNCTIONS,
    "leaky ReLU": lambda x: F.leaky_relu(x, 0.01),
    "leaky ReLU and itself": lambda x: F.leaky_relu(x, 0.3) + x,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "sum": lambda x: x + x.flip(2),
    "difference": lambda x: x - x.flip(2),
    "a third": lambda x: x / 3,
    "shifted": lambda x: x + 0.3,
    "mean of a row": lambda x: x.mean(-1),
}


@pytest.mark.parametrize("name", ALONE)
@torch.no_grad()
def test_what_float32_rounds_is_covered(name: str) -> None:
    """Of one operation alone: intervals of a point and rows of it hold what float32 computes there."""
    model = Alone(ALONE[name]).eval()
    x = torch.randn(30, 12, generator=torch.Generator().manual_seed(1))
    x *= torch.tensor([1.0, 30.0, 1e-3]).repeat(10)[:, None]
    y = model(x)
    for dtype in (torch.float64, torch.float32):
        program = read_torch(model, (12,), dtype)
        known = Engine(program).intervals(Domain(x.double(), x.double()))
        ends = [end[program.output] for end in (known.lower, known.upper)]
        for low, high in (ends, bounds_of(program, x, x)):
            assert ((low <= y) & (y <= high))[known.finite].all()


class Hidden(nn.Module):
    """1 / x is read with the weight 0, or a clamp by a number that float32 rounds."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.cat([x[:, :1], self.function(x[:, 1:])], 1), self.weight)


@pytest.mark.parametrize(
    "function", [torch.reciprocal, torch.log, torch.sqrt, torch.rsqrt, lambda x: (1000 * x).exp(), lambda x: 1 / x]
)
@torch.no_grad()
def test_a_value_without_a_bound_proves_nothing_even_with_weight_0(function: Callable[[Tensor], Tensor]) -> None:
    program = read_torch(Hidden(function).eval(), (2,))
    low, high = bounds_of(program, torch.tensor([[0.5, -0.1]]), torch.tensor([[0.6, 0.1]]))
    assert (low == -torch.inf).all()
    assert (high == torch.inf).all()


@torch.no_grad()
def test_numbers_of_float64_networks_are_covered() -> None:
    model = Hidden(lambda x: x.clamp(0.1, 0.3) * 0.7 + 0.2).double().eval()
    model.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    point = torch.tensor([[0.5, 0.9]], dtype=torch.float64)
    program = read_torch(model, (2,))
    low, high = bounds_of(program, point, point)
    assert (low <= model(point)).all()
    assert (model(point) <= high).all()
