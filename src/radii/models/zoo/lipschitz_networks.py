"""The 1-Lipschitz ConvNet and MLP of Prach & Lampert 2025, with a family of layers chosen by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from torch import nn

from radii.errors import InputError, unknown_name
from radii.models.layers.aol import AOLConv2d, AOLLinear
from radii.models.layers.last_layers import MarginHead
from radii.models.layers.orthogonal import OrthogonalConv2d, OrthogonalLinear, SOCConv2d
from radii.models.layers.residual import CPLConv2d, CPLLinear, LinearResidualConv2d, SLLConv2d, SLLLinear
from radii.models.layers.weightless import FirstChannels, MaxMin, ZeroBorder, ZeroChannels

Size = tuple[int, int]


@dataclass(frozen=True)
class LayerFamily:
    """How one family builds its layers.

    Args:
        conv: ``conv(channels, kernel_size, image_size)``, a convolution that keeps the shape.
        linear: ``linear(features)``, a linear layer that keeps the shape.
        head: ``head(features, classes)``, the last layer, which returns logits.
    """

    conv: Callable[[int, int, Size], nn.Module]
    linear: Callable[[int], nn.Module]
    head: Callable[[int, int], nn.Module]


def _aol_head(features: int, classes: int) -> nn.Module:
    return AOLLinear(features, classes, bias=False, side="output")


FAMILIES = {
    "plain": LayerFamily(
        lambda c, k, _: nn.Conv2d(c, c, k, padding="same", bias=False),
        lambda n: nn.Linear(n, n, bias=False),
        lambda n, classes: nn.Linear(n, classes, bias=False),
    ),
    "aol": LayerFamily(
        lambda c, k, _: AOLConv2d(c, c, k, padding="same", bias=False),
        lambda n: AOLLinear(n, n, bias=False),
        _aol_head,
    ),
    "cpl": LayerFamily(lambda c, k, size: CPLConv2d(c, k, input_size=size), CPLLinear, _aol_head),
    "sll": LayerFamily(lambda c, k, _: SLLConv2d(c, k), SLLLinear, _aol_head),
    "orthogonal": LayerFamily(
        lambda c, k, _: OrthogonalConv2d(c, c, k, padding=k // 2),
        lambda n: OrthogonalLinear(n, n),
        _aol_head,
    ),
    "soc": LayerFamily(lambda c, k, _: SOCConv2d(c, k), lambda n: OrthogonalLinear(n, n), _aol_head),
    "liresnet": LayerFamily(
        lambda c, k, size: LinearResidualConv2d(c, k, gain=0.25, input_size=size),
        lambda n: AOLLinear(n, n),
        MarginHead,
    ),
}


def family(name: str) -> LayerFamily:
    """The family called ``name``."""
    if name not in FAMILIES:
        raise unknown_name("family of layers", name, FAMILIES)
    return FAMILIES[name]


MOST_BLOCKS = 5


class LipschitzConvNet(nn.Sequential):
    """Stem, blocks of 3 x 3 convolutions with MaxMin, one linear head.

    Zero channels up to ``width``; a 1 x 1 convolution; then ``blocks`` blocks,
    block b with c = width * 2^b channels: ``depth`` times [3 x 3 convolution,
    MaxMin], keep the first c/2 channels, PixelUnshuffle(2), which doubles the
    channels and halves the side; then a linear head to the logits.

    The image is centered in zeros up to the next multiple of 2^blocks (28 -> 32).
    The paper's head is square and keeps its first outputs; this one has one row
    per class, which is the same function class, cheaper and tighter.

    Args:
        input_shape: [c, h, w].
        classes: number of logits.
        width: channels after the stem, even; 64 in the paper.
        layer: the family of layers: ``aol``, ``cpl``, ``sll``, ``orthogonal``, ``soc``, ``liresnet`` (bounded
            only), or ``plain`` without constraints.
        blocks: number of blocks; 0: the paper's five, or as many as reduce a smaller image to one pixel.
        depth: convolutions of each block.

    Guarantee: with a family of 1-Lipschitz layers, |f(x) - f(x')| <= |x - x'|
    in L2 up to rounding; :mod:`radii.models.lipschitz.network_bound` proves it.
    """

    def __init__(
        self,
        input_shape: tuple[int, int, int],
        classes: int,
        *,
        width: int = 16,
        layer: str = "aol",
        blocks: int = 0,
        depth: int = 3,
    ) -> None:
        if len(input_shape) != 3:
            raise InputError(f"LipschitzConvNet takes images [c, h, w], got inputs of shape {tuple(input_shape)}.")
        channels, height, side = input_shape
        if width < max(channels, 2) or width % 2:
            raise InputError(f"width must be even and at least {max(channels, 2)}, got {width} instead.")
        if blocks < 0 or depth < 1:
            raise InputError(f"blocks must be at least 0 and depth at least 1, got {blocks} and {depth} instead.")
        most = (max(height, side) - 1).bit_length() + 1
        if blocks > most:
            raise InputError(f"blocks must be at most {most} for {height} x {side} pixels, got {blocks} instead.")
        blocks = blocks or min(MOST_BLOCKS, (max(height, side) - 1).bit_length())
        padded = tuple(-(-length // 2**blocks) * 2**blocks for length in (height, side))
        layers = family(layer)
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        if padded != (height, side):
            parts["border"] = ZeroBorder((padded[0], padded[1]))
        parts["channels"] = ZeroChannels(width)
        parts["stem"] = layers.conv(width, 1, (padded[0], padded[1]))
        parts["stem_activation"] = MaxMin()
        for block in range(blocks):
            wide, image = width * 2**block, (padded[0] >> block, padded[1] >> block)
            for number in range(depth):
                parts[f"block{block}_conv{number}"] = layers.conv(wide, 3, image)
                parts[f"block{block}_activation{number}"] = MaxMin()
            parts[f"block{block}_first"] = FirstChannels(wide // 2)
            parts[f"block{block}_unshuffle"] = nn.PixelUnshuffle(2)
        features = width * 2**blocks * (padded[0] >> blocks) * (padded[1] >> blocks)
        parts["flatten"] = nn.Flatten()
        parts["head"] = layers.head(features, classes)
        super().__init__(parts)
        self.input_shape = tuple(input_shape)


class LipschitzMLP(nn.Sequential):
    """Flatten, zeros up to ``width``, ``depth - 1`` times [linear, MaxMin], a linear head with one row per class.

    Args:
        input_shape: shape of one input.
        classes: number of logits.
        width: features of every hidden layer, even and at least the number of
            inputs; 0: the number of inputs, rounded up to even (3072 in the paper).
        depth: number of linear layers, 8 in the paper.
        layer: the family of layers, for instance ``aol`` or ``plain``.
    """

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, *, width: int = 0, depth: int = 8, layer: str = "aol"
    ) -> None:
        inputs = prod(input_shape)
        width = width or inputs + inputs % 2
        if width < inputs or width % 2:
            raise InputError(f"width must be even and at least the {inputs} inputs, got {width} instead.")
        if depth < 1:
            raise InputError(f"depth must be at least 1, got {depth} instead.")
        layers = family(layer)
        parts: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten(), features=ZeroChannels(width))
        for number in range(depth - 1):
            parts[f"linear{number}"] = layers.linear(width)
            parts[f"activation{number}"] = MaxMin()
        parts["head"] = layers.head(width, classes)
        super().__init__(parts)
        self.input_shape = tuple(input_shape)
