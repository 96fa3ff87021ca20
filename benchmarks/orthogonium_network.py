"""A ConvNet of orthogonium's adaptive orthogonal convolutions (AOC), trained by our loop for a stated CPU time.

Its constants are those that the library promises: nothing is proved, and float32 rounding is left out. So the figure
flatters the peer.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from orthogonium.layers import AdaptiveOrthoConv2d, OrthoLinear
from torch import Tensor, nn

from harness import cpu_seconds
from radii.data.dataset import Data, statistics
from radii.models.classifier import Classifier
from radii.models.layers.weightless import MaxMin
from radii.training.loop import train
from radii.training.objectives.cross_entropies import OffsetCrossEntropy
from radii.training.schedule import Recipe

WIDTHS = (16, 32, 64, 128)
CLOCK_STEPS = 5


def network(channels: int, side: int, classes: int) -> nn.Sequential:
    """A stem at full size, three strided convolutions with MaxMin, and a head with orthonormal rows."""
    layers: list[nn.Module] = [AdaptiveOrthoConv2d(channels, WIDTHS[0], 3), MaxMin()]
    for before, after in pairwise(WIDTHS):
        layers += [AdaptiveOrthoConv2d(before, after, 4, stride=2, padding=1), MaxMin()]
    features = WIDTHS[-1] * (side // 2 ** (len(WIDTHS) - 1)) ** 2
    return nn.Sequential(*layers, nn.Flatten(), OrthoLinear(features, classes))


def trained(data: Data, seconds: float, objective: OffsetCrossEntropy) -> tuple[nn.Module, int]:
    """The network after about ``seconds`` of CPU time under Adam, and its number of steps."""
    mean, _ = statistics(data.train.subset(2000), "center")

    def run(steps: int) -> nn.Module:
        torch.manual_seed(0)
        model = Classifier(network(data.shape[0], data.shape[1], len(data.classes)), mean=mean)
        optimizer = {"kind": "adam", "lr": 2e-3, "schedule": "one-cycle"}
        settings = {"steps": steps, "batch_size": 128, "test_every": 0, "optimizer": optimizer}
        train(model, data.train, objective, Recipe.model_validate({**settings, "augmentation": {"flip": True}}))
        return model

    run(2)
    step = (cpu_seconds(lambda: run(2 + CLOCK_STEPS)) - cpu_seconds(lambda: run(2))) / CLOCK_STEPS
    steps = max(1, round(seconds / step))
    return run(steps), steps


@torch.no_grad()
def radii(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Predictions, and the radii that constants of 1 would give: the least margin over |w_i - w_j|."""
    model.eval()
    scores = torch.cat([model(batch) for batch in x.split(500)])
    weight = model.net[-1].weight
    top = scores.argmax(1)
    distance = torch.cdist(weight, weight)[top].clamp_min(1e-12)
    margins = (scores.gather(1, top[:, None]) - scores) / distance
    return top, margins.scatter(1, top[:, None], float("inf")).amin(1)
