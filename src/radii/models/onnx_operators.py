"""The ONNX operators that are understood, each as operations of a graph, whatever the opset writes it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from radii.models.graph import Shape

if TYPE_CHECKING:
    from radii.models.onnx_reader import Reader

LARGEST = 2**62  # the end of a slice without an end
Convert = Callable[[Any, Any, dict[str, Any]], Any]


def _plain(operation: str) -> Convert:
    return lambda reader, source, _: reader.emit(source, operation)


def _gemm(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    x, weight = source.input[0], reader.tensor(source, 1)
    bias = reader.tensor(source, 2)
    if attributes.get("transA", 0) or weight is None or x in reader.fixed:
        raise reader.refusal(source, "is used in a way that is not understood: x W + b is")
    scaled = np.float32(attributes.get("alpha", 1.0)) * (weight if attributes.get("transB", 0) else weight.T)
    names = [x, reader.make_constant(f"{source.output[0]}/weight", np.ascontiguousarray(scaled))]
    if bias is not None:
        value = np.float32(attributes.get("beta", 1.0)) * bias
        names.append(
            reader.make_constant(f"{source.output[0]}/bias", np.broadcast_to(value.reshape(-1), scaled.shape[:1]))
        )
    reader.emit(source, "linear", names)


def _window(reader: Reader, source: Any, attributes: dict[str, Any], sizes: Shape) -> tuple[dict[str, Any], list[int]]:
    """Stride and dilation of a layer with windows, and its padding [begin…, end…]."""
    rank = len(sizes)
    kind = attributes.get("auto_pad", b"NOTSET").decode()
    stride, dilation = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    padding = list(attributes.get("pads", [0] * 2 * rank))
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        before = reader.shape(source.input[0])[2:]
        total = [
            max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size)
            for size, s, d, k in zip(before, stride, dilation, sizes, strict=True)
        ]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        padding = small + large if kind == "SAME_UPPER" else large + small
    return {"stride": tuple(stride), "dilation": tuple(dilation)}, padding


def _padded(reader: Reader, source: Any, padding: list[int]) -> tuple[str, tuple[int, ...]]:
    """The input, padded by a node of its own where the two sides differ, and the padding that is left."""
    rank = len(padding) // 2
    if padding[:rank] == padding[rank:]:
        return source.input[0], tuple(padding[:rank])
    amounts = [
        amount for begin, end in zip(padding[:rank][::-1], padding[rank:][::-1], strict=True) for amount in (begin, end)
    ]
    return reader.emit(source, "pad", [source.input[0]], f"{source.output[0]}/padded", amounts=tuple(amounts)), (
        0,
    ) * rank


def _conv(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    weight = reader.tensor(source, 1)
    reader.tensor(source, 2)
    if weight is None or source.input[0] in reader.fixed:
        raise reader.refusal(source, "must have constant weights")
    settings, padding = _window(reader, source, attributes, weight.shape[2:])
    x, left = _padded(reader, source, padding)
    names = [x, *[name for name in source.input[1:] if name]]
    reader.emit(source, "conv", names, padding=left, groups=attributes.get("group", 1), **settings)


def _conv_transpose(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    weight = reader.tensor(source, 1)
    reader.tensor(source, 2)
    if weight is None or "output_shape" in attributes or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise reader.refusal(source, "is used in a way that is not understood: constant weights and pads are")
    settings, padding = _window(reader, source, attributes, weight.shape[2:])
    rank = len(padding) // 2
    if padding[:rank] != padding[rank:]:
        raise reader.refusal(source, "pads its two sides differently")
    spare = tuple(attributes.get("output_padding", [0] * rank))
    reader.emit(
        source,
        "conv",
        transposed=True,
        padding=tuple(padding[:rank]),
        groups=attributes.get("group", 1),
        output_padding=spare,
        **settings,
    )


def _max_pool(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    kernel = tuple(attributes["kernel_shape"])
    settings, padding = _window(reader, source, attributes, kernel)
    rank = len(kernel)
    if padding[:rank] != padding[rank:] or len(source.output) > 1:
        raise reader.refusal(source, "pads its two sides differently or has a second result")
    reader.emit(
        source,
        "max_pool",
        rank=rank,
        kernel_size=kernel,
        padding=tuple(padding[:rank]),
        ceil_mode=bool(attributes.get("ceil_mode", 0)),
        **settings,
    )


def _average_pool(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    kernel = tuple(attributes["kernel_shape"])
    settings, padding = _window(reader, source, attributes, kernel)
    rank, counted = len(kernel), bool(attributes.get("count_include_pad", 0))
    if set(settings.pop("dilation")) != {1} or (padding[:rank] != padding[rank:] and not counted):
        raise reader.refusal(source, "is dilated, or pads its two sides differently")
    x, left = _padded(reader, source, padding)
    reader.emit(
        source,
        "average_pool",
        [x],
        rank=rank,
        kernel_size=kernel,
        padding=left,
        ceil_mode=bool(attributes.get("ceil_mode", 0)),
        count_include_pad=counted,
        **settings,
    )


def _global_average(reader: Reader, source: Any, _attributes: dict[str, Any]) -> None:
    axes = tuple(range(2, len(reader.shape(source.input[0]))))
    reader.emit(source, "reduce", axes=axes, keep=True, mean=True)


def _reduced(mean: bool) -> Convert:
    def convert(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
        rank = len(reader.shape(source.input[0]))
        axes = attributes.get("axes") or reader.numbers(source, 1) or list(range(rank))
        places = tuple(sorted(axis % rank for axis in axes))
        reader.emit(
            source, "reduce", [source.input[0]], axes=places, keep=bool(attributes.get("keepdims", 1)), mean=mean
        )

    return convert


def _batch_norm(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    if attributes.get("training_mode", 0) or len([name for name in source.output if name]) > 1:
        raise reader.refusal(source, "is in training mode")
    for place in range(1, 5):
        reader.tensor(source, place)
    reader.emit(source, "batch_norm", epsilon=attributes.get("epsilon", 1e-5))


def _flatten(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    shape = reader.shape(source.input[0])
    axis = attributes.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    reader.emit(source, "reshape", shape=(int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))


def _reshape(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    before, wanted = reader.shape(source.input[0]), attributes.get("shape") or reader.numbers(source, 1) or []
    zero = bool(attributes.get("allowzero", 0))
    target = [before[place] if size == 0 and not zero else int(size) for place, size in enumerate(wanted)]
    if -1 in target:
        target[target.index(-1)] = int(np.prod(before)) // max(1, -int(np.prod(target)))
    reader.emit(source, "reshape", [source.input[0]], shape=tuple(target))


def _squeeze(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    shape = reader.shape(source.input[0])
    axes = attributes.get("axes") or reader.numbers(source, 1)
    gone = {axis % len(shape) for axis in axes} if axes else {place for place, size in enumerate(shape) if size == 1}
    kept = tuple(size for place, size in enumerate(shape) if place not in gone)
    reader.emit(source, "reshape", [source.input[0]], shape=kept)


def _unsqueeze(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    shape = list(reader.shape(source.input[0]))
    axes = attributes.get("axes") or reader.numbers(source, 1) or []
    rank = len(shape) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    reader.emit(source, "reshape", [source.input[0]], shape=tuple(shape))


def _transpose(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    rank = len(reader.shape(source.input[0]))
    reader.emit(source, "transpose", order=tuple(attributes.get("perm") or reversed(range(rank))))


def _pad(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    rank = len(reader.shape(source.input[0]))
    pads = attributes.get("pads") or reader.numbers(source, 1) or []
    value = reader.tensor(source, 2) if reader.opset >= 11 else np.array(attributes.get("value", 0.0))
    if (
        attributes.get("mode", b"constant") != b"constant"
        or (value is not None and float(value) != 0)
        or len(pads) != 2 * rank
    ):
        raise reader.refusal(source, "pads by something else than zeros on every axis")
    amounts = [amount for axis in reversed(range(rank)) for amount in (pads[axis], pads[axis + rank])]
    reader.emit(source, "pad", [source.input[0]], amounts=tuple(amounts))


def _clip(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    low, high = reader.tensor(source, 1), reader.tensor(source, 2)
    ends = (
        attributes.get("min") if low is None else float(low),
        attributes.get("max") if high is None else float(high),
    )
    if ends == (None, None):
        reader.emit(source, "identity", [source.input[0]])
    else:
        reader.emit(source, "clip", [source.input[0]], low=ends[0], high=ends[1])


def _slice(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    if reader.opset < 10:
        starts, ends = attributes["starts"], attributes["ends"]
        axes, steps = attributes.get("axes"), None
    else:
        starts, ends = reader.numbers(source, 1) or [], reader.numbers(source, 2) or []
        axes, steps = reader.numbers(source, 3), reader.numbers(source, 4)
    x, rank = source.input[0], len(reader.shape(source.input[0]))
    plan = list(zip(axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True))
    for number, (axis, start, stop, step) in enumerate(plan):
        output = "" if number == len(plan) - 1 else f"{source.output[0]}/{number}"
        size = reader.shape(x)[axis % rank]
        ending = None if step < 0 and stop < -size else max(-LARGEST, min(LARGEST, stop))
        x = reader.emit(source, "slice", [x], output, axis=axis % rank, start=start, stop=ending, step=step)


def _split(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    shape = reader.shape(source.input[0])
    axis = attributes.get("axis", 0) % len(shape)
    count = len(source.output)
    even = -(-shape[axis] // count)
    sizes = (
        attributes.get("split")
        or reader.numbers(source, 1)
        or [min(even, shape[axis] - even * k) for k in range(count)]
    )
    start = 0
    for output, size in zip(source.output, sizes, strict=True):
        reader.emit(source, "slice", [source.input[0]], output, axis=axis, start=start, stop=start + size, step=1)
        start += size


def _gather(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    places, shape = reader.tensor(source, 1), reader.shape(source.input[0])
    axis = attributes.get("axis", 0) % len(shape)
    if places is None:
        raise reader.refusal(source, "must have constant places")
    positive = np.where(places < 0, places + shape[axis], places)
    reader.emit(
        source, "gather", [source.input[0]], axis=axis, places=torch.from_numpy(np.array(positive, dtype=np.int64))
    )


def _concat(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    rank = len(reader.shape(next(name for name in source.input if name in reader.example)))
    reader.emit(source, "concat", axis=attributes["axis"] % rank)


def _softmax(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    shape = reader.shape(source.input[0])
    axis = attributes.get("axis", -1 if reader.opset >= 13 else 1) % len(shape)
    if reader.opset < 13 and int(np.prod(shape[axis + 1 :])) != 1:
        raise reader.refusal(source, "normalizes several axes")
    reader.emit(source, "softmax", axis=axis)


def _cast(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    if attributes["to"] != 1:
        raise reader.refusal(source, "casts a value of the network to something else than float32")
    reader.emit(source, "identity")


CONVERSIONS: dict[str, Convert] = {
    **{name: _plain(name.lower()) for name in ("Relu", "Sigmoid", "Tanh", "Sign", "Floor", "Round", "Identity")},
    **{name: _plain(name.lower()) for name in ("Add", "Sub", "Mul", "Div", "Neg", "MatMul")},
    "Dropout": lambda reader, source, _: reader.emit(source, "identity", [source.input[0]]),
    "LeakyRelu": lambda reader, source, attributes: reader.emit(
        source, "leaky_relu", slope=attributes.get("alpha", 0.01)
    ),
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _batch_norm,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average,
    "ReduceMean": _reduced(True),
    "ReduceSum": _reduced(False),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Pad": _pad,
    "Clip": _clip,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Concat": _concat,
    "Softmax": _softmax,
    "Cast": _cast,
}
