"""A torch module as a program, or the name of the layer that cannot be read.

The module runs once, and every operation is recorded. An operation on values that move with the input becomes one or
several operations of the program; what depends on weights alone is run again with their present values, so a program
can be differentiated by the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

from radii.networks._recorder import ROWS, Record, Recording, Ref, example, operation_name, record, refusal, shape_of
from radii.networks.operations.activations import Relu, Rising, Sigmoidal, single
from radii.networks.operations.curves import Curved
from radii.networks.operations.linear import Join, Linear, Peak, Sum, batch_norm_peak, normalized_underflow
from radii.networks.operations.linear_maps import (
    Average,
    Convolution,
    Dense,
    LinearMap,
    Move,
    Scale,
    TransposedConvolution,
)
from radii.networks.operations.operation import Shape
from radii.networks.operations.pooling import MaxPool
from radii.networks.operations.products import Product
from radii.networks.program import Builder, Program

__all__ = ["Recording", "build", "example", "read_torch", "record"]


def read_torch(model: nn.Module, input_shape: Shape, dtype: torch.dtype | None = None) -> Program:
    """The program of ``model`` in eval mode, with its weights as ``dtype`` (default: their own).

    Args:
        input_shape: the shape of one input, without the batch.
    """
    return build(record(model, input_shape), dtype)


def build(recording: Recording, dtype: torch.dtype | None = None) -> Program:
    """The program of ``recording`` with present weights as ``dtype``; gradients reach the weights."""
    dtype = dtype or recording.dtype
    reading = Reading(Builder(recording.input_shape), {}, {0: (0, recording.input_shape)}, dtype)
    for entry in recording.records:
        if entry.moving:
            reading.read(entry, recording.output)
        else:
            reading.constants |= _run_again(entry, reading.constants)
    number, _ = reading.values[recording.output]
    return reading.builder.finish(number, dtype)


@dataclass
class Reading:
    """A program while it is read.

    ``values`` has, for every recorded value that moves with the input, its number in the program and its shape
    without the batch; ``constants`` the others.
    """

    builder: Builder
    constants: dict[int, Tensor]
    values: dict[int, tuple[int, Shape]]
    dtype: torch.dtype
    folded: dict[int, bool] = field(default_factory=dict)  # values whose first axis is one with the batch

    def read(self, entry: Record, output: int) -> None:
        """Add the operations of one record."""
        if self._reads_second_result(entry):
            if entry.outputs[0] != output:
                return  # the indices of a pool, say; whatever carries them to the output is refused
            raise refusal(entry, "reads a second result of a pooling or normalization")
        name = operation_name(entry)
        if name in MOVES:
            self._move(entry)
            return
        if entry.shape == (-1,):
            raise refusal(entry, "mixes the inputs of a batch")
        if entry.kind not in (torch.float32, torch.float64) and name not in COMPARISONS:
            raise refusal(entry, f"computes in {entry.kind}, where sums are no sums of numbers")
        convert = CONVERSIONS.get(name)
        single_numbers = entry.shape == ()
        if () in self._shapes_read(entry) and not single_numbers:
            raise refusal(entry, "spreads a value without a dimension behind the batch; keep one (keepdim=True)")
        if single_numbers:  # a constant of one axis would differ between the inputs of a batch, as where it is folded
            entry = replace(entry, shape=(1,), folded=True)
        number = convert(_Operands(self, entry)) if convert else None
        if number is None:
            why = "is not among the operations with bounds" if convert is None else "is used in a way without bounds"
            raise refusal(entry, why)
        self.values[entry.outputs[0]] = number, () if single_numbers else entry.shape
        self.folded[entry.outputs[0]] = entry.folded and not single_numbers

    def _shapes_read(self, entry: Record) -> list[Shape]:
        leaves = tree_flatten((entry.arguments, entry.keywords))[0]
        return [self.values[leaf.number][1] for leaf in leaves if isinstance(leaf, Ref) and leaf.number in self.values]

    def _reads_second_result(self, entry: Record) -> bool:
        leaves = tree_flatten((entry.arguments, entry.keywords))[0]
        known = self.values.keys() | self.constants.keys()
        return bool(entry.outputs) and any(isinstance(leaf, Ref) and leaf.number not in known for leaf in leaves)

    def _move(self, entry: Record) -> None:
        """An operation whose outputs are copies of its inputs: found out by running it on the numbers 1, 2, 3, …"""
        source = next((leaf for leaf in entry.arguments if isinstance(leaf, Ref)), None)
        if source is None or source.number not in self.values:
            raise refusal(entry, "moves a value that does not come from the input")
        number, before = self.values[source.number]
        size = math.prod(before)
        places = torch.arange(1.0, ROWS * size + 1, dtype=torch.float64)
        folded = self.folded.get(source.number, False)
        places = places.view(ROWS * before[0], *before[1:]) if folded else places.view(ROWS, *before)
        arguments, keywords = tree_map(
            lambda leaf: places if isinstance(leaf, Ref) and leaf.number == source.number else self.constant(leaf),
            (entry.arguments, entry.keywords),
        )
        if any(isinstance(leaf, Ref) for leaf in tree_flatten((arguments, keywords))[0]):
            raise refusal(entry, "is used in a way without bounds")
        results = entry.operation(*arguments, **{key: value for key, value in keywords.items() if key not in CREATION})
        results = results if isinstance(results, tuple | list) else (results,)
        for name, result in zip(entry.outputs, results, strict=True):
            linear = _move_of(result, before, size)
            if linear is None:
                raise refusal(entry, "mixes the inputs of a batch")
            step = Linear(entry.layer, (number,), linear, linear.before, linear.after)
            self.values[name] = self.builder.add(step), shape_of(result)[0]
            self.folded[name] = len(result) != ROWS

    def constant(self, value: Any) -> Any:
        """An argument with the present weights; a value that moves with the input stays a reference."""
        if isinstance(value, Ref):
            if value.number in self.values:
                return value
            value = self.constants[value.number]
        if isinstance(value, Tensor) and not torch.is_grad_enabled():
            value = value.detach()  # a view of a parameter could not be used after the parameter changes
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(self.dtype)
        return value


def _move_of(result: Tensor, before: Shape, size: int) -> Move | None:
    """The move that made ``result`` out of the numbers of a batch; None if inputs of the batch are mixed."""
    shape, _ = shape_of(result)
    if shape == (-1,):
        return None
    rows = result.reshape(ROWS, -1).long() - 1
    offset = torch.where(rows >= 0, size * torch.arange(ROWS)[:, None], 0)
    index = rows - offset
    inside = (index[0] >= -1) & (index[0] < size)
    if not torch.equal(index[0], index[1]) or not bool(inside.all()):
        return None
    return Move(index[0], before or (1,), shape or (1,))


def _run_again(entry: Record, constants: dict[int, Tensor]) -> dict[int, Tensor]:
    """An operation on weights alone, with their present values."""

    def present(leaf: Any) -> Any:
        return constants[leaf.number] if isinstance(leaf, Ref) else leaf

    arguments, keywords = tree_map(present, (entry.arguments, entry.keywords))
    results = entry.operation(*arguments, **keywords)
    results = results if isinstance(results, tuple | list) else (results,)
    return dict(zip(entry.outputs, (value for value in results if isinstance(value, Tensor)), strict=True))


@dataclass(frozen=True)
class _Operands:
    """The arguments of one recorded operation."""

    reading: Reading
    entry: Record

    def __getitem__(self, place: int) -> Any:
        return self.reading.constant(self.entry.arguments[place]) if place < len(self.entry.arguments) else None

    def number(self, place: int) -> int:
        """The number of the value at ``place`` in the program."""
        return self.reading.values[self[place].number][0]

    def shape(self, place: int) -> Shape:
        """The shape of the value at ``place``, without the batch."""
        return self.reading.values[self[place].number][1] or (1,)

    def axis(self, axis: int) -> int | None:
        """The axis of the first value's shape that the recorded ``axis`` is; None for the axis of the batch."""
        folded = self.reading.folded.get(self[0].number, False)
        place = axis % (len(self.shape(0)) + (0 if folded else 1))
        if place == 0:
            return None
        return place if folded else place - 1

    def add(self, step: Any) -> int:
        """Add an operation to the program."""
        return self.reading.builder.add(step)

    def linear(
        self,
        linear: LinearMap,
        bias: Tensor | None = None,
        place: int = 0,
        size: Tensor | None = None,
        peak: Peak | None = None,
    ) -> int:
        """Add W x + bias of the value at ``place``; ``bias``, ``size`` and factors of x are broadcast to the result."""
        after = self.entry.shape
        if bias is not None:
            bias = bias.to(self.reading.dtype).expand(after).flatten()
            size = bias.abs() if size is None else size.to(bias.dtype).expand(after).flatten()
        number, before = self.number(place), self.shape(place)
        if isinstance(linear, Scale) and before != after:
            number, before = broadcast(self, place), after
        return self.add(Linear(self.entry.layer, (number,), linear, before, after, bias, size, peak))

    def combined(self, *parts: tuple[int, float]) -> int:
        """Add the sum of values, each at its place and with its factor."""
        origin, after, total = self.entry.layer, self.entry.shape, None
        for place, factor in parts:
            number = broadcast(self, place)
            if factor != 1:
                number = self.add(Linear(origin, (number,), Scale(torch.tensor([single(factor)])), after, after))
            total = number if total is None else self.add(Sum(origin, (total, number), after, 1.0))
        assert total is not None
        return total

    def moved(self, place: int, function: Callable[[Tensor], Tensor]) -> int:
        """Add a move of the value at ``place``: ``function`` of a batch."""
        before = self.shape(place)
        return self.add(_move_step(self.entry.layer, self.number(place), before, function))


