"""Networks behind a threshold of the pixels: a baseline of robustness on binary images.

A perturbation of size r < 1/2 of a binary image does not cross 1/2, so a network
behind a threshold is as robust as it is accurate. Both networks are small
ConvNets of the size of Wong & Kolter's. All bounds are exact on them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.zoo.convnets import WongKolterConvNet


class ThresholdConvNet(nn.Module):
    """h(x) = f(1[x >= 1/2]) with f the ConvNet of Wong & Kolter: no gradient reaches the input."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, widen: float = 1.0) -> None:
        super().__init__()
        self.net = WongKolterConvNet(input_shape, classes, widen)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of pixels [n, c, h, w] in [0, 1]."""
        return self.net((x >= 0.5).to(x.dtype))


class ClippingConvNet(nn.Module):
    """Pixels clipped to [r, 1 - r], a convolution of 8x8 with stride 4 (32 channels), 100 hidden units, ReLU.

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
