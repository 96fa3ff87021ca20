"""LeNet5 as Ding et al. 2019 use it: wide, with a widen factor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from radii.errors import InputError


class LeNet5(nn.Module):
    """Two 5x5 convolutions (32 and 64 channels, each with ReLU and 2x2 max pooling), 1024 hidden units.

    ``widen`` multiplies all three widths (0.125 to 4 in Ding et al. 2019, Fig. 3);
    inputs [n, c, h, w] with h and w at least 4.
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, widen: float = 1.0, dropout: float = 0.0) -> None:
        super().__init__()
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise InputError(f"LeNet5 takes images of at least 4 x 4 pixels, got inputs of shape {input_shape}.")
        channels, height, width = input_shape
        first, second, hidden = (max(1, round(size * widen)) for size in (32, 64, 1024))
        self.conv1 = nn.Conv2d(channels, first, 5, padding=2)
        self.conv2 = nn.Conv2d(first, second, 5, padding=2)
        self.fc1 = nn.Linear(second * (height // 4) * (width // 4), hidden)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes]."""
        # max pooling before ReLU gives the same values (ReLU is monotone) at a quarter of its cost
        x = torch.relu(nn.functional.max_pool2d(self.conv1(x), 2))
        x = torch.relu(nn.functional.max_pool2d(self.conv2(x), 2))
        return self.fc2(self.dropout(torch.relu(self.fc1(x.flatten(1)))))