def _move_step(origin: str, number: int, before: Shape, function: Callable[[Tensor], Tensor]) -> Linear:
    """The value ``number`` moved by ``function``, which copies numbers of a batch [n, *before] or makes zeros."""
    size = math.prod(before)
    places = torch.arange(1.0, size + 1, dtype=torch.float64).view(1, *before)
    result = function(places)
    linear = Move(result.flatten().long() - 1, before, tuple(result.shape[1:]))
    return Linear(origin, (number,), linear, before, linear.after)


Conversion = Callable[[_Operands], int | None]


def _linear(operands: _Operands) -> int | None:
    """addmm(bias, x, W^T), mm(x, W^T)."""
    if operands.entry.keywords:  # scaled products are not what linear layers make
        return None
    start = 1 if len(operands.entry.arguments) == 3 else 0
    x, weight = operands[start], operands[start + 1]
    if not isinstance(x, Ref) or isinstance(weight, Ref) or (start and isinstance(operands[0], Ref)):
        return None
    return operands.linear(Dense(weight.T), operands[0] if start else None, start)


def _convolution(operands: _Operands) -> int | None:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = (operands[place] for place in range(9))
    if not isinstance(x, Ref) or isinstance(weight, Ref) or isinstance(bias, Ref):
        return None
    rank = weight.dim() - 2
    sizes = (_each(stride, rank), _each(padding, rank), _each(dilation, rank))
    shift = None if bias is None else bias.view(-1, *[1] * rank)
    if transposed:
        back = Convolution(weight, *sizes, groups, operands.entry.shape)
        return operands.linear(TransposedConvolution(back, operands.shape(0)), shift)
    return operands.linear(Convolution(weight, *sizes, groups, operands.shape(0)), shift)


