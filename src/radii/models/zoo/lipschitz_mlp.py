"""The 1-Lipschitz MLP of Prach & Lampert 2025."""

from __future__ import annotations

from collections import OrderedDict
from math import prod

from torch import nn

from radii.errors import InputError
from radii.models.layers.families import family
from radii.models.layers.maxmin import MaxMin
from radii.models.layers.shape import ZeroChannels


class LipschitzMLP(nn.Sequential):
    """Flatten, zeros up to ``width``, ``depth - 1`` times [linear, MaxMin], a linear head.

    The paper has depth 8 and the width of the input, 3072. ``width=0`` means
    the number of inputs, rounded up to even. The head has one row per class.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        *,
        width: int = 0,
        depth: int = 8,
        layer: str = "aol",
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
