"""The small ConvNet of Wong & Kolter 2018, which Ding et al. 2019 train provably on binarized MNIST."""

from __future__ import annotations

from torch import Tensor, nn

from radii.errors import InputError


class SmallConvNet(nn.Module):
    """Two 4x4 convolutions of stride 2 (16 and 32 channels), 100 hidden units, ReLU between; no pooling.

    ``width`` multiplies the sizes; inputs [n, c, h, w] with sides that are multiples of 4.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: float = 1.0) -> None:
        super().__init__()
        if len(input_shape) != 3 or any(side % 4 for side in input_shape[1:]):
            raise InputError(f"SmallConvNet takes images with sides divisible by 4, got inputs of shape {input_shape}.")
        channels, high, wide = input_shape
        first, second, hidden = (max(1, round(size * width)) for size in (16, 32, 100))
        self.layers = nn.Sequential(
            nn.Conv2d(channels, first, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(first, second, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * (high // 4) * (wide // 4), hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes]."""
        return self.layers(x)
