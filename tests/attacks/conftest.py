"""Models whose exact radii are known, and small nets trained in a moment."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from radii.randomness import threads


@pytest.fixture
def linear() -> tuple[nn.Linear, Tensor, Tensor]:
    """A linear model of 5 classes on 20 features, with 60 points that it gets right."""
    generator = torch.Generator().manual_seed(3)
    model = nn.Linear(20, 5)
    with torch.no_grad():
        model.weight.copy_(torch.randn(5, 20, generator=generator) / 4)
        model.bias.copy_(torch.randn(5, generator=generator) / 4)
    x = 0.3 + 0.4 * torch.rand(60, 20, generator=generator)
    return model, x, model(x).argmax(1)


@pytest.fixture(scope="session")
def digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's 8 x 8 digits in [0, 1], as images."""
    data = load_digits()
    return torch.tensor(data.images, dtype=torch.float32)[:, None] / 16, torch.tensor(data.target).long()


@pytest.fixture(scope="session")
def digits_net(digits: tuple[Tensor, Tensor]) -> nn.Module:
    """A small convolutional net on the first 1,200 digits, 30 epochs, about two seconds."""
    x, y = digits
    with threads(1), torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(30):
            for batch in torch.randperm(1200).split(100):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
                optimizer.step()
    return net.eval()
