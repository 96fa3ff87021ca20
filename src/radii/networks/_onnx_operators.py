"""The ONNX operators that are understood, each as operations of a graph, whatever the opset writes it with."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from radii.networks.graph import Shape

if TYPE_CHECKING:
    from radii.networks.read_onnx import Reader

LARGEST = 2**62  # the end of a slice without an end
SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # alpha and gamma that a file may leave out
Convert = Callable[[Any, Any, dict[str, Any]], Any]


def _plain(operation: str) -> Convert:
    return lambda reader, source, _: reader.emit(source, operation)


def _gemm(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    x, bias = source.input[0], reader.tensor(source, 2)
    if x in reader.fixed or source.input[1] not in reader.fixed:
        _product(reader, source, attributes, bias)
        return
    weight = reader.tensor(source, 1)
    assert weight is not None
    if attributes.get("transA", 0):
        x = reader.emit(source, "transpose", [x], f"{source.output[0]}/turned", order=(1, 0))
    scaled = np.float32(attributes.get("alpha", 1.0)) * (weight if attributes.get("transB", 0) else weight.T)
    names = [x, reader.make_constant(f"{source.output[0]}/weight", np.ascontiguousarray(scaled))]
    if bias is not None:
        value = np.float32(attributes.get("beta", 1.0)) * bias
        names.append(
            reader.make_constant(f"{source.output[0]}/bias", np.broadcast_to(value.reshape(-1), scaled.shape[:1]))
        )
    reader.emit(source, "linear", names)


def _product(reader: Reader, source: Any, attributes: dict[str, Any], bias: Any) -> None:
    """A Gemm of two values, or with the constant on the left: alpha A B + beta C."""
    sides = []
    for name, turned in zip(source.input[:2], (attributes.get("transA", 0), attributes.get("transB", 0)), strict=True):
        if not turned:
            sides.append(name)
        elif name in reader.fixed:
            sides.append(reader.make_constant(f"{source.output[0]}/{name}", reader.fixed[name].T.copy()))
        else:
            sides.append(reader.emit(source, "transpose", [name], f"{source.output[0]}/{name}", order=(1, 0)))
    alpha = float(attributes.get("alpha", 1.0))
    last = bias is None and alpha == 1
    y = reader.emit(source, "matmul", sides, "" if last else f"{source.output[0]}/product")
    if alpha != 1:
        factor = reader.make_constant(f"{source.output[0]}/alpha", np.array(alpha, dtype=np.float32))
        y = reader.emit(source, "mul", [y, factor], "" if bias is None else f"{source.output[0]}/scaled")
    if bias is not None:
        shift = np.float32(attributes.get("beta", 1.0)) * bias
        reader.emit(source, "add", [y, reader.make_constant(f"{source.output[0]}/bias", shift)])


def _rearranged(places: Callable[[Any, dict[str, Any], Any], Any]) -> Convert:
    """An operator that moves numbers; ``places`` does the same to an array, by attributes and inputs."""

    def convert(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
        shape = reader.shape(source.input[0])
        numbers = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        result = places(numbers, attributes, [reader.numbers(source, k) for k in range(1, len(source.input))])
        reader.emit(source, "moved", [source.input[0]], places=torch.from_numpy(np.ascontiguousarray(result)))

    return convert


def _expanded(x: Any, _attributes: dict[str, Any], inputs: Any) -> Any:
    return x * np.ones(inputs[0], dtype=np.int64)


def _depth_to_space(x: Any, attributes: dict[str, Any], _inputs: Any) -> Any:
    b, (n, c, h, w) = attributes["blocksize"], x.shape
    if attributes.get("mode", b"DCR") == b"DCR":
        return x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)


def _space_to_depth(x: Any, attributes: dict[str, Any], _inputs: Any) -> Any:
    b, (n, c, h, w) = attributes["blocksize"], x.shape
    return x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)


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


def _global_max(reader: Reader, source: Any, _attributes: dict[str, Any]) -> None:
    axes = tuple(range(2, len(reader.shape(source.input[0]))))
    reader.emit(source, "extreme", axes=axes, keep=True, largest=True)


def _over_axes(operation: str, **settings: Any) -> Convert:
    """An operation over the axes that are named, or over all; over none where the file says so."""

    def convert(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
        rank = len(reader.shape(source.input[0]))
        axes = attributes.get("axes") or reader.numbers(source, 1)
        if not axes and attributes.get("noop_with_empty_axes", 0):
            reader.emit(source, "identity", [source.input[0]])
            return
        places = tuple(sorted(axis % rank for axis in axes or range(rank)))
        keep = bool(attributes.get("keepdims", 1))
        reader.emit(source, operation, [source.input[0]], axes=places, keep=keep, **settings)

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
    mode, axes = attributes.get("mode", b"constant").decode(), reader.numbers(source, 3)
    if axes:
        begins, ends = dict(zip(axes, pads, strict=False)), dict(zip(axes, pads[len(axes) :], strict=True))
        pads = [part.get(axis, part.get(axis - rank, 0)) for part in (begins, ends) for axis in range(rank)]
    if mode in ("reflect", "edge", "wrap") and min(pads) >= 0:
        sides = list(zip(pads[:rank], pads[rank:], strict=True))
        _rearranged(lambda x, _, __: np.pad(x, sides, mode=mode))(reader, source, attributes)  # type: ignore[call-overload]
        return
    if mode != "constant" or len(pads) != 2 * rank:
        raise reader.refusal(source, "pads by something else than a number or copies")
    amounts = [amount for axis in reversed(range(rank)) for amount in (pads[axis], pads[axis + rank])]
    around = 0.0 if value is None else float(value)
    reader.emit(source, "pad", [source.input[0]], amounts=tuple(amounts), value=around)


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
    operation = "log_softmax" if source.op_type == "LogSoftmax" else "softmax"
    if reader.opset >= 13 or int(np.prod(shape[axis + 1 :])) == 1:
        reader.emit(source, operation, axis=axis)
        return
    rows = (int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))  # all axes from this one on together
    flat = reader.emit(source, "reshape", [source.input[0]], f"{source.output[0]}/rows", shape=rows)
    flat = reader.emit(source, operation, [flat], f"{source.output[0]}/shares", axis=1)
    reader.emit(source, "reshape", [flat], shape=shape)


def check_inference(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    """Refuse a Dropout ``source`` with these ``attributes`` that ``reader`` meets in training mode."""
    training = reader.tensor(source, 2)
    if (training is not None and bool(training.any())) or attributes.get("is_test", 1) == 0:
        raise reader.refusal(source, "is in training mode: it draws random numbers")


def _cast(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    if attributes["to"] != 1:
        raise reader.refusal(source, "casts a value of the network to something else than float32")
    reader.emit(source, "identity")


def _with(operation: str, **usual: float) -> Convert:
    """An operation with the node's numbers; ``usual`` are those that a file may leave out."""
    return lambda reader, source, attributes: reader.emit(
        source, operation, **{name: float(attributes.get(name, value)) for name, value in usual.items()}
    )


