"""The small ConvNets of the papers: LeNet-5, SimpleConvNet, CNN1, CNN2, Wong & Kolter's, and it behind a threshold."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError


class LeNet5(nn.Sequential):
    """Two 5x5 convolutions (32 and 64 channels, each with ReLU and 2x2 max pooling), 1024 hidden units.

    Args:
        input_shape: [c, h, w], at least 4 x 4 pixels.
        classes: number of logits.
        widen: the factor of all three widths (0.125 to 4 in Ding et al. 2019, Table 4).
        dropout: probability in [0, 1), of the hidden units.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, widen: float = 1.0, dropout: float = 0.0) -> None:
        channels, height, width = _images("LeNet5", input_shape, 4)
        first, second, hidden = _widened((32, 64, 1024), widen)
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        parts["conv1"] = nn.Conv2d(channels, first, 5, padding=2)
        # max pooling before ReLU gives the same values (ReLU is monotone) at a quarter of its cost
        parts["pool1"] = nn.MaxPool2d(2)
        parts["relu1"] = nn.ReLU()
        parts["conv2"] = nn.Conv2d(first, second, 5, padding=2)
        parts["pool2"] = nn.MaxPool2d(2)
        parts["relu2"] = nn.ReLU()
        parts["flatten"] = nn.Flatten()
        parts["fc1"] = nn.Linear(second * (height // 4) * (width // 4), hidden)
        parts["relu3"] = nn.ReLU()
        parts["dropout"] = nn.Dropout(_share(dropout))
        parts["fc2"] = nn.Linear(hidden, classes)
        super().__init__(parts)


class SimpleConvNet(nn.Sequential):
    """Eight 3 x 3 convolutions with BatchNorm and ReLU, three of them pooled, global max, linear head.

    The plain, accurate network of Prach & Lampert 2025. Channels w, w, 2w (pooled),
    2w, 4w (pooled), 4w, 8w (pooled), 8w; pooled layers are convolution, MaxPool(2),
    BatchNorm, ReLU. 4.7 million weights at ``width=64`` on 3 x 32 x 32. The paper
    divides its logits by 8 in the loss: ``OffsetCrossEntropy(offset=0, temperature=8)``.

    Args:
        input_shape: [c, h, w], at least 8 x 8 pixels.
        classes: number of logits.
        width: channels of the first layer.
    """

    def __init__(self, input_shape: tuple[int, int, int], classes: int, *, width: int = 64) -> None:
        if len(input_shape) != 3 or min(input_shape[1:]) < 8:
            raise InputError(f"SimpleConvNet takes images [c, h, w] of at least 8 x 8, got {tuple(input_shape)}.")
        if width < 1:
            raise InputError(f"width must be at least 1, got {width} instead.")
        plan = [(1, False), (1, False), (2, True), (2, False), (4, True), (4, False), (8, True), (8, False)]
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        channels = input_shape[0]
        for number, (factor, pooled) in enumerate(plan):
            parts[f"conv{number}"] = nn.Conv2d(channels, width * factor, 3, padding=1, bias=False)
            channels = width * factor
            if pooled:
                parts[f"pool{number}"] = nn.MaxPool2d(2)
            parts[f"norm{number}"] = nn.BatchNorm2d(channels)
            parts[f"activation{number}"] = nn.ReLU()
        parts["global_max"] = nn.AdaptiveMaxPool2d(1)
        parts["flatten"] = nn.Flatten()
        parts["head"] = nn.Linear(channels, classes, bias=False)
        super().__init__(parts)
        self.input_shape = tuple(input_shape)


Parts = OrderedDict[str, nn.Module]


class CNN1(nn.Sequential):
    """Two 3x3 convolutions (32, 64 channels), max pooling, 128 hidden units; dropout 1/4 and 1/2.

    The network CNN1 of Yang et al. 2020, Table 1. Like their code, it has no ReLU
    after the second convolution.

    Args:
        input_shape: [c, h, w], at least 6 x 6 pixels.
        classes: number of logits.
        widen: the factor of all widths.
        dropout: the two probabilities of dropout.
    """

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, widen: float = 1.0, dropout: tuple[float, float] = (0.25, 0.5)
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

    Args:
        input_shape: [c, h, w], at least 16 x 16 pixels.
        classes: number of logits.
        widen: the factor of all widths.
        dropout: probability of dropout before the second hidden layer.
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
    MNIST, after Wong & Kolter 2018.

    Args:
        input_shape: [c, h, w], at least 4 x 4 pixels.
        classes: number of logits.
        widen: the factor of all widths.
        start: ``random``, or ``pixels``: see :func:`_start_from_pixels`.
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
            _start_from_pixels(self)


def _start_from_pixels(net: WongKolterConvNet) -> None:
    """Set weights of ``net`` to start training by bounds: 16 channels hold the thresholded pixels of a 4x4 block.

    u = ReLU(0.65 - v) is 0 for bright pixels, and ReLU(1 - 3 u) is then exactly
    1, for dark ones exactly 0: on binary images, within radius 0.3, intervals
    of these channels have no width. Four channels of the first layer hold u,
    four ReLU(v - 0.35); the other weights stay random, those of the second
    layer at three tenths, so that they do not hide the certain channels.
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


class ThresholdConvNet(nn.Module):
    """h(x) = f(1[x >= 1/2]) with f the ConvNet of Wong & Kolter, ``widen`` times as wide: the input has no gradient.

    A perturbation of size r < 1/2 of a binary image does not cross 1/2, so the network is as robust as it is accurate.
    All bounds are exact on it.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, widen: float = 1.0) -> None:
        super().__init__()
        self.net = WongKolterConvNet(input_shape, classes, widen)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of pixels [n, c, h, w] in [0, 1]."""
        return self.net((x >= 0.5).to(x.dtype))


class ClippingConvNet(nn.Module):
    """Pixels clipped to [r, 1 - r], r = ``clip``; a convolution of 8x8 with stride 4, 32 channels; 100 hidden units.

    This is Wong & Kolter's ConvNet with a fixed first layer: of the channels
    of a 4x4 convolution with stride 2, two for each of the four pixels of a
    stride compute ReLU((x - r) / s) and ReLU((x - 1 + r) / s), s = 1 - 2r, whose
    difference is the clipped pixel. :meth:`as_wong_kolter` writes it that way.
    On binary images no ReLU of that layer changes sign within radius r, so
    lines (CROWN) are exact there; intervals are exact on the form of this class.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, clip: float = 0.35) -> None:
        super().__init__()
        if len(input_shape) != 3 or input_shape[1] % 4 or input_shape[2] % 4 or input_shape[0] > 2:
            raise InputError(
                "The clipping ConvNet takes images of at most two channels whose sides are multiples of 4, "
                f"got inputs of shape {input_shape}."
            )
        if not 0 < clip < 0.5:
            raise InputError(f"clip must lie between 0 and 1/2, got {clip:g} instead.")
        channels, height, width = input_shape
        self.clip, self.input_shape = clip, input_shape
        self.conv = nn.Conv2d(4 * channels, 32, 4, stride=2, padding=1)
        self.fc1 = nn.Linear(32 * (height // 4) * (width // 4), 100)
        self.fc2 = nn.Linear(100, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of pixels [n, c, h, w] in [0, 1]."""
        clipped = ((x - self.clip) / (1 - 2 * self.clip)).clamp(0, 1)
        hidden = torch.relu(self.conv(F.pixel_unshuffle(clipped, 2)))
        return self.fc2(torch.relu(self.fc1(hidden.flatten(1))))

    @torch.no_grad()
    def as_wong_kolter(self) -> WongKolterConvNet:
        """The same function as weights of Wong & Kolter's ConvNet; channels that are not needed are zero."""
        net = WongKolterConvNet(self.input_shape, self.fc2.out_features)
        theirs, ours, slope = net.state_dict(), self.state_dict(), 1 / (1 - 2 * self.clip)
        for name in ("conv1.weight", "conv1.bias", "conv2.weight"):
            theirs[name].zero_()
        for number in range(self.conv.in_channels):
            channel, row, column = number // 4, number // 2 % 2, number % 2  # the order of pixel_unshuffle
            for place, bend, sign in ((2 * number, self.clip, 1), (2 * number + 1, 1 - self.clip, -1)):
                theirs["conv1.weight"][place, channel, 1 + row, 1 + column] = slope
                theirs["conv1.bias"][place] = -slope * bend
                theirs["conv2.weight"][:, place] = sign * ours["conv.weight"][:, number]
        theirs["conv2.bias"].copy_(ours["conv.bias"])
        for name in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"):
            theirs[name].copy_(ours[name])
        return net.train(self.training)
