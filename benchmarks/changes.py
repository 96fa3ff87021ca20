"""True radii of changes of images: how many are known, at what CPU time, and that no sampled strength contradicts them.

Part ``zoo``: networks of the zoo after a short training on digits, one parameter: at least 99 of 100 within 10 CPU
seconds each. Part ``two``: brightness and contrast together: brackets within 5% for at least 80 of 100 points, 60 s
each. Parts ``public-brightness`` and ``public-contrast``: the public ResNet-20 on CIFAR-10 (set RADII_MODELS to the
folder with its weights): at least 90 of 100 images within 120 CPU seconds each; only a few images are measured here.
Known means: proved and broken differ by at most 1%, or the whole strength is proved.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness import Figure, figure, main
from radii.change import Change
from radii.data.sources import load
from radii.evaluation.change_scores import ChangeMeeting, meet_change
from radii.models.classifier import Classifier
from radii.models.zoo.mlp import MLP
from radii.models.zoo.small_resnet import SmallResNet

CHANGES = ("brightness:0.5", "contrast:0.9")
TOGETHER = ("brightness:0.3+contrast:0.5", "brightness:0.5+contrast:0.9")
FOREVER = 1e9
IMAGES = {"brightness:0.2": 5, "contrast:0.3": 3}


def trained(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A network after 40 passes over digits, and the test points."""
    data = load("digits")
    x, y = data.train.tensors()
    torch.manual_seed(0)
    nets = {
        "mlp": lambda: MLP((1, 8, 8), 10),
        "convnet": lambda: nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
        ),
        "small residual network": lambda: SmallResNet((1, 8, 8), 10, width=8, blocks=(1, 1), activation="relu"),
    }  # fmt: skip
    model = nets[name]()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):
        for rows in torch.randperm(len(x)).split(128):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval(), *data.test.tensors()


def known(met: ChangeMeeting, change: Change, tolerance: float) -> bool:
    """Whether the only point's radius is known."""
    proved, broken = float(met.bracket.proved[0]), float(met.bracket.broken[0])
    return proved >= change.radius or (isfinite(broken) and broken - proved <= tolerance * broken)


@torch.no_grad()
def false_proofs(model: nn.Module, x: Tensor, met: ChangeMeeting, change: Change, samples: int) -> int:
    """Sampled strengths within the proved radius at which the float32 network errs."""
    radius = float(met.bracket.proved[0])
    low = np.array([-1.0 if both else 0.0 for both in change.signed])
    share = np.random.default_rng(0).uniform(low, 1.0, (samples, change.parameters))
    t = torch.from_numpy(share * np.array(change.strengths) * (radius / change.radius))
    wrong = 0
    for part in t.split(2000):
        images = change.path(x.expand(len(part), -1, -1, -1)).at(part)
        wrong += int((model(images).argmax(1) != met.prediction[0]).sum())
    return wrong


def points(model: nn.Module, x: Tensor, change: Change, tolerance: float, samples: int, wall: float) -> Points:
    """Each image of ``x`` alone."""
    seconds, good, false, measured = [], [], 0, 0
    for i in range(len(x)):
        start = time.process_time()
        met = meet_change(model, x[i : i + 1], change, seconds=wall)
        seconds.append(time.process_time() - start)
        good.append(known(met, change, tolerance))
        measured += bool(met.note)
        false += false_proofs(model, x[i : i + 1], met, change, samples)
        ends = f"{float(met.bracket.proved[0]):.5f} to {float(met.bracket.broken[0]):.5f}"
        print(f"  {change} image {i}: {ends}, {seconds[-1]:.1f} CPU s", file=sys.stderr, flush=True)
    return seconds, good, false, measured


Points = tuple[list[float], list[bool], int, int]


def told(title: str, result: Points, limit: float, share: float, samples: int) -> list[Figure]:
    """The figures of some points."""
    seconds, good, false, measured = result
    within = [own and spent <= limit for own, spent in zip(good, seconds, strict=True)]
    return [
        figure(
            f"{title}: known of {len(within)}, {limit:g} CPU s each", sum(within), share * len(within), at_most=False
        ),
        figure(f"{title}: median CPU seconds", statistics.median(seconds)),
        figure(f"{title}: most CPU seconds", max(seconds)),
        figure(f"{title}: points with measured rounding", measured),
        figure(f"{title}: errors among {samples * len(within):,} strengths", false, 0),
    ]


def zoo(quick: bool) -> list[Figure]:
    """One parameter, networks of the zoo."""
    figures = []
    for name in ("convnet",) if quick else ("mlp", "convnet", "small residual network"):
        model, x, _ = trained(name)
        for text in CHANGES[:1] if quick else CHANGES:
            count, samples = (20, 1000) if quick else (100, 2500)
            result = points(model, x[:count], Change.parse(text), 0.01, samples, FOREVER)
            figures += told(f"digits, {name}, {text}", result, 10, 0.99, samples)
    return figures


def two(quick: bool) -> list[Figure]:
    """Brightness and contrast together."""
    figures = []
    count, wall = (2, 5.0) if quick else (20, 60.0)
    model, x, _ = trained("convnet")
    for text in TOGETHER[:1] if quick else TOGETHER:
        result = points(model, x[:count], Change.parse(text), 0.05, 5000, wall)
        figures += told(f"digits, convnet, {text}", result, 60, 0.8, 5000)
    return figures


class Block(nn.Module):
    """A block of the CIFAR ResNets of He et al. 2015, with a shortcut of zeros."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.stride, self.spare = stride, (outside - inside) // 2

    def forward(self, x: Tensor) -> Tensor:
        """[n, inside, h, w] -> [n, outside, h / stride, w / stride]."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.spare, self.spare)))


class ResNet20(nn.Module):
    """The network of the public weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        for number, (inside, outside, stride) in enumerate(((16, 16, 1), (16, 32, 2), (32, 64, 2)), 1):
            blocks = [Block(inside, outside, stride), Block(outside, outside, 1), Block(outside, outside, 1)]
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 3, 32, 32] -> [n, 10]."""
        y = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(F.avg_pool2d(y, 8).flatten(1))


def public(text: str, quick: bool) -> list[Figure]:
    """The public ResNet-20 on the first test images of CIFAR-10."""
    folder = Path(os.environ.get("RADII_MODELS", Path(__file__).parents[2] / "shared" / "models"))
    path = folder / "akamaster-resnet20-12fca82f.th"
    if not path.exists():
        raise SystemExit(f"{path} is not there: set RADII_MODELS to the folder with the public weights.")
    net = ResNet20()
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    net.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    model = Classifier(net, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)).eval()
    change, count = Change.parse(text), IMAGES[text]
    if quick:
        change, count = change.with_radius(0.01), 1
    x, _ = load("cifar10").test.tensors(np.arange(count))
    samples = 100 if quick else 2000
    return told(f"public ResNet-20, {change}", points(model, x, change, 0.01, samples, FOREVER), 120, 0.9, samples)


if __name__ == "__main__":
    main(
        {
            "zoo": zoo,
            "two": two,
            "public-brightness": partial(public, "brightness:0.2"),
            "public-contrast": partial(public, "contrast:0.3"),
        }
    )