def _selu(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    """gamma times an ELU; torch's own where both numbers are the usual ones."""
    alpha, gamma = (attributes.get(name, usual) for name, usual in zip(("alpha", "gamma"), SELU, strict=True))
    if (alpha, gamma) == SELU:
        reader.emit(source, "selu")
        return
    y = reader.emit(source, "elu", None, f"{source.output[0]}/elu", alpha=float(alpha))
    factor = reader.make_constant(f"{source.output[0]}/gamma", np.array(gamma, dtype=np.float32))
    reader.emit(source, "mul", [y, factor])


def _gelu(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    reader.emit(source, "gelu", approximate=attributes.get("approximate", b"none").decode())


def _pow(reader: Reader, source: Any, _attributes: dict[str, Any]) -> None:
    exponent = reader.tensor(source, 1)
    if exponent is None or exponent.size != 1:
        raise reader.refusal(source, "must have one constant exponent")
    reader.emit(source, "pow", [source.input[0]], exponent=float(exponent.reshape(-1)[0]))


def _several(operation: str) -> Convert:
    """The largest or smallest of any number of values, in pairs."""

    def convert(reader: Reader, source: Any, _attributes: dict[str, Any]) -> None:
        names = list(source.input)
        if len(names) == 1:
            reader.emit(source, "identity")
        while len(names) > 1:
            output = "" if len(names) == 2 else f"{source.output[0]}/{len(names)}"
            names = [reader.emit(source, operation, names[:2], output), *names[2:]]

    return convert


def _layer_norm(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    weight = reader.tensor(source, 1)
    rank = len(reader.shape(source.input[0]))
    axis = attributes.get("axis", -1) % rank
    if weight is None or weight.shape != reader.shape(source.input[0])[axis:] or len(source.output) > 1:
        raise reader.refusal(source, "must scale all its last axes by constants and have one result")
    reader.tensor(source, 2)
    reader.emit(source, "layer_norm", epsilon=attributes.get("epsilon", 1e-5))


def _resize(reader: Reader, source: Any, attributes: dict[str, Any]) -> None:
    """Images repeated whole times; other resizings are refused."""
    shape = reader.shape(source.input[0])
    place = 1 if source.op_type == "Upsample" or reader.opset < 11 else 2
    scales = attributes.get("scales") or reader.tensor(source, place)
    sizes = reader.numbers(source, 3)
    if "axes" in attributes or attributes.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        raise reader.refusal(source, "names axes or keeps the ratio of sides: write scales or sizes of all axes")
    if sizes:
        scales = [size / before for size, before in zip(sizes, shape, strict=True)]
    factors = [] if scales is None else [float(scale) for scale in np.asarray(scales).reshape(-1)]
    mode = attributes.get("mode", b"nearest").decode()
    kinds = (
        attributes.get("coordinate_transformation_mode", b"half_pixel").decode(),
        attributes.get("nearest_mode", b"round_prefer_floor").decode(),
    )
    whole = len(factors) == len(shape) and all(factor >= 1 and factor == int(factor) for factor in factors)
    plain = source.op_type == "Upsample" or reader.opset < 11
    plain = plain or kinds in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"))
    if mode == "linear" and _is_interpolated(reader, source, kinds[0], factors, shape, sizes):
        return
    if mode != "nearest" or not whole or not plain:
        raise reader.refusal(
            source, "must repeat pixels a whole number of times (nearest) or interpolate images by half pixels (linear)"
        )
    reader.emit(source, "repeat", [source.input[0]], counts=tuple(int(factor) for factor in factors))


def _is_interpolated(
    reader: Reader, source: Any, kind: str, factors: list[float], shape: Shape, sizes: list[int] | None
) -> bool:
    """Interpolate images linearly, if torch does it alike."""
    names = {3: "linear", 4: "bilinear"}
    exact = all(float(size * factor).is_integer() for size, factor in zip(shape, factors, strict=False))
    if len(shape) not in names or factors[:2] != [1.0, 1.0] or not (sizes or exact) or min(factors) < 1:
        return False
    if source.op_type == "Upsample" or kind not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return False
    target = tuple(sizes or (int(size * factor) for size, factor in zip(shape, factors, strict=True)))[2:]
    corners = kind == "align_corners"
    reader.emit(source, "interpolate", [source.input[0]], size=target, mode=names[len(shape)], corners=corners)
    return True


def _summed(mean: bool) -> Convert:
    """The sum, or mean, of any number of values."""

    def convert(reader: Reader, source: Any, _attributes: dict[str, Any]) -> None:
        names, count = list(source.input), len(source.input)
        if count == 1:
            reader.emit(source, "identity")
        while len(names) > 1:
            output = "" if len(names) == 2 and not mean else f"{source.output[0]}/{len(names)}"
            names = [reader.emit(source, "add", names[:2], output), *names[2:]]
        if mean and count > 1:
            share = reader.make_constant(f"{source.output[0]}/share", np.array(1 / count, dtype=np.float32))
            reader.emit(source, "mul", [names[0], share])

    return convert


CONVERSIONS: dict[str, Convert] = {
    **{name: _plain(name.lower()) for name in ("Abs", "Erf", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Mish")},
    **{name: _plain(name.lower()) for name in ("Softplus", "HardSwish", "PRelu")},
    "Selu": _selu,
    "Elu": _with("elu", alpha=1.0),
    "Celu": _with("celu", alpha=1.0),
    "HardSigmoid": _with("hardsigmoid", alpha=0.2, beta=0.5),
    "Gelu": _gelu,
    "Pow": _pow,
    "Max": _several("max"),
    "Min": _several("min"),
    "ReduceMax": _over_axes("extreme", largest=True),
    "ReduceMin": _over_axes("extreme", largest=False),
    "LayerNormalization": _layer_norm,
    "Resize": _resize,
    "Upsample": _resize,
    **{
        name: _plain(name.lower()) for name in ("Relu", "Sigmoid", "Tanh", "Sign", "Floor", "Ceil", "Round", "Identity")
    },
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
    "ReduceMean": _over_axes("reduce", mean=True),
    "ReduceSum": _over_axes("reduce", mean=False),
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
    "LogSoftmax": _softmax,
    "GlobalMaxPool": _global_max,
    "Sum": _summed(False),
    "Mean": _summed(True),
    "Expand": _rearranged(_expanded),
    "Tile": _rearranged(lambda x, _, inputs: np.tile(x, inputs[0])),
    "DepthToSpace": _rearranged(_depth_to_space),
    "SpaceToDepth": _rearranged(_space_to_depth),
    "Cast": _cast,
}


def operator_list() -> str:
    """The operators of the table, for the guide: an indented paragraph."""
    names = ", ".join(sorted({*CONVERSIONS, "Shape"}))
    return "\n".join(wrap(names + ".", 110, initial_indent="  ", subsequent_indent="  "))
