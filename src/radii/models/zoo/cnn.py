"""The small convolutional networks of the papers: CNN1 and CNN2 (Yang et al. 2020), Wong & Kolter's ConvNet."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import torch
from torch import nn

from radii.errors import InputError

Parts = OrderedDict[str, nn.Module]


class CNN1(nn.Sequential):
    """Two 3x3 convolutions (32, 64 channels), max pooling, 128 hidden units; dropout 1/4 and 1/2.

    The network CNN1 of Yang et al. 2020, Table 1. Their code has no ReLU after
    the second convolution, so neither has this. Images of at least 6 x 6.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        widen: float = 1.0,
        dropout: tuple[float, float] = (0.25, 0.5),
    ) -> None:
        channels, height, width = _images("CNN1", input_shape, 6)
        first, second, hidden = _widened((32, 64, 128), widen)
        parts: Parts = OrderedDict()
        parts["conv1"] = nn.Conv2d(channels, first, 3)
        parts["relu1"] = nn.ReLU()
        parts["conv2"] = nn.Conv2d(first, second, 3)
        parts["pool"] = nn.MaxPool2d(2)
        parts["dropout1"] = nn.Dropout2d(_share(dropout[0]))
        parts["flatten"] = nn.Flatten()
        parts["fc1"] = nn.Linear(second * ((height - 4) // 2) * ((width - 4) // 2), hidden)
        parts["relu2"] = nn.ReLU()
        parts["dropout2"] = nn.Dropout(_share(dropout[1]))
        parts["fc2"] = nn.Linear(hidden, classes)
        super().__init__(parts)


class CNN2(nn.Sequential):
    """Four 3x3 convolutions (32, 32, 64, 64), pooled in pairs, two layers of 200 hidden units, dropout 1/2.

    SmallCNN of Zhang et al. 2019 (TRADES), CNN2 of Yang et al. 2020: He
    initialization of the convolutions, and a last layer that starts at zero.
    Images of at least 16 x 16.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, widen: float = 1.0, dropout: float = 0.5) -> None:
        channels, height, width = _images("CNN2", input_shape, 16)
        thin, wide, hidden = _widened((32, 64, 200), widen)
        parts: Parts = OrderedDict()
        for number, (inside, outside) in enumerate(((channels, thin), (thin, thin), (thin, wide), (wide, wide)), 1):
            convolution = nn.Conv2d(inside, outside, 3)
            nn.init.kaiming_normal_(convolution.weight)
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
            parts[f"conv{number}"] = convolution
            parts[f"relu{number}"] = nn.ReLU()
            if number % 2 == 0:
                parts[f"pool{number // 2}"] = nn.MaxPool2d(2)
        left = (((height - 4) // 2) - 4) // 2 * ((((width - 4) // 2) - 4) // 2)
        parts["flatten"] = nn.Flatten()
        parts["fc1"] = nn.Linear(wide * left, hidden)
        parts["relu5"] = nn.ReLU()
        parts["dropout"] = nn.Dropout(_share(dropout))
        parts["fc2"] = nn.Linear(hidden, hidden)
        parts["relu6"] = nn.ReLU()
        head = nn.Linear(hidden, classes)
        torch.nn.init.zeros_(head.weight)
        torch.nn.init.zeros_(head.bias)
        parts["fc3"] = head
        super().__init__(parts)


class WongKolterConvNet(nn.Sequential):
    """Two 4x4 convolutions of stride 2 (16, 32 channels), 100 hidden units, ReLU, no pooling.

    The network that Ding et al. 2019, Appendix B.2, prove robust on binarized
    MNIST, after Wong & Kolter 2018. Images of at least 4 x 4. ``start`` is
    ``random``, or ``pixels``: see :func:`start_from_pixels`.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        widen: float = 1.0,
        start: Literal["random", "pixels"] = "random",
    ) -> None:
        channels, height, width = _images("The ConvNet of Wong & Kolter", input_shape, 4)
        first, second, hidden = _widened((16, 32, 100), widen)
        parts: Parts = OrderedDict()
        parts["conv1"] = nn.Conv2d(channels, first, 4, stride=2, padding=1)
        parts["relu1"] = nn.ReLU()
        parts["conv2"] = nn.Conv2d(first, second, 4, stride=2, padding=1)
        parts["relu2"] = nn.ReLU()
        parts["flatten"] = nn.Flatten()
        parts["fc1"] = nn.Linear(second * (height // 2 // 2) * (width // 2 // 2), hidden)
        parts["relu3"] = nn.ReLU()
        parts["fc2"] = nn.Linear(hidden, classes)
        super().__init__(parts)
        if start not in ("random", "pixels"):
            raise InputError(f"start must be random or pixels, got {start!r} instead.")
        if start == "pixels":
            start_from_pixels(self)


def start_from_pixels(net: WongKolterConvNet) -> None:
    """Weights from which training by bounds may start: 16 channels hold the pixels of a 4x4 block, thresholded.

    u = ReLU(0.65 - v) is 0 for bright pixels, and ReLU(1 - 3 u) is then exactly
    1, for dark ones exactly 0: on binary images, within radius 0.3, intervals
    of these channels have no width. Four channels of the first layer hold u,
    four ReLU(v - 0.35); the other weights stay random, those of the second
    layer at three tenths, so that they do not drown what is sure.
    """
    weights = net.state_dict()  # the same memory
    first, second = weights["conv1.weight"], weights["conv2.weight"]
    if first.shape[1] != 1 or len(first) < 8 or len(second) < 16:
        raise InputError("start=pixels needs grey images and widen of at least 1/2.")
    places = [(1, 1), (1, 2), (2, 1), (2, 2)]  # of a 4x4 kernel: the pixels that no neighbor of stride 2 shares
    first[:8] = 0
    second[:16] = 0
    second[16:] *= 0.3
    for pixel, (row, column) in enumerate(places):
        first[pixel, 0, row, column], weights["conv1.bias"][pixel] = -1.0, 0.65
        first[4 + pixel, 0, row, column], weights["conv1.bias"][4 + pixel] = 1.0, -0.35
        for cell, (down, right) in enumerate(places):
            second[4 * pixel + cell, pixel, down, right], weights["conv2.bias"][4 * pixel + cell] = -3.0, 1.0


def _images(name: str, input_shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    if len(input_shape) != 3 or min(input_shape[1:]) < least:
        raise InputError(
            f"{name} takes images of at least {least} x {least} pixels, got inputs of shape {input_shape}."
        )
    return input_shape[0], input_shape[1], input_shape[2]


def _widened(sizes: tuple[int, int, int], widen: float) -> tuple[int, int, int]:
    if not widen > 0:
        raise InputError(f"widen must be positive, got {widen} instead.")
    first, second, third = (max(1, round(size * widen)) for size in sizes)
    return first, second, third


def _share(dropout: float) -> float:
    if not 0 <= dropout < 1:
        raise InputError(f"dropout must lie in [0, 1), got {dropout} instead.")
    return dropout
