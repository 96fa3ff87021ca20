"""Wide residual networks (Zagoruyko & Komodakis 2016) with per-image standardization inside."""

from __future__ import annotations

from math import prod
from typing import ClassVar

import torch
from torch import Tensor, nn

from radii.errors import InputError


class PerImageStandardization(nn.Module):
    """(x - mean(x)) / max(std(x), 1/sqrt(d)) for every image on its own, over all channels and pixels.

    What TensorFlow calls per_image_standardization, which Madry et al. 2018 and
    Ding et al. 2019 use on CIFAR-10. It is part of the network, so a radius
    still means pixels.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] -> [n, c, h, w]."""
        std, mean = torch.std_mean(x, dim=(1, 2, 3), keepdim=True, correction=0)
        return (x - mean) / std.clamp_min(prod(x.shape[1:]) ** -0.5)


class WideBlock(nn.Module):
    """x + conv(dropout(relu(bn(conv(relu(bn(x))))))), with a 1x1 convolution where the shape changes."""

    foldable: ClassVar = (("conv1", "bn2"),)  # pairs in which a batch norm is the convolution's only reader

    def __init__(self, inside: int, outside: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inside)
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu2 = nn.ReLU()
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        same = inside == outside and stride == 1
        self.shortcut = None if same else nn.Conv2d(inside, outside, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[n, inside, h, w] -> [n, outside, h/stride, w/stride]."""
        ready = self.relu1(self.bn1(x))
        carried = x if self.shortcut is None else self.shortcut(ready)
        return carried + self.conv2(self.dropout(self.relu2(self.bn2(self.conv1(ready)))))


class WideResNet(nn.Sequential):
    """WRN-depth-widen: three groups of (depth - 4) / 6 blocks with 16k, 32k and 64k channels (k = ``widen``).

    WRN-28-4 in Ding et al. 2019 (widen 0.25, 1 and 4 in their Table 5); WRN-40-10
    in Yang et al. 2020 with dropout 0.2 on CIFAR-10 and 0.5 on SVHN. Global average
    pooling before the linear head.

    Args:
        input_shape: [c, h, w], at least 4 x 4 pixels.
        classes: number of logits.
        depth: 10, 16, 22, 28, 34, 40, …
        widen: the factor of all widths.
        dropout: probability in [0, 1), inside every block.
        standardize: put :class:`PerImageStandardization` in front.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        depth: int = 28,
        widen: float = 4.0,
        dropout: float = 0.0,
        standardize: bool = True,
    ) -> None:
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise InputError(f"WideResNet takes images of at least 4 x 4 pixels, got inputs of shape {input_shape}.")
        if depth < 10 or (depth - 4) % 6:
            raise InputError(f"depth must be 6 n + 4 with n at least 1 (10, 16, 22, 28, 34, 40), got {depth} instead.")
        if not widen > 0:
            raise InputError(f"widen must be positive, got {widen} instead.")
        if not 0 <= dropout < 1:
            raise InputError(f"dropout must lie in [0, 1), got {dropout} instead.")
        super().__init__()
        if standardize:
            self.add_module("standardize", PerImageStandardization())
        self.add_module("conv", nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False))
        inside = 16
        for group, stride in enumerate((1, 2, 2)):
            outside = max(1, round(16 * 2**group * widen))
            for number in range((depth - 4) // 6):
                block = WideBlock(inside, outside, stride if number == 0 else 1, dropout)
                self.add_module(f"group{group + 1}_block{number + 1}", block)
                inside = outside
        self.add_module("bn", nn.BatchNorm2d(inside))
        self.add_module("relu", nn.ReLU())
        self.add_module("pool", nn.AdaptiveAvgPool2d(1))
        self.add_module("flatten", nn.Flatten())
        self.add_module("head", nn.Linear(inside, classes))
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