def _each(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    return tuple(sizes) * (rank // len(sizes))


def _batch_norm(operands: _Operands) -> int | None:
    weight, bias, mean, variance = (operands[place] for place in range(1, 5))
    if mean is None or (len(operands.entry.arguments) == 8 and operands[5]):
        return None
    inverse = torch.rsqrt(variance + operands.entry.arguments[-1])
    weight = torch.ones_like(mean) if weight is None else weight
    offset = torch.zeros_like(mean) if bias is None else bias
    ones = (1,) * (len(operands.shape(0)) - 1)
    factor = inverse * weight
    size = offset.abs() + (mean * factor).abs() + normalized_underflow(weight)
    peak = Peak(*(part.view(-1, *ones) for part in batch_norm_peak(weight, offset, mean, inverse)))
    shift = (offset - mean * factor).view(-1, *ones)
    return operands.linear(Scale(factor.view(-1, *ones), 8), shift, 0, size.view(-1, *ones), peak)


def _add(operands: _Operands) -> int | None:
    """x + y, x + constant, constant + x, and the same with minus."""
    sign = -1.0 if operation_name(operands.entry) in ("sub", "rsub") else 1.0
    sign *= operands.entry.keywords.get("alpha", 1)
    first, second = operands[0], operands[1]
    if operation_name(operands.entry) == "rsub":
        return _shifted(operands, 0, -1.0, _constant(second)) if not isinstance(second, Ref) and sign == -1 else None
    if isinstance(first, Ref) and isinstance(second, Ref):
        if abs(sign) != 1:
            return operands.combined((0, 1.0), (1, sign))
        return _add_values(operands, sign)
    if isinstance(first, Ref):
        return _shifted(operands, 0, 1.0, sign * _constant(second))
    return _shifted(operands, 1, sign, _constant(first))


def _add_values(operands: _Operands, sign: float) -> int:
    """a + b or a - b of two values, each repeated to the shape of the result where it is smaller."""
    after = operands.entry.shape
    numbers = [
        operands.number(place) if operands.shape(place) == after else broadcast(operands, place) for place in (0, 1)
    ]
    return operands.add(Sum(operands.entry.layer, (numbers[0], numbers[1]), after, sign))


def broadcast(operands: _Operands, place: int) -> int:
    """The value at ``place`` repeated to the shape of the result."""
    after = operands.entry.shape
    missing = len(after) - len(operands.shape(place))
    return operands.moved(place, lambda x: x.reshape(1, *[1] * missing, *x.shape[1:]).expand(1, *after))


def _shifted(operands: _Operands, place: int, factor: float, bias: Tensor) -> int | None:
    if not _fits(bias, operands.entry) or not bool(bias.isfinite().all()):
        return None
    scale = Scale(torch.full((1,), factor, dtype=bias.dtype, device=bias.device))
    return operands.linear(scale, _unbatched(bias, operands.entry), place)


def _scaled(operands: _Operands) -> int | None:
    divided = operation_name(operands.entry) == "div"
    place = 0 if isinstance(operands[0], Ref) else 1
    other = operands[1 - place]
    if isinstance(other, Ref) or (divided and place == 1) or "rounding_mode" in operands.entry.keywords:
        return None
    factor = _constant(other)
    if not _fits(factor, operands.entry):
        return None
    factor = _unbatched(factor, operands.entry)
    return operands.linear(Scale(1 / factor if divided else factor), None, place)


def _filled(operands: _Operands) -> int | None:
    """where(mask, x, c), where(mask, c, x) and masked_fill(x, mask, c) with a constant mask: x kept + c (1 - kept)."""
    if operation_name(operands.entry) == "where":
        place = 1 if isinstance(operands[1], Ref) else 2
        mask, other = operands[0], operands[3 - place]
        mask = mask if place == 1 or isinstance(mask, Ref) else ~mask
    else:
        place, mask, other = 0, operands[1], operands[2]
        mask = mask if isinstance(mask, Ref) else ~mask
    if isinstance(mask, Ref) or isinstance(other, Ref) or not isinstance(operands[place], Ref):
        return None
    number, entry = _constant(other), operands.entry
    if not (_fits(mask, entry) and _fits(number, entry)):
        return None
    kept = _unbatched(mask, entry).expand(entry.shape)
    around = torch.where(kept, 0.0, _unbatched(number, entry).to(operands.reading.dtype))
    return operands.linear(Scale(kept.to(around.dtype), 0), around, place) if bool(around.isfinite().all()) else None


def _interpolated(operands: _Operands) -> int | None:
    """a + w (b - a) with a number w."""
    weight = operands[2]
    if isinstance(weight, Ref | Tensor) or not all(isinstance(operands[place], Ref) for place in (0, 1)):
        return None
    return operands.combined((0, 1.0 - weight), (1, weight))


def _vector_norm(operands: _Operands) -> int | None:
    """sqrt of the sum of squares over axes."""
    entry, shape = operands.entry, operands.shape(0)
    order = 2.0 if operands[1] is None else operands[1]
    named = list(range(len(shape) + 1)) if operands[2] is None else operands[2]
    axes = [operands.axis(axis) for axis in ([named] if isinstance(named, int) else named)]
    if order != 2 or None in axes:
        return None
    squares = curve(operands, "square")
    linear = _over_axes(shape, [axis for axis in axes if axis is not None], entry.shape, mean=False)
    total = operands.add(Linear(entry.layer, (squares,), linear, shape, entry.shape))
    return operands.add(Curved(entry.layer, (total,), entry.shape, "sqrt"))


def _variance(operands: _Operands) -> int | None:
    """Squares of distances from the mean, summed over axes and divided by their number less the correction."""
    entry, shape = operands.entry, operands.shape(0)
    axes = [operands.axis(axis) for axis in (operands[1] or [0])]
    places = [axis for axis in axes if axis is not None]
    count, correction = math.prod(shape[place] for place in places), entry.keywords.get("correction", 1)
    if len(places) < len(axes) or count <= (1 if correction is None else correction):
        return None
    centered = _centered_value(operands, (operands.number(0), shape), places)
    squares = operands.add(Curved(entry.layer, (centered,), shape, "square"))
    share = count / (count - (1 if correction is None else correction))
    linear = _over_axes(shape, places, entry.shape, mean=True)
    mean = operands.add(Linear(entry.layer, (squares,), linear, shape, entry.shape))
    factor = Scale(torch.tensor([single(share)], dtype=torch.float32), 2)
    variance = operands.add(Linear(entry.layer, (mean,), factor, entry.shape, entry.shape))
    if operation_name(entry) == "var":
        return variance
    return operands.add(Curved(entry.layer, (variance,), entry.shape, "sqrt"))


def _negative(operands: _Operands) -> int | None:
    return operands.linear(Scale(torch.tensor([-1.0]), 0))


def _constant(value: Any) -> Tensor:
    """A number as float32 networks use it."""
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else value.to(torch.get_default_dtype())
    return torch.tensor(float(single(value)))


def _fits(constant: Tensor, entry: Record) -> bool:
    """No constant that differs between the inputs of a batch."""
    most = len(entry.shape) - 1 if entry.folded else len(entry.shape)
    return constant.dim() <= most or constant.shape[0] == 1


def _unbatched(constant: Tensor, entry: Record) -> Tensor:
    return constant[0] if constant.dim() > len(entry.shape) else constant


def _averaged(operands: _Operands) -> int | None:
    """Sums and means over axes, average pooling, interpolation: each output is a sum with nonnegative weights."""
    entry, rest = operands.entry, operands.entry.arguments[1:]
    before, name = operands.shape(0), operation_name(operands.entry)
    if name in ("mean", "sum"):
        axes = [operands.axis(axis) for axis in rest[0]] if rest and rest[0] else []
        if not axes or None in axes:
            return None
        linear = _over_axes(before, [axis for axis in axes if axis is not None], entry.shape, name == "mean")
    elif name == "avg_pool2d" and len(rest) > 5 and rest[5] is not None and rest[5] <= 0:  # negative weights
        return None
    else:
        linear = _of_windows(lambda x: entry.operation(x, *rest, **entry.keywords), before, entry.shape)
    return operands.linear(linear, peak=Peak(float(math.prod(before))))


def _over_axes(before: Shape, axes: Sequence[int], after: Shape, mean: bool) -> Average:
    """The sums, or means, over ``axes`` of a value of shape ``before``."""
    rest = [axis for axis in range(len(before)) if axis not in axes]
    places = torch.arange(math.prod(before)).view(before).permute(*rest, *axes)
    members = places.reshape(math.prod(after), -1)
    weight = torch.full(members.shape, 1 / members.shape[1] if mean else 1.0, dtype=torch.float64)
    return Average(members, weight, before, after)


def _of_windows(function: Callable[[Tensor], Tensor], before: Shape, after: Shape) -> Average:
    """The sums of ``function`` of a batch of images, which treats every channel alike."""
    places = math.prod(before[1:])
    single_pixels = torch.eye(places, dtype=torch.float64).view(places, 1, *before[1:])
    channel = _of_rows(function(single_pixels).flatten(1).T, (1, *before[1:]), (1, *after[1:]))
    members = torch.where(channel.members >= 0, channel.members + places * torch.arange(before[0])[:, None, None], -1)
    weight = channel.weight.expand(before[0], *channel.weight.shape)
    return Average(members.flatten(0, 1), weight.flatten(0, 1), before, after)


def _of_rows(matrix: Tensor, before: Shape, after: Shape) -> Average:
    """The sums whose weights are the rows of ``matrix`` [out, in]."""
    count = max(1, int((matrix != 0).sum(1).max()))
    weight, members = matrix.topk(count, 1)
    return Average(torch.where(weight > 0, members, -1), weight, before, after)


def _max_pool(operands: _Operands) -> int | None:
    if len(operands.shape(0)) != 3:
        return None
    kernel = _each(operands[1], 2)
    stride, padding, dilation = (
        _each(operands[place] or usual, 2) for place, usual in ((2, kernel), (3, (0,)), (4, (1,)))
    )
    layer = operands.entry.layer
    pool = MaxPool(
        layer, (operands.number(0),), operands.shape(0), kernel, stride, padding, dilation, bool(operands[5])
    )
    if bool((pool.members < 0).all(1).any()):
        raise refusal(operands.entry, "has windows without a single pixel, whose largest is minus infinity")
    return operands.add(pool)


def _relu(operands: _Operands) -> int | None:
    leaky = operation_name(operands.entry) == "leaky_relu"
    slope = float(0.01 if operands[1] is None else operands[1]) if leaky else 0.0
    if not 0 <= slope <= 1:
        return None
    origin, shape = operands.entry.layer, operands.shape(0)
    number = operands.add(Relu(origin, (operands.number(0),), shape, slope))
    if slope in (0.0, 1.0):
        return number
    return operands.add(Linear(origin, (number,), Scale(torch.ones(1)), shape, shape))  # the slope rounds: once more


def _rising(operands: _Operands) -> int | None:
    """Steps and rounding: rising in each coordinate, and exact in any float type."""
    rest, keywords, name = operands.entry.arguments[1:], operands.entry.keywords, operation_name(operands.entry)
    if any(isinstance(value, Ref | Tensor) for value in rest) or keywords:
        return None
    return operands.add(Rising(operands.entry.layer, (operands.number(0),), operands.shape(0), name, tuple(rest)))


def _clamped(operands: _Operands) -> int | None:
    """min(max(x, low), high) with constants."""
    rest, keywords, name = operands.entry.arguments[1:], operands.entry.keywords, operation_name(operands.entry)
    ends = {"clamp_min": (*rest, None), "clamp_max": (None, *rest)}.get(name, rest)
    low = ends[0] if ends else keywords.get("min", keywords.get("min_val", -1.0 if name == "hardtanh" else None))
    high = ends[1] if len(ends) > 1 else keywords.get("max", 1.0 if name == "hardtanh" else None)
    if isinstance(low, Ref | Tensor) or isinstance(high, Ref | Tensor):
        return None
    return curve(
        operands, "clamp", -math.inf if low is None else single(low), math.inf if high is None else single(high)
    )


def curve(operands: _Operands, function: str, *arguments: float, number: int | None = None) -> int:
    """A curve of each coordinate of the first value, or of the value ``number`` of the same shape."""
    source = operands.number(0) if number is None else number
    step = Curved(operands.entry.layer, (source,), operands.shape(0), function, arguments)
    return operands.add(step)


def _curve(operands: _Operands) -> int | None:
    """A curve without arguments that bears the operation's name."""
    return curve(operands, operation_name(operands.entry))


def _gelu(operands: _Operands) -> int | None:
    return curve(operands, "gelu_tanh" if operands.entry.keywords.get("approximate") == "tanh" else "gelu")


def _elu(operands: _Operands) -> int | None:
    alpha, scale, inner = (float(1 if operands[place] is None else operands[place]) for place in (1, 2, 3))
    if operation_name(operands.entry) == "celu":
        inner = 1 / alpha
    return curve(operands, "elu", alpha, scale, inner) if alpha >= 0 and scale > 0 and inner > 0 else None


def _softplus(operands: _Operands) -> int | None:
    beta, threshold = (
        float(usual if operands[place] is None else operands[place]) for place, usual in ((1, 1), (2, 20))
    )
    return curve(operands, "softplus", beta) if beta > 0 and threshold >= 20 else None


def _power(operands: _Operands) -> int | None:
    exponent = operands[1]
    if not isinstance(operands[0], Ref) or isinstance(exponent, Ref | Tensor):
        return None
    named = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(float(exponent))
    if named is not None:
        return curve(operands, named)
    if float(exponent) == 1:
        return operands.number(0)
    whole = float(exponent) == int(exponent) and exponent >= 3
    return curve(operands, "pow", float(exponent)) if whole else None


def _prelu(operands: _Operands) -> int | None:
    """relu(x) - slope relu(-x), with a slope for every channel."""
    origin, source, shape = operands.entry.layer, operands.number(0), operands.shape(0)
    slope = operands[1]
    if not isinstance(slope, Tensor):
        return None
    slope = slope.reshape(-1, *[1] * (len(shape) - 1)) if slope.numel() > 1 else slope.reshape(1)
    turned = operands.add(Linear(origin, (source,), Scale(torch.tensor([-1.0]), 0), shape, shape))
    parts = [operands.add(Relu(origin, (number,), shape)) for number in (source, turned)]
    scaled = operands.add(Linear(origin, (parts[1],), Scale(-slope), shape, shape))
    return operands.add(Sum(origin, (parts[0], scaled), shape, 1.0))


def _multiplied(operands: _Operands) -> int | None:
    """a b of two values, or a value times a constant."""
    if not isinstance(operands[0], Ref) or not isinstance(operands[1], Ref):
        return _scaled(operands)
    pair = broadcast(operands, 0), broadcast(operands, 1)
    if pair[0] == pair[1]:
        return curve(operands, "square")
    return operands.add(Product(operands.entry.layer, pair, operands.entry.shape))


def _divided(operands: _Operands) -> int | None:
    """a / b = a (1 / b) of two values with b > 0, a constant over a value, or a value over a constant."""
    if "rounding_mode" in operands.entry.keywords or not isinstance(operands[1], Ref):
        return _scaled(operands)
    origin, below = operands.entry.layer, operands.shape(1)
    inverse = operands.add(Curved(origin, (operands.number(1),), below, "reciprocal"))
    after = operands.entry.shape
    whole = operands.add(_move_step(origin, inverse, below, partial(_spread, after=after)))
    if isinstance(operands[0], Ref):
        return operands.add(Product(origin, (broadcast(operands, 0), whole), after))
    factor = _constant(operands[0])
    if not _fits(factor, operands.entry):
        return None
    return operands.add(Linear(origin, (whole,), Scale(_unbatched(factor, operands.entry)), after, after))


def _spread(x: Tensor, after: Shape) -> Tensor:
    return x.reshape(len(x), *[1] * (len(after) + 1 - x.dim()), *x.shape[1:]).expand(len(x), *after)


def _batch_product(operands: _Operands) -> int | None:
    """Matrices times matrices: of two values, as in attention, or of a value and constants."""
    if not isinstance(operands[0], Ref) or not isinstance(operands[1], Ref):
        return _constant_product(operands)
    pair = (operands.number(0), operands.shape(0)), (operands.number(1), operands.shape(1))
    return _matrix_product(operands, *pair)


def _constant_product(operands: _Operands) -> int | None:
    """A [h, t, k] of a value times constants B [h, k, s] for each h, or the other way: a convolution in h groups."""
    place = 0 if isinstance(operands[0], Ref) else 1
    shape, constant = operands.shape(place), operands[1 - place]
    grouped = operands.reading.folded.get(operands[place].number, False)
    weight = constant.unflatten(0, (ROWS, -1))
    if not torch.equal(weight[0], weight[1]) or len(shape) != (3 if grouped else 2):
        return None  # another matrix for each input of the batch
    weight, (h, rows, columns) = weight[0], shape if grouped else (1, *shape)
    if place:  # C A = (A^T C^T)^T
        weight, (rows, columns) = weight.transpose(1, 2), (columns, rows)
    size, origin = weight.shape[2], operands.entry.layer
    order = (0, 1, 2, 3) if place else (0, 1, 3, 2)
    inner = (h, columns, rows) if place else (h, rows, columns)
    number = operands.moved(place, lambda x: x.reshape(1, *inner).permute(order).reshape(1, h * columns, rows))
    kernel = weight.transpose(1, 2).reshape(h * size, columns, 1)
    linear = Convolution(kernel, (1,), (0,), (1,), h, (h * columns, rows))
    product = operands.add(Linear(origin, (number,), linear, (h * columns, rows), (h * size, rows)))
    after = operands.entry.shape
    turned = _move_step(
        origin, product, (h * size, rows), lambda x: x.reshape(1, h, size, rows).permute(order).reshape(1, *after)
    )
    return operands.add(turned)


Value = tuple[int, Shape]


def _matrix_product(operands: _Operands, first: Value, second: Value) -> int | None:
    """A [..., t, k] times B [..., k, s] of two values: products, summed over k."""
    origin, (left, before), (right, beside) = operands.entry.layer, first, second
    after = (*before[:-1], beside[-1])
    whole = (*after, before[-1])
    if math.prod(whole) > MOST_PRODUCTS:
        raise refusal(
            operands.entry, f"multiplies matrices with {math.prod(whole):,} products; {MOST_PRODUCTS:,} are bounded"
        )
    rows = operands.add(_move_step(origin, left, before, lambda x: x.unsqueeze(-2).expand(1, *whole)))
    columns = operands.add(
        _move_step(origin, right, beside, lambda x: x.transpose(-1, -2).unsqueeze(-3).expand(1, *whole))
    )
    products = operands.add(Product(origin, (rows, columns), whole))
    linear = _over_axes(whole, [len(whole) - 1], after, mean=False)
    return operands.add(Linear(origin, (products,), linear, whole, after))


def _turned(x: Tensor, whole: Shape) -> Tensor:
    return x.transpose(-1, -2).unsqueeze(-3).expand(1, *whole)


def _softmax(operands: _Operands) -> int | None:
    axis = operands.axis(operands[1])
    return None if axis is None else softmax(operands, (operands.number(0), operands.shape(0)), axis)


def softmax(operands: _Operands, value: Value, axis: int) -> int:
    """1 / sum over j of exp(x_j - x_i): exact for real numbers, and every part has tight lines."""
    origin, (number, shape) = operands.entry.layer, value
    pairs = (*shape, shape[axis])  # the other place j stands last

    def others(x: Tensor) -> Tensor:
        return x.unsqueeze(-1).transpose(axis + 1, -1).expand(1, *pairs)

    def itself(x: Tensor) -> Tensor:
        return x.unsqueeze(-1).expand(1, *pairs)

    both = tuple(operands.add(_move_step(origin, number, shape, move)) for move in (others, itself))
    away = operands.add(Sum(origin, (both[0], both[1]), pairs, -1.0))
    grown = operands.add(Curved(origin, (away,), pairs, "exp"))
    total = operands.add(Linear(origin, (grown,), _over_axes(pairs, [len(pairs) - 1], shape, mean=False), pairs, shape))
    return operands.add(Curved(origin, (total,), shape, "share"))


def _log_softmax(operands: _Operands) -> int | None:
    """-log of the sum over j of exp(x_j - x_i)."""
    axis = operands.axis(operands[1])
    if axis is None:
        return None
    origin, shape = operands.entry.layer, operands.shape(0)
    total = operands.reading.builder.steps[softmax(operands, (operands.number(0), shape), axis)].inputs
    logarithm = operands.add(Curved(origin, total, shape, "log"))
    return operands.add(Linear(origin, (logarithm,), Scale(torch.tensor([-1.0]), 0), shape, shape))


def _attention(operands: _Operands) -> int | None:
    """softmax(Q K^T scale) V."""
    entry = operands.entry
    extra = [operands[place] for place in range(3, len(entry.arguments))]
    if any(extra) or any(entry.keywords.get(name) is not None for name in ("attn_mask", "attn_bias")):
        return None
    if not all(isinstance(operands[place], Ref) for place in range(3)):
        return None
    query, key, value = ((operands.number(place), operands.shape(place)) for place in range(3))
    turned = (*key[1][:-2], key[1][-1], key[1][-2])
    keys = operands.add(_move_step(entry.layer, key[0], key[1], lambda x: x.transpose(-1, -2)))
    scores = _matrix_product(operands, query, (keys, turned))
    assert scores is not None
    shape = (*query[1][:-1], key[1][-2])
    factor = entry.keywords.get("scale") or 1 / math.sqrt(query[1][-1])
    scaled = operands.add(Linear(entry.layer, (scores,), Scale(torch.tensor([single(factor)])), shape, shape))
    return _matrix_product(operands, (softmax(operands, (scaled, shape), len(shape) - 1), shape), value)


def _layer_norm(operands: _Operands) -> int | None:
    """(x - mean) / sqrt(variance + epsilon) over the last axes, times a weight, plus a bias."""
    shape, inner = operands.shape(0), tuple(operands[1])
    axes = list(range(len(shape) - len(inner), len(shape)))
    number = normalized(operands, (operands.number(0), shape), axes, float(operands[4]))
    return _scaled_and_shifted(operands, number, shape, operands[2], operands[3])


def _group_norm(operands: _Operands) -> int | None:
    """Layer norm over groups of channels."""
    shape, groups, epsilon = operands.shape(0), int(operands[6]), float(operands[7])
    inner = (groups, math.prod(shape) // groups)
    number = normalized(operands, (operands.number(0), inner), [1], epsilon)
    ones = [1] * (len(shape) - 1)
    weight, bias = (None if part is None else part.view(-1, *ones) for part in (operands[1], operands[2]))
    return _scaled_and_shifted(operands, number, shape, weight, bias)


def normalized(operands: _Operands, value: Value, axes: list[int], epsilon: float) -> int:
    """(x - mean) / sqrt(variance + epsilon) over ``axes``."""
    origin, (_, shape) = operands.entry.layer, value
    few = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    centered = _centered_value(operands, value, axes)
    squares = operands.add(Curved(origin, (centered,), shape, "square"))
    variance = operands.add(Linear(origin, (squares,), _over_axes(shape, axes, few, mean=True), shape, few))
    shift = torch.full((math.prod(few),), single(epsilon), dtype=operands.reading.dtype)
    raised = operands.add(Linear(origin, (variance,), Scale(torch.ones(1)), few, few, shift, shift.abs()))
    inverse = operands.add(Curved(origin, (raised,), few, "inverse_deviation"))
    spread = operands.add(_move_step(origin, inverse, few, lambda x: x.expand(1, *shape)))
    return operands.add(Product(origin, (centered, spread), shape))


def _centered_value(operands: _Operands, value: Value, axes: list[int]) -> int:
    """x - its mean over ``axes``."""
    origin, (number, shape) = operands.entry.layer, value
    few = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    mean = operands.add(Linear(origin, (number,), _over_axes(shape, axes, few, mean=True), shape, few))
    spread = operands.add(_move_step(origin, mean, few, lambda x: x.expand(1, *shape)))
    return operands.add(Sum(origin, (number, spread), shape, -1.0))


def _scaled_and_shifted(
    operands: _Operands, number: int, shape: Shape, weight: Tensor | None, bias: Tensor | None
) -> int | None:
    """x weight + bias with constants that are broadcast to ``shape``."""
    if isinstance(weight, Ref) or isinstance(bias, Ref):
        return None
    factor = torch.ones(1, dtype=operands.reading.dtype) if weight is None else weight
    shift = None if bias is None else bias.to(operands.reading.dtype).expand(shape).flatten()
    size = None if shift is None else shift.abs()
    return operands.add(Linear(operands.entry.layer, (number,), Scale(factor, 2), shape, shape, shift, size))


def _sigmoidal(operands: _Operands) -> int | None:
    tanh = operation_name(operands.entry) == "tanh"
    return operands.add(Sigmoidal(operands.entry.layer, (operands.number(0),), operands.shape(0), tanh))


def _maximum(operands: _Operands) -> int | None:
    """max(a, b) = a + relu(b - a), and min(a, b) = a - relu(a - b), of two values or of a value and constants."""
    largest, after = operation_name(operands.entry) == "maximum", operands.entry.shape
    places = [place for place in (0, 1) if isinstance(operands[place], Ref)]
    if len(places) == 2:
        numbers = broadcast(operands, 0), broadcast(operands, 1)
        return larger(operands.reading.builder, operands.entry.layer, *numbers, after, largest)
    constant = operands[1 - places[0]]
    if not isinstance(constant, Tensor) or not _fits(constant, operands.entry):
        return None
    sign = torch.tensor([1.0 if largest else -1.0])
    origin, shift = operands.entry.layer, _unbatched(constant, operands.entry)
    away = operands.linear(Scale(sign), -sign * shift, places[0])
    shift = shift.to(operands.reading.dtype).expand(after).flatten()
    above = operands.add(Relu(origin, (away,), after))
    return operands.add(Linear(origin, (above,), Scale(sign), after, after, shift, shift.abs()))


def larger(builder: Builder, origin: str, first: int, second: int, shape: Shape, largest: bool = True) -> int:
    """The larger (or smaller) of two values. Comparing rounds nothing, so the bounds hold for the operation itself."""
    pair = (second, first) if largest else (first, second)
    above = builder.add(Relu(origin, (builder.add(Sum(origin, pair, shape, -1.0)),), shape))
    return builder.add(Sum(origin, (first, above), shape, 1.0 if largest else -1.0))


def _extreme(operands: _Operands) -> int | None:
    """The largest or smallest over axes: of at most eight places pairs of values in rounds, else one large window."""
    shape, named = operands.shape(0), operands[1]
    if named is None or named == []:
        return None
    axes = [operands.axis(axis) for axis in ([named] if isinstance(named, int) else named)]
    places = [axis for axis in axes if axis is not None]
    if len(places) < len(axes):
        return None
    after, origin = operands.entry.shape, operands.entry.layer
    largest = operation_name(operands.entry) in ("amax", "max")
    axis, count = places[0], math.prod(shape[place] for place in places)
    if len(places) > 1 or not 2 <= shape[axis] <= PAIRED:
        return _windowed(operands, places, (1, math.prod(shape) // count, count), largest)
    values = [operands.moved(0, partial(_selected, axis=axis + 1, place=k)) for k in range(shape[axis])]
    while len(values) > 1:
        values = [*values[2:], larger(operands.reading.builder, origin, values[0], values[1], after, largest)]
    return values[0]


def _windowed(operands: _Operands, places: list[int], flat: Shape, largest: bool) -> int:
    """The largest of each row of ``flat`` [1, rows, count], where the axes ``places`` stand last; or the smallest."""
    origin, after = operands.entry.layer, operands.entry.shape
    ends = [place - len(places) for place in range(len(places))]
    number = operands.moved(0, lambda x: x.movedim([place + 1 for place in places], ends).reshape(1, *flat))
    turn = Scale(torch.tensor([-1.0]), 0)
    if not largest:
        number = operands.add(Linear(origin, (number,), turn, flat, flat))
    pool = operands.add(MaxPool(origin, (number,), flat, (1, flat[2]), (1, flat[2]), (0, 0), (1, 1), False))
    number = operands.add(_move_step(origin, pool, (1, flat[1], 1), lambda x: x.reshape(1, *after)))
    return number if largest else operands.add(Linear(origin, (number,), turn, after, after))


def _selected(x: Tensor, axis: int, place: int) -> Tensor:
    return x.select(axis, place)


def _absolute(operands: _Operands) -> int | None:
    """|x| = relu(x) + relu(-x)."""
    origin, source, shape = operands.entry.layer, operands.number(0), operands.shape(0)
    negative = operands.add(Linear(origin, (source,), Scale(torch.tensor([-1.0]), 0), shape, shape))
    parts = [operands.add(Relu(origin, (number,), shape)) for number in (source, negative)]
    return operands.add(Sum(origin, (parts[0], parts[1]), shape, 1.0))


def _joined(operands: _Operands) -> int | None:
    """Values and constants side by side along an axis; a constant is the same for every input of a batch."""
    entry, values = operands.entry, operands.reading.values
    parts = [operands.reading.constant(part) for part in entry.arguments[0]]
    axis = (operands[1] or 0) % (len(entry.shape) + 1)
    fixed = [part for part in parts if not isinstance(part, Ref)]
    if (
        entry.folded
        or axis == 0
        or len(fixed) == len(parts)
        or any(not torch.equal(c, c[:1].expand_as(c)) for c in fixed)
    ):
        return None
    numbers, shapes = zip(*(values[part.number] for part in parts if isinstance(part, Ref)), strict=True)
    put = torch.stack if operation_name(entry) == "stack" else torch.cat

    def arranged(flat: Tensor, constants: float = 0.0) -> Tensor:
        """The values of a batch ``flat`` [1, all] where they belong, and ``constants`` times the constants."""
        pieces = zip(flat.split([math.prod(shape) for shape in shapes], 1), shapes, strict=True)
        moved = [
            next(pieces) if isinstance(part, Ref) else (constants * part[:1].to(flat.dtype), part.shape[1:])
            for part in parts
        ]
        return put([piece.reshape(1, *shape) for piece, shape in moved], axis)

    size = sum(map(math.prod, shapes))
    joined = numbers[0] if len(numbers) == 1 else operands.add(Join(entry.layer, tuple(numbers), tuple(shapes)))
    before = shapes[0] if len(numbers) == 1 else (size,)
    step = _move_step(entry.layer, joined, before, lambda x: arranged(x.flatten(1)))
    if fixed:
        beside = arranged(torch.zeros(1, size, dtype=operands.reading.dtype), 1.0).flatten()
        step = replace(step, bias=beside, bias_size=beside.abs())
    return operands.add(step)


def _padded(operands: _Operands) -> int | None:
    """A value with a constant around it."""
    sides, *rest = operands.entry.arguments[1:]
    constant = float(rest[0]) if rest else 0.0
    if len(sides) > 2 * len(operands.shape(0)):
        return None
    linear = _move_step("", 0, operands.shape(0), lambda x: torch.nn.functional.pad(x, sides)).linear
    assert isinstance(linear, Move)
    around = torch.where(linear.index < 0, single(constant), 0.0).view(linear.after)
    return operands.linear(linear, around if constant else None)


def _copied(operands: _Operands) -> int | None:
    kind = operands.entry.keywords.get("dtype")
    if kind is not None and kind not in (torch.float32, torch.float64):
        return None
    return operands.number(0)


PAIRED = 8  # places of which the largest is taken in pairs
MOST_PRODUCTS = 1 << 22  # of numbers, when two values are multiplied as matrices
COMPARISONS = ("ge", "gt")
CREATION = ("dtype", "layout", "device", "pin_memory", "memory_format")  # keywords of operations that copy
MOVES = frozenset(
    """
    view _unsafe_view reshape flatten squeeze unsqueeze alias detach clone permute transpose t slice select expand
    repeat split split_with_sizes unbind chunk repeat_interleave pixel_unshuffle pixel_shuffle channel_shuffle flip roll
    index_select narrow diagonal unfold movedim swapaxes tile _reshape_alias view_as contiguous lift_fresh index gather
    take reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d upsample_nearest1d
    tril triu rot90 im2col upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
    """.split()  # noqa: SIM905, a list of 50 lines is no easier to read
)
_GROUPS: tuple[tuple[Conversion, tuple[str, ...]], ...] = (
    (_linear, ("addmm", "mm")),
    (_convolution, ("convolution",)),
    (_batch_norm, ("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")),
    (_add, ("add", "sub", "rsub")),
    (_multiplied, ("mul",)),
    (_divided, ("div",)),
    (_negative, ("neg",)),
    (_filled, ("where", "masked_fill")),
    (_interpolated, ("lerp",)),
    (_vector_norm, ("linalg_vector_norm",)),
    (_variance, ("var", "std")),
    (_averaged, ("avg_pool2d", "_adaptive_avg_pool2d", "mean", "sum")),
    (_averaged, ("upsample_linear1d", "upsample_bilinear2d", "avg_pool3d", "_adaptive_avg_pool3d")),
    (_padded, ("constant_pad_nd",)),
    (_max_pool, ("max_pool2d_with_indices",)),
    (_relu, ("relu", "leaky_relu")),
    (_maximum, ("maximum", "minimum")),
    (_extreme, ("amax", "amin", "max", "min")),
    (_absolute, ("abs",)),
    (_joined, ("cat", "stack")),
    (_sigmoidal, ("sigmoid", "tanh")),
    (_rising, (*COMPARISONS, "round", "floor", "ceil", "sign")),
    (_clamped, ("clamp", "clamp_min", "clamp_max", "hardtanh")),
    (_curve, ("silu", "mish", "hardswish", "hardsigmoid", "erf", "sin", "cos", "exp", "square", "sqrt", "log")),
    (_curve, ("reciprocal", "rsqrt")),
    (_gelu, ("gelu",)),
    (_elu, ("elu", "selu", "celu")),
    (_softplus, ("softplus",)),
    (_power, ("pow",)),
    (_prelu, ("_prelu_kernel", "prelu")),
    (_batch_product, ("bmm",)),
    (_softmax, ("_softmax", "softmax", "_safe_softmax")),
    (_log_softmax, ("_log_softmax", "log_softmax")),
    (_attention, ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math")),
    (_layer_norm, ("native_layer_norm",)),
    (_group_norm, ("native_group_norm",)),
    (_copied, ("_to_copy",)),
)
CONVERSIONS = {name: convert for convert, names in _GROUPS for name in names}
