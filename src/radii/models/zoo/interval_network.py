"""A small network whose intervals stay narrow, to be trained by interval bounds."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn

from radii.errors import InputError


class ClipPixels(nn.Module):
    """x -> clamp((x - r) / (1 - 2r), 0, 1) in each coordinate.

    Within Linf distance r of a pixel 0 it is 0, and of a pixel 1 it is 1: an attack of
    that size cannot change black and white pixels, and their intervals have no width.

    Args:
        clip: r, in [0, 1/2); 0 clamps to [0, 1] only.
    """

    def __init__(self, clip: float) -> None:
        super().__init__()
        if not 0 <= clip < 0.5:
            raise InputError(f"clip must lie in [0, 1/2), got {clip:g} instead.")
        self.clip = clip

    def forward(self, x: Tensor) -> Tensor:
        """Clipped pixels, of the same shape."""
        return ((x - self.clip) / (1 - 2 * self.clip)).clamp(0, 1)

    def extra_repr(self) -> str:
        """The clipped part, for print."""
        return f"clip={self.clip:g}"


class IntervalNetwork(nn.Sequential):
    """Convolutions of 4 x 4 with stride 2, one hidden layer, batch norm before each ReLU.

    Weights start as those of Shi et al. 2021 (Section 3.2): normal with standard
    deviation sqrt(2 pi) / fan-in. The mean width of the intervals then neither grows
    nor shrinks from layer to layer, where usual starts let it explode.

    Args:
        input_shape: [c, h, w] of images, or [d] of features (one more hidden layer instead of convolutions).
        classes: number of logits.
        width: channels of the first convolution; each further one has twice as many.
        hidden: units of the hidden layer.
        convolutions: how many; each halves the sides.
        clip: r of :class:`ClipPixels` before the first layer; 0: no clipping.

    Raises:
        InputError: inputs of another form, images too small for so many convolutions, or sizes below 1.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        *,
        width: int = 16,
        hidden: int = 256,
        convolutions: int = 2,
        clip: float = 0.0,
    ) -> None:
        if len(input_shape) not in (1, 3):
            raise InputError(f"IntervalNetwork takes images [c, h, w] or features [d], got shape {tuple(input_shape)}.")
        if min(width, hidden, convolutions) < 1:
            raise InputError(
                f"width, hidden and convolutions must be at least 1, got {width}, {hidden} and {convolutions}."
            )
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        if clip:
            parts["clip"] = ClipPixels(clip)
        if len(input_shape) == 3:
            features = _convolutions(parts, input_shape, width, convolutions)
        else:
            features = hidden
            parts["fc0"] = nn.Linear(input_shape[0], hidden, bias=False)
            parts["norm0"] = nn.BatchNorm1d(hidden)
            parts["relu0"] = nn.ReLU()
        parts["fc1"] = nn.Linear(features, hidden, bias=False)
        parts["norm_fc1"] = nn.BatchNorm1d(hidden)
        parts["relu_fc1"] = nn.ReLU()
        parts["fc2"] = nn.Linear(hidden, classes)
        super().__init__(parts)
        self.input_shape = tuple(input_shape)
        _start_for_intervals(self)


def _convolutions(parts: OrderedDict[str, nn.Module], shape: tuple[int, ...], width: int, count: int) -> int:
    """Append the convolutions to ``parts``; the number of features that they give."""
    channels, *sides = shape
    if min(sides) < 2**count:
        raise InputError(f"{count} convolutions of stride 2 need at least {2**count} pixels a side, got {min(sides)}.")
    for number in range(count):
        wide = width * 2**number
        parts[f"conv{number}"] = nn.Conv2d(channels, wide, 4, stride=2, padding=1, bias=False)
        parts[f"norm{number}"] = nn.BatchNorm2d(wide)
        parts[f"relu{number}"] = nn.ReLU()
        channels, sides = wide, [side // 2 for side in sides]
    parts["flatten"] = nn.Flatten()
    return channels * math.prod(sides)


@torch.no_grad()
def _start_for_intervals(model: nn.Module) -> None:
    """Set the weights of all linear layers and convolutions to the start of Shi et al. 2021, biases to 0.

    For weights N(0, s^2) with n inputs a layer maps mean width w to n w s sqrt(2 / pi), and ReLU
    halves it: s = sqrt(2 pi) / n keeps it.

    Args:
        model: changed in place, by torch's global random stream.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, std=math.sqrt(2 * math.pi) / module.weight[0].numel())
            if module.bias is not None:
                nn.init.zeros_(module.bias)
