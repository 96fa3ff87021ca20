"""Families of layers by name, so that a constrained network and its plain version differ by one word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from radii.errors import unknown_name
from radii.models.layers.aol import AOLConv2d, AOLLinear
from radii.models.layers.cpl import CPLConv2d, CPLLinear
from radii.models.layers.head import MarginHead
from radii.models.layers.liresnet import LinearResidualConv2d
from radii.models.layers.orthogonal import OrthogonalConv2d, OrthogonalLinear
from radii.models.layers.sll import SLLConv2d, SLLLinear
from radii.models.layers.soc import SOCConv2d

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
