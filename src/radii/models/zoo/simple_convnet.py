"""SimpleConvNet: the plain, accurate network of Prach & Lampert 2025 (Page's and Prach's eight convolutions)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from radii.errors import InputError


class SimpleConvNet(nn.Sequential):
    """Eight 3 x 3 convolutions with BatchNorm and ReLU, three of them pooled, global max, linear head.

    Channels w, w, 2w (pooled), 2w, 4w (pooled), 4w, 8w (pooled), 8w; pooled
    layers are convolution, MaxPool(2), BatchNorm, ReLU. 4.7 million weights at
    ``width=64`` on 3 x 32 x 32. Images of at least 8 x 8. The paper divides its
    scores by 8 in the loss: ``OffsetCrossEntropy(offset=0, temperature=8)``.
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
