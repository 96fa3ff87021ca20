"""LeNet5 as Ding et al. 2019 use it: wide, with a widen factor."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from radii.errors import InputError


class LeNet5(nn.Sequential):
    """Two 5x5 convolutions (32 and 64 channels, each with ReLU and 2x2 max pooling), 1024 hidden units.

    ``widen`` multiplies all three widths (0.125 to 4 in Ding et al. 2019, Table 4);
    inputs [n, c, h, w] with h and w at least 4. ``dropout`` acts on the hidden units.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, widen: float = 1.0, dropout: float = 0.0) -> None:
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise InputError(f"LeNet5 takes images of at least 4 x 4 pixels, got inputs of shape {input_shape}.")
        if not widen > 0:
            raise InputError(f"widen must be positive, got {widen} instead.")
        if not 0 <= dropout < 1:
            raise InputError(f"dropout must lie in [0, 1), got {dropout} instead.")
        channels, height, width = input_shape
        first, second, hidden = (max(1, round(size * widen)) for size in (32, 64, 1024))
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
        parts["dropout"] = nn.Dropout(dropout)
        parts["fc2"] = nn.Linear(hidden, classes)
        super().__init__(parts)
