"""A small residual network on few positions: what one core can train in minutes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from radii.errors import InputError, unknown_name
from radii.models.zoo.mlp import ACTIVATIONS

POSITIONS = 16  # a side, about, behind the stem of a large image
TINY_SIDE = 12  # pixels; such an image keeps its positions


class SmallBlock(nn.Module):
    """x + conv(act(bn(conv(act(bn(x)))))); where the shape changes, x is averaged over 2 x 2 and mixed by a matrix.

    (A 1 x 1 convolution with a stride would skip three quarters of the values, and has no fast kernel on CPUs.)
    """

    foldable: ClassVar = (("conv1", "bn2"),)  # pairs in which a batch norm is the convolution's only reader

    def __init__(self, inside: int, outside: int, stride: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inside)
        self.act1 = activation()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.act2 = activation()
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.pool = nn.AvgPool2d(2, ceil_mode=True) if stride == 2 else nn.Identity()
        self.shortcut = nn.Conv2d(inside, outside, 1, bias=False) if inside != outside else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[n, inside, h, w] -> [n, outside, ceil(h / stride), ceil(w / stride)]."""
        ready = self.act1(self.bn1(x))
        carried = x if isinstance(self.shortcut, nn.Identity) else self.shortcut(self.pool(ready))
        out: Tensor = carried + self.conv2(self.act2(self.bn2(self.conv1(ready))))
        return out


class SmallResNet(nn.Sequential):
    """A stem, then stages of pre-activation blocks of ``width``, 2 ``width``, 4 ``width`` … channels, and their mean.

    The stem is one convolution of 2s x 2s with stride s, where s brings an image to about 16 x 16
    positions: 2 for 32 x 32 pixels. Images of up to 12 pixels a side keep all positions. Each stage but the first
    halves the sides. Most of the time of a wide residual network goes into its first, full-sized
    positions; here they cost one layer.

    Args:
        input_shape: [c, h, w], at least 4 x 4 pixels.
        classes: number of logits.
        width: channels of the first stage.
        blocks: residual blocks of each stage.
        activation: silu (smooth, which suits attacks in training), relu, gelu, tanh or leaky-relu.

    Raises:
        InputError: inputs that are no such images, or sizes below 1.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        *,
        width: int = 32,
        blocks: Sequence[int] = (1, 1, 1),
        activation: str = "silu",
    ) -> None:
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise InputError(f"SmallResNet takes images of at least 4 x 4 pixels, got inputs of shape {input_shape}.")
        if width < 1 or not blocks or min(blocks) < 1:
            raise InputError(f"width and the blocks of a stage must be at least 1, got {width} and {list(blocks)}.")
        if activation not in ACTIVATIONS:
            raise unknown_name("activation", activation, ACTIVATIONS)
        act = ACTIVATIONS[activation]
        parts: OrderedDict[str, nn.Module] = OrderedDict(stem=_stem(input_shape, width))
        inside = width
        for stage, count in enumerate(blocks):
            outside = width * 2**stage
            for number in range(count):
                stride = 2 if stage and not number else 1
                parts[f"stage{stage + 1}_block{number + 1}"] = SmallBlock(inside, outside, stride, act)
                inside = outside
        parts["bn"] = nn.BatchNorm2d(inside)
        parts["act"] = act()
        parts["pool"] = nn.AdaptiveAvgPool2d(1)
        parts["flatten"] = nn.Flatten()
        parts["head"] = nn.Linear(inside, classes)
        super().__init__(parts)
        _start(self)


def stem_stride(shape: tuple[int, ...]) -> int:
    """Pixels between two positions of the stem for images of ``shape``."""
    side = min(shape[1:])
    return 1 if side <= TINY_SIDE else max(2, round(side / POSITIONS / 2) * 2)


def _stem(shape: tuple[int, ...], width: int) -> nn.Conv2d:
    stride = stem_stride(shape)
    if stride == 1:
        return nn.Conv2d(shape[0], width, 3, padding=1, bias=False)
    return nn.Conv2d(shape[0], width, 2 * stride, stride=stride, padding=stride // 2, bias=False)


@torch.no_grad()
def _start(model: nn.Module) -> None:
    """Normal kernels that keep the size of gradients (He et al. 2015), no bias."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
