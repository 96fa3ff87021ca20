"""Families of layers by name, so that architectures differ from their plain twin by one word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from radii.errors import unknown_name
from radii.models.layers.aol import AOLConv2d, AOLLinear


@dataclass(frozen=True)
class Family:
    """Makers of square layers (width to width) and of the last one.

    ``conv(channels, kernel_size)`` keeps the image size; ``linear(features)``
    is square; ``head(features, classes)`` gives logits.
    """

    conv: Callable[[int, int], nn.Module]
    linear: Callable[[int], nn.Module]
    head: Callable[[int, int], nn.Module]


def _aol_conv(channels: int, kernel_size: int) -> nn.Module:
    return AOLConv2d(channels, channels, kernel_size, padding="same", bias=False)


def _aol_linear(features: int) -> nn.Module:
    return AOLLinear(features, features, bias=False)


def _aol_head(features: int, classes: int) -> nn.Module:
    return AOLLinear(features, classes, bias=False, side="output")


def _plain_conv(channels: int, kernel_size: int) -> nn.Module:
    return nn.Conv2d(channels, channels, kernel_size, padding="same", bias=False)


def _plain_linear(features: int) -> nn.Module:
    return nn.Linear(features, features, bias=False)


def _plain_head(features: int, classes: int) -> nn.Module:
    return nn.Linear(features, classes, bias=False)


FAMILIES = {
    "aol": Family(_aol_conv, _aol_linear, _aol_head),
    "plain": Family(_plain_conv, _plain_linear, _plain_head),
}


def family(name: str) -> Family:
    """The family called ``name``."""
    if name not in FAMILIES:
        raise unknown_name("family of layers", name, FAMILIES)
    return FAMILIES[name]
