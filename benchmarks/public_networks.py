"""The public networks of `../shared/models` that benchmarks attack: residual networks and a wide convolutional one."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.models.classifier import Classifier

FOLDER = Path(os.environ.get("RADII_MODELS", "../shared/models"))
NETWORKS = {"resnet2b": 2 / 255, "resnet4b": 1 / 255, "cifar_wide": 2 / 255}  # with the radius of its training
USUAL = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


class Block(nn.Module):
    """Two convolutions with biases and no normalization, and a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        same = stride == 1 and channels == width
        self.shortcut = nn.Sequential() if same else nn.Sequential(nn.Conv2d(channels, width, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """relu(residual + shortcut)."""
        return F.relu(self.conv2(F.relu(self.conv1(x))) + self.shortcut(x))


class Residual(nn.Module):
    """A stem, blocks of which the first of each stage halves the image, and two linear layers."""

    def __init__(self, stem: int, width: int, stages: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 3, 2, 1)
        self.stages = stages
        for stage in range(stages):
            first = Block(stem if stage == 0 else width, width, 2)
            setattr(self, f"layer{stage + 1}", nn.Sequential(first, Block(width, width, 1)))
        self.linear1 = nn.Linear(width * (16 >> stages) ** 2, 100)
        self.linear2 = nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = F.relu(self.conv1(x))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.linear2(F.relu(self.linear1(x.flatten(1))))


def public_network(name: str) -> Classifier:
    """The network ``name`` of :data:`NETWORKS` with its normalization inside."""
    content = torch.load(FOLDER / f"abcrown-{name}.pth", map_location="cpu", weights_only=True)
    state = content.get("state_dict", content) if isinstance(content, dict) else content
    state = state[0] if isinstance(state, list) else state
    if name == "cifar_wide":
        net: nn.Module = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(2048, 100), nn.ReLU(), nn.Linear(100, 10),
        )  # fmt: skip
        mean, std = (0.485, 0.456, 0.406), (0.225, 0.225, 0.225)
    else:
        net = Residual(8, 16, 1) if name == "resnet2b" else Residual(16, 32, 2)
        mean, std = USUAL
    net.load_state_dict(state)
    return Classifier(net, mean=mean, std=std).eval()
