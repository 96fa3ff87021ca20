"""A traced network as layers that can be bounded, or the name of the layer that cannot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from radii.certificates.bounds.comparisons import SPLITS, absolute, extreme, joined, maximum, split_parts
from radii.certificates.bounds.linear_maps import Convolution, Dense, Gather, Scale, TransposedConvolution
from radii.certificates.bounds.relaxations import Affine, Layer, MaxPool, Monotone, Relu, Sigmoidal, Sum
from radii.certificates.bounds.tracing import Operands, Record, Ref, Trace, operation_name, refusal, same


@dataclass(frozen=True)
class Network:
    """Layers by the number of their value, in the order they run; value 0 is the input."""

    layers: dict[int, Layer]
    input_shape: tuple[int, ...]
    output: int
    shapes: dict[int, tuple[int, ...]]  # of every value, without the batch

    @property
    def classes(self) -> int:
        """How many logits there are."""
        return self.shapes[self.output][0]

    def readers(self) -> dict[int, list[Layer]]:
        """Which layers read each value."""
        read: dict[int, list[Layer]] = {number: [] for number in (0, *self.layers)}
        for layer in self.layers.values():
            for number in layer.inputs:
                read[number].append(layer)
        return read


def build(trace: Trace, dtype: torch.dtype | None = None) -> Network:
    """The layers of ``trace`` with present weights as ``dtype`` (default: their own); gradients reach the weights."""
    values: dict[int, Tensor] = {}
    shapes = {0: trace.input_shape}
    layers: dict[int, Layer] = {}
    for record in trace.records:
        if not record.moving:
            values |= _run_again(record, values)
            continue
        if _unread(record, values, shapes) and record.outputs[0] != trace.output:
            continue
        operands = Operands(record, values, shapes, dtype, layers)
        if len(record.outputs) > 1 and operation_name(record) in SPLITS:
            for number, part, shape in split_parts(record, operands):
                layers[number], shapes[number] = part, shape
            continue
        layer = _converted(record, operands)
        if isinstance(layer, int):  # the same value under another number
            layers[record.outputs[0]] = Affine(record.layer, (layer,), Gather(same, shapes[layer]), None)
        else:
            layers[record.outputs[0]] = layer
        shapes[record.outputs[0]] = record.shape
    return Network(layers, trace.input_shape, trace.output, shapes)


def _unread(record: Record, values: dict[int, Tensor], shapes: dict[int, tuple[int, ...]]) -> bool:
    """Whether an operation only moves a second result, such as the indices of a pool; what reads it on is refused."""
    leaves = tree_flatten((record.arguments, record.keywords))[0]
    unknown = any(isinstance(leaf, Ref) and leaf.number not in shapes and leaf.number not in values for leaf in leaves)
    return unknown and bool(record.outputs)


def _run_again(record: Record, values: dict[int, Tensor]) -> dict[int, Tensor]:
    """An operation on weights alone, with their present values."""

    def known(leaf: Any) -> Any:
        return values[leaf.number] if isinstance(leaf, Ref) else leaf

    arguments, keywords = tree_map(known, (record.arguments, record.keywords))
    results = record.operation(*arguments, **keywords)
    results = results if isinstance(results, tuple | list) else (results,)
    return dict(zip(record.outputs, (value for value in results if isinstance(value, Tensor)), strict=True))


def _converted(record: Record, operands: Operands) -> Layer | int:
    if record.shape == (-1,):
        raise refusal(record, "mixes the inputs of a batch")
    name = operation_name(record)
    if record.kind not in (torch.float32, torch.float64) and name not in (*COMPARISONS, *MOVES):
        raise refusal(record, f"computes in {record.kind}, where sums are no sums of numbers")
    convert = CONVERSIONS.get(name)
    layer = convert(record, operands) if convert else None
    if layer is None:
        raise refusal(
            record, "is not among the operations with bounds" if convert is None else "is used in a way without bounds"
        )
    return layer


def _linear(record: Record, operands: Operands) -> Layer | None:
    """addmm(bias, x, W^T), mm(x, W^T)."""
    if record.keywords:  # scaled products are not what linear layers make
        return None
    start = 1 if len(record.arguments) == 3 else 0
    x, weight = operands[start], operands[start + 1]
    if not isinstance(x, Ref) or isinstance(weight, Ref) or (start and isinstance(operands[0], Ref)):
        return None
    return operands.affine(Dense(weight.T), operands[0] if start else None, start)


def _convolution(record: Record, operands: Operands) -> Layer | None:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = (operands[place] for place in range(9))
    if not isinstance(x, Ref) or isinstance(weight, Ref) or weight.dim() != 4:
        return None
    if transposed:
        back = Convolution(weight, _pair(stride), _pair(padding), _pair(dilation), groups, record.shape)
        turned = TransposedConvolution(back, operands.shape(0))
        return operands.affine(turned, None if bias is None else bias.view(-1, 1, 1))
    linear = Convolution(weight, _pair(stride), _pair(padding), _pair(dilation), groups, operands.shape(0))
    return operands.affine(linear, None if bias is None else bias.view(-1, 1, 1))


def _batch_norm(record: Record, operands: Operands) -> Layer | None:
    weight, bias, mean, variance = (operands[place] for place in range(1, 5))
    if mean is None or (len(record.arguments) == 8 and operands[5]):
        return None
    factor = torch.rsqrt(variance + record.arguments[-1]) * (1 if weight is None else weight)
    offset = torch.zeros_like(mean) if bias is None else bias
    ones = (1,) * (len(operands.shape(0)) - 1)
    shift, size = offset - mean * factor, offset.abs() + (mean * factor).abs()
    return operands.affine(Scale(factor.view(-1, *ones), 8), shift.view(-1, *ones), 0, size.view(-1, *ones))


def _add(record: Record, operands: Operands) -> Layer | None:
    """x + y, x + constant, constant + x, and the same with minus."""
    sign = -1.0 if record.operation.__name__.startswith("sub") else 1.0
    sign *= record.keywords.get("alpha", 1)
    first, second = operands[0], operands[1]
    if isinstance(first, Ref) and isinstance(second, Ref):
        if operands.shape(0) != operands.shape(1) or abs(sign) != 1:
            return None
        return Sum(record.layer, (first.number, second.number), sign)
    if isinstance(first, Ref):
        return _shifted(record, operands, 0, 1.0, sign * _constant(second))
    return _shifted(record, operands, 1, sign, _constant(first))


def _shifted(record: Record, operands: Operands, place: int, factor: float, bias: Tensor) -> Layer | None:
    if not _fits(bias, operands.shape(place), record.shape):
        return None
    return operands.affine(
        Scale(torch.full((1,), factor, dtype=bias.dtype, device=bias.device)), _unbatched(bias, record), place
    )


def _scaled(record: Record, operands: Operands) -> Layer | None:
    divided = record.operation.__name__.startswith("div")
    place = 0 if isinstance(operands[0], Ref) else 1
    other = operands[1 - place]
    if isinstance(other, Ref) or (divided and place == 1) or "rounding_mode" in record.keywords:
        return None
    factor = _constant(other)
    if not _fits(factor, operands.shape(place), record.shape):
        return None
    factor = _unbatched(factor, record)
    return operands.affine(Scale(1 / factor if divided else factor), None, place)


def _constant(value: Any) -> Tensor:
    """A number as float32 networks use it."""
    return value if isinstance(value, Tensor) else torch.tensor(_single(value))


def _single(value: Any) -> Any:
    """``value`` rounded to float32 if it is a number with a fraction."""
    return float(torch.tensor(value, dtype=torch.float32)) if isinstance(value, float) else value


def _fits(constant: Tensor, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """No broadcasting of the input, and no constant that differs between the inputs of a batch."""
    return before == after and (constant.dim() <= len(after) or constant.shape[0] == 1)


def _unbatched(constant: Tensor, record: Record) -> Tensor:
    return constant[0] if constant.dim() > len(record.shape) else constant


def _viewed(record: Record, operands: Operands) -> Layer | None:
    shape = record.shape
    if math.prod(shape) != math.prod(operands.shape(0)):
        return None
    return operands.moved(lambda x: x.reshape(len(x), *shape))


def _permuted(record: Record, operands: Operands) -> Layer | None:
    order = [axis % (len(record.shape) + 1) for axis in record.arguments[1]]
    return operands.moved(lambda x: x.permute(order)) if order[0] == 0 else None


def _replayed(record: Record, operands: Operands) -> Layer | None:
    """Moves that are a function of the input and of numbers alone: unshuffling, padding by zeros, slicing."""
    operation, rest, keywords = record.operation, record.arguments[1:], record.keywords
    if record.operation.__name__.startswith("constant_pad") and (keywords or (len(rest) > 1 and rest[1] != 0)):
        return None
    if record.operation.__name__.startswith("slice") and rest and rest[0] == 0:
        return None
    return operands.moved(lambda x: operation(x, *rest, **keywords))


def _averaged(record: Record, operands: Operands) -> Layer | None:
    operation, rest, keywords = record.operation, record.arguments[1:], record.keywords
    if record.operation.__name__.startswith(("mean", "sum")):
        axes = rest[0] if rest else None
        if not axes or 0 in [axis % (len(operands.shape(0)) + 1) for axis in axes]:
            return None
    elif len(rest) > 5 and rest[5] is not None and rest[5] <= 0:  # divisor_override: weights must not be negative
        return None
    return operands.moved(lambda x: operation(x, *rest, **keywords), math.prod(operands.shape(0)))


def _max_pool(record: Record, operands: Operands) -> Layer | None:
    if len(operands.shape(0)) != 3:
        return None
    kernel = _pair(operands[1])
    stride, padding, dilation = _pair(operands[2] or kernel), _pair(operands[3] or (0,)), _pair(operands[4] or (1,))
    layer = MaxPool(record.layer, (operands[0].number,), kernel, stride, padding, dilation, bool(operands[5]))
    if bool((layer.members(*operands.shape(0)[1:]) < 0).all(1).any()):
        raise refusal(record, "has windows without a single pixel, whose largest is minus infinity")
    return layer


def _pair(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sizes) * (2 // len(sizes))


def _relu(record: Record, operands: Operands) -> Layer | None:
    leaky = not record.operation.__name__.startswith("relu")
    slope = float(0.01 if operands[1] is None else operands[1]) if leaky else 0.0
    return Relu(record.layer, (operands[0].number,), slope) if 0 <= slope <= 1 else None


def _rising(record: Record, operands: Operands) -> Layer | None:
    """Steps, rounding and clamping by constants: rising in each coordinate, and exact in any float type."""
    operation, rest, keywords = record.operation, record.arguments[1:], record.keywords
    if any(isinstance(value, Ref) for value in (*rest, *keywords.values())):
        return None
    # A number may be used as it is (in float64) or rounded to float32: the interval covers both.
    variants = [(rest, keywords), tree_map(_single, (rest, keywords))]

    def low(x: Tensor) -> Tensor:
        return torch.minimum(*(operation(x.clone(), *more, **words).to(x.dtype) for more, words in variants))

    def high(x: Tensor) -> Tensor:
        return torch.maximum(*(operation(x.clone(), *more, **words).to(x.dtype) for more, words in variants))

    return Monotone(record.layer, (operands[0].number,), low, high)


def _copied(record: Record, operands: Operands) -> Layer | int | None:
    kind = record.keywords.get("dtype")
    if kind is not None and kind not in (torch.float32, torch.float64):
        return None
    return int(operands[0].number)


def _sigmoidal(record: Record, operands: Operands) -> Layer | None:
    return Sigmoidal(record.layer, (operands[0].number,), record.operation.__name__.startswith("tanh"))


COMPARISONS = ("ge", "gt")
VIEWS = ("view", "_unsafe_view", "reshape", "flatten", "squeeze", "unsqueeze")
COPIES = ("alias", "detach", "clone")
MOVES = (*VIEWS, *COPIES, "permute", "slice")
Conversion = Callable[[Record, Operands], Layer | int | None]
_GROUPS: tuple[tuple[Conversion, tuple[str, ...]], ...] = (
    (_linear, ("addmm", "mm")),
    (_convolution, ("convolution",)),
    (_batch_norm, ("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")),
    (_add, ("add", "sub")),
    (_scaled, ("mul", "div")),
    (_viewed, VIEWS),
    (_permuted, ("permute",)),
    (_replayed, ("pixel_unshuffle", "constant_pad_nd", "slice")),
    (_averaged, ("avg_pool2d", "_adaptive_avg_pool2d", "mean", "sum")),
    (_max_pool, ("max_pool2d_with_indices",)),
    (_relu, ("relu", "leaky_relu")),
    (maximum, ("maximum", "minimum")),
    (extreme, ("amax", "amin")),
    (absolute, ("abs",)),
    (joined, ("cat", "stack")),
    (_sigmoidal, ("sigmoid", "tanh")),
    (_rising, (*COMPARISONS, "round", "floor", "ceil", "sign", "clamp", "clamp_min", "clamp_max", "hardtanh")),
    (_copied, ("_to_copy", *COPIES)),
)
CONVERSIONS = {name: convert for convert, names in _GROUPS for name in names}
