"""The Lipschitz constant of each kind of plain layer, and the rounding of its float64 evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, factorial, inf, nextafter, prod, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.layers.plain_layers import (
    BlockedLinear,
    BlockedPointwise,
    ChannelAffine,
    Normalization,
    Residual,
    SkewExponential,
    TokenMix,
    Translation,
)
from radii.models.layers.weightless import (
    FirstChannels,
    FlattenTokens,
    HalfAbs,
    MaxMin,
    OverlappingPatches,
    TokenShift,
    ZeroBorder,
    ZeroChannels,
)
from radii.models.lipschitz.operators import (
    UNIT32,
    Operator,
    convolution_operators,
    estimated_norm,
    fallback_norm,
    grid_norm,
    matrix_operator,
    near_isometry_norm,
    proof_cost,
    proved_norm,
)

MOST_PROOF_COST = 4e12  # operations per layer; two to three minutes of one core
Shape = tuple[int, ...]


@dataclass(frozen=True)
class LayerBound:
    """The bound of one layer on inputs of its size.

    Args:
        value: an upper bound of its L2 Lipschitz constant.
        method: how it was computed: ``exact``, ``proved`` or ``fallback``.
        absolute: its float64 output is off by at most rounding(terms) * (absolute * |x| + offset) for an input x.
        terms: products in one sum; 0: the layer rounds nothing.
        peak: what the layer computes on its way is at most peak |x| + peak_offset; 0: the sums say it.
    """

    value: float
    method: str = "exact"
    absolute: float = 0.0
    offset: float = 0.0
    terms: int = 0
    peak: float = 0.0
    peak_offset: float = 0.0
    name: str = ""
    kind: str = ""


Rule = Callable[[nn.Module, Shape, bool], LayerBound]


def bound_layer(name: str, layer: nn.Module, shape: Shape, prove: bool) -> LayerBound:
    """The bound of ``layer``, called ``name``, on inputs of ``shape`` without the batch; ``prove``: not by fallback."""
    kind = type(layer).__name__
    rule = RULES.get(type(layer))
    if rule is None:  # its state may be anything: packed weights, data types
        kinds = ", ".join(sorted(known.__name__ for known in RULES))
        raise InputError(f"Layer {name!r} ({kind}) cannot be bounded: nothing is known about its kind. Known: {kinds}.")
    if not all(bool(value.isfinite().all()) for value in layer.state_dict().values()):
        raise InputError(f"Layer {name!r} ({kind}) cannot be bounded: its weights are not finite.")
    try:
        return replace(rule(layer, shape, prove), name=name, kind=kind)
    except InputError as error:
        raise InputError(f"Layer {name!r} ({kind}) cannot be bounded: {error}") from error


def norm_bound(operators: list[Operator], prove: bool) -> tuple[float, str]:
    """The largest norm of ``operators`` (groups) and its method: proved if ``prove`` and affordable, else fallback."""
    values, methods = [], set()
    for operator in operators:
        proved = near_isometry_norm(operator) if prove else None
        if prove and proved is None and proof_cost(operator) <= MOST_PROOF_COST:
            proved = proved_norm(operator, estimated_norm(operator))
        methods.add("fallback" if proved is None else "proved")
        values.append(fallback_norm(operator) if proved is None else proved)
    return max(values), "fallback" if "fallback" in methods else "proved"


def _isometry(_layer: nn.Module, _shape: Shape, _prove: bool) -> LayerBound:
    return LayerBound(1.0)


def _normalization(layer: nn.Module, _shape: Shape, _prove: bool) -> LayerBound:
    assert isinstance(layer, Normalization)
    largest = nextafter(1 / float(layer.std.double().min()), inf)
    return LayerBound(largest, "exact", largest, largest * _spread(layer.mean, _shape), 3)


def _affine(layer: nn.Module, shape: Shape, _prove: bool) -> LayerBound:
    assert isinstance(layer, ChannelAffine)
    largest = float(layer.scale.double().abs().max())
    return LayerBound(largest, "exact", largest, _spread(layer.shift_size, shape), 7, *layer.peak)


def _translation(layer: nn.Module, _shape: Shape, _prove: bool) -> LayerBound:
    assert isinstance(layer, Translation)
    return LayerBound(1.0, "exact", 1.0, float(layer.offset.double().norm()) * (1 + 1e-12), 1)


def _spread(values: Tensor, shape: Shape) -> float:
    """The norm of per-channel values over all pixels of ``shape`` (or of one value for all)."""
    pixels = prod(shape) / len(values)
    return float(values.detach().double().norm()) * sqrt(pixels) * (1 + 1e-12)


def _linear(layer: nn.Module, shape: Shape, prove: bool) -> LayerBound:
    assert isinstance(layer, nn.Linear)
    if len(shape) != 1:
        raise InputError(f"a linear layer must follow a Flatten, got inputs of shape {shape} instead.")
    operator = matrix_operator(layer.weight)
    value, method = norm_bound([operator], prove)
    offset = 0.0 if layer.bias is None else _spread(layer.bias, (layer.out_features,))
    terms = operator.terms
    if isinstance(layer, BlockedLinear):  # sums over a block, then over the blocks
        terms = layer.block + layer.in_features // layer.block
    return LayerBound(value, method, operator.absolute, offset, terms + 2)


def _token_mix(layer: nn.Module, _shape: Shape, prove: bool) -> LayerBound:
    """The same matrix for every mixed channel, the identity for the others."""
    assert isinstance(layer, TokenMix)
    operator = matrix_operator(layer.weight)
    value, method = norm_bound([operator], prove)
    return LayerBound(max(1.0, value), method, max(1.0, operator.absolute), 0.0, operator.terms + 2)


def _overlapping_patches(layer: nn.Module, _shape: Shape, _prove: bool) -> LayerBound:
    """A pixel goes to several outputs and no output has two pixels: the root of its summed squared weights."""
    assert isinstance(layer, OverlappingPatches)
    squares = F.pad(layer.window.double().square(), (0, -layer.window.shape[1] % layer.patch) * 2)
    folded = squares.unflatten(0, (-1, layer.patch)).sum(0).unflatten(1, (-1, layer.patch)).sum(1)
    value = nextafter(sqrt(float(folded.max())) * (1 + 1e-12), inf)
    return LayerBound(value, "exact", value, 0.0, 2)


def _convolution(layer: nn.Module, shape: Shape, prove: bool) -> LayerBound:
    assert isinstance(layer, nn.Conv2d)
    if len(shape) != 3 or shape[0] != layer.in_channels:
        raise InputError(f"it takes images of {layer.in_channels} channels, got inputs of shape {shape} instead.")
    size, padding = (shape[1], shape[2]), _padding(layer)
    copies = 1.0
    if layer.padding_mode != "zeros":
        copies = _copies(layer, size, padding)
        size = (size[0] + sum(padding[0]), size[1] + sum(padding[1]))
        padding = ((0, 0), (0, 0))
    operators = convolution_operators(
        layer.weight, size, _pair(layer.stride), padding, _pair(layer.dilation), layer.groups
    )
    out_size = _out_size(layer, size, padding)
    grid = (shape[1] // layer.stride[0], shape[2] // layer.stride[1])
    whole = (grid[0] * layer.stride[0], grid[1] * layer.stride[1]) == (shape[1], shape[2])
    if layer.padding_mode == "circular" and whole and out_size[0] <= grid[0] and out_size[1] <= grid[1]:
        # No output is there twice: these are outputs of a circular convolution, which the DFT diagonalizes.
        value, method = max(grid_norm(operator.kernel, grid) for operator in operators), "proved"
    else:
        value, method = norm_bound(operators, prove)
        value *= copies
    absolute = copies * max(operator.absolute for operator in operators)
    offset = 0.0 if layer.bias is None else _spread(layer.bias, (layer.out_channels, *out_size))
    terms = max(operator.terms for operator in operators)
    if isinstance(layer, BlockedPointwise):  # sums over a block, then over the blocks
        terms = layer.block + layer.in_channels // layer.block
    return LayerBound(value, method, absolute, offset, terms + 2)


def _residual(layer: nn.Module, shape: Shape, prove: bool) -> LayerBound:
    """x - W^T relu(W x + b) is max(1, |W|^2 - 1)-Lipschitz: see :class:`radii.models.layers.plain_layers.Residual`.

    Rounding: with g the relative error of a sum and a the norm of |W|, the inner
    value r is off by g (a |x| + |b|), W^T r by g a |r| more, the difference by g
    times its parts, where |r| <= |W| |x| + |b| + its own error. ``second`` is g a
    at its largest, in float32: what is of second order.
    """
    assert isinstance(layer, Residual)
    operators = _same_size(layer.weight, shape)
    norm, method = norm_bound(operators, prove)
    a, terms = operators[0].absolute, operators[0].terms + 3
    second = 1.01 * terms * UNIT32 * a
    bias = 0.0 if layer.bias is None else _spread(layer.bias, (len(layer.bias), *shape[1:]))
    value = max(1.0, nextafter(norm * norm - 1.0, inf))
    absolute = a * (2 * norm + second) + 1 + (norm + second) ** 2
    return LayerBound(value, method, absolute, (a + 3 * (norm + second)) * bias, terms, a, bias)


def _skew_exponential(layer: nn.Module, shape: Shape, prove: bool) -> LayerBound:
    """exp of a skew operator is orthogonal; its Taylor polynomial is off by |A|^{n+1} / (n+1)!."""
    assert isinstance(layer, SkewExponential)
    if not torch.equal(layer.weight, -layer.weight.transpose(0, 1).flip(2, 3)):
        raise InputError("its kernel is not skew-symmetric.")
    operators = _same_size(layer.weight, shape)
    norm, method = norm_bound(operators, prove)
    value = nextafter(1.0 + norm ** (layer.terms + 1) / factorial(layer.terms + 1) * (1 + 1e-12), inf)
    # Power j of A is carried with an error of at most norm^(j-1) / (j-1)! times that of one product.
    absolute = 2 * exp(norm) * (operators[0].absolute + layer.terms)
    offset = 0.0 if layer.bias is None else _spread(layer.bias, shape)
    return LayerBound(value, method, absolute, offset, operators[0].terms + layer.terms + 2)


def _same_size(weight: Tensor, shape: Shape) -> list[Operator]:
    """The operator of a matrix, or of a convolution with zero padding that keeps the image size."""
    if weight.dim() == 2:
        return [matrix_operator(weight)]
    around = [(taps // 2, taps // 2) for taps in weight.shape[2:]]
    return convolution_operators(weight, (shape[1], shape[2]), (1, 1), (around[0], around[1]), (1, 1), 1)


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _out_size(
    layer: nn.Conv2d, size: tuple[int, int], padding: tuple[tuple[int, int], tuple[int, int]]
) -> tuple[int, int]:
    reach = [layer.dilation[axis] * (layer.kernel_size[axis] - 1) + 1 for axis in (0, 1)]
    rows, columns = ((size[a] + sum(padding[a]) - reach[a]) // layer.stride[a] + 1 for a in (0, 1))
    return rows, columns


def _padding(layer: nn.Conv2d) -> tuple[tuple[int, int], tuple[int, int]]:
    """Zeros before and after, per axis; ``same`` puts the odd one behind, as torch does."""
    if layer.padding == "valid":
        return ((0, 0), (0, 0))
    amounts = []
    for axis in (0, 1):
        if layer.padding == "same":
            total = layer.dilation[axis] * (layer.kernel_size[axis] - 1)
            amounts.append((total // 2, total - total // 2))
        else:
            amounts.append((int(layer.padding[axis]), int(layer.padding[axis])))
    return (amounts[0], amounts[1])


def _copies(layer: nn.Conv2d, size: tuple[int, int], padding: tuple[tuple[int, int], tuple[int, int]]) -> float:
    """The norm of the padding itself: the root of how often it repeats the most repeated pixel."""
    pixels = torch.arange(prod(size), dtype=torch.float64).view(1, 1, *size)
    padded = F.pad(pixels, (*padding[1], *padding[0]), mode=layer.padding_mode)
    return nextafter(sqrt(int(padded.long().flatten().bincount().max())), inf)


def _max_pool(layer: nn.Module, _shape: Shape, _prove: bool) -> LayerBound:
    """A maximum is 1-Lipschitz in the sup norm of its window; overlapping windows count an input more than once."""
    assert isinstance(layer, nn.MaxPool2d)
    kernel, stride, dilation = _pair(layer.kernel_size), _pair(layer.stride), _pair(layer.dilation)
    if dilation != (1, 1):
        raise InputError("dilated pooling is not supported.")
    windows = prod(-(-kernel[axis] // stride[axis]) for axis in (0, 1))
    return LayerBound(nextafter(sqrt(windows), inf) if windows > 1 else 1.0)


def _average_pool(layer: nn.Module, shape: Shape, prove: bool) -> LayerBound:
    assert isinstance(layer, nn.AvgPool2d)
    if layer.ceil_mode or layer.divisor_override is not None or (not layer.count_include_pad and layer.padding):
        raise InputError("only plain average pooling is supported.")
    kernel, padding = _pair(layer.kernel_size), _pair(layer.padding)
    weight = torch.full((1, 1, *kernel), 1 / prod(kernel), dtype=torch.float64)
    around = ((padding[0], padding[0]), (padding[1], padding[1]))
    operators = convolution_operators(weight, (shape[1], shape[2]), _pair(layer.stride), around, (1, 1), 1)
    value, method = norm_bound(operators, prove)
    return LayerBound(value, method, operators[0].absolute, 0.0, prod(kernel) + 2, peak=float(prod(kernel)))


def _global_average(layer: nn.Module, shape: Shape, _prove: bool) -> LayerBound:
    assert isinstance(layer, nn.AdaptiveAvgPool2d)
    if _pair(layer.output_size) != (1, 1):  # type: ignore[arg-type]
        raise InputError("only pooling to one pixel is supported.")
    pixels = shape[1] * shape[2]
    return LayerBound(nextafter(1 / sqrt(pixels), inf), "exact", 1.0, 0.0, pixels + 2, peak=float(pixels))


def _global_max(layer: nn.Module, _shape: Shape, _prove: bool) -> LayerBound:
    assert isinstance(layer, nn.AdaptiveMaxPool2d)
    if _pair(layer.output_size) != (1, 1):  # type: ignore[arg-type]
        raise InputError("only pooling to one pixel is supported.")
    return LayerBound(1.0)


def _leaky(layer: nn.Module, _shape: Shape, _prove: bool) -> LayerBound:
    assert isinstance(layer, nn.LeakyReLU)
    return LayerBound(max(1.0, abs(layer.negative_slope)), "exact", max(1.0, abs(layer.negative_slope)), 0.0, 1)


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    BlockedLinear: _linear,
    TokenMix: _token_mix,
    OverlappingPatches: _overlapping_patches,
    nn.Conv2d: _convolution,
    BlockedPointwise: _convolution,
    Residual: _residual,
    SkewExponential: _skew_exponential,
    Normalization: _normalization,
    ChannelAffine: _affine,
    Translation: _translation,
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _average_pool,
    nn.AdaptiveAvgPool2d: _global_average,
    nn.AdaptiveMaxPool2d: _global_max,
    nn.LeakyReLU: _leaky,
    **dict.fromkeys(
        (
            *(MaxMin, HalfAbs, nn.ReLU, nn.Flatten, nn.PixelUnshuffle, nn.PixelShuffle),
            *(ZeroChannels, ZeroBorder, FirstChannels, FlattenTokens, TokenShift),
        ),
        _isometry,
    ),
}
