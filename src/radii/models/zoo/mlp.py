"""Multilayer perceptrons: the plain ones, from two layers to the eight of Prach & Lampert 2025."""

from __future__ import annotations

from collections import OrderedDict
from math import prod

from torch import nn

from radii.errors import InputError, unknown_name

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "leaky-relu": nn.LeakyReLU,
}


class MLP(nn.Sequential):
    """``depth`` linear layers with an activation and dropout between them.

    ``depth=1`` is a linear classifier, ``depth=2`` a two-layer network, ``depth=8,
    width=3072`` the plain version of the 8-layer MLP of Prach & Lampert 2025 (1024
    wide on MNIST).

    Args:
        input_shape: shape of one input; images are flattened.
        classes: number of logits.
        width: hidden units of every layer.
        depth: number of linear layers.
        activation: relu, gelu, tanh, silu or leaky-relu.
        dropout: probability in [0, 1) that a hidden unit is set to zero in training.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        width: int = 256,
        depth: int = 3,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        if depth < 1 or width < 1:
            raise InputError(f"depth and width must be at least 1, got {depth} and {width} instead.")
        if not 0 <= dropout < 1:
            raise InputError(f"dropout must lie in [0, 1), got {dropout} instead.")
        if activation not in ACTIVATIONS:
            raise unknown_name("activation", activation, ACTIVATIONS)
        parts: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
        size = prod(input_shape)
        for number in range(depth - 1):
            parts[f"linear{number}"] = nn.Linear(size, width)
            parts[f"activation{number}"] = ACTIVATIONS[activation]()
            if dropout:
                parts[f"dropout{number}"] = nn.Dropout(dropout)
            size = width
        parts["head"] = nn.Linear(size, classes)
        super().__init__(parts)
