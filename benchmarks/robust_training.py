"""Accuracy over core-minutes, clean and under attack: the recipes ``standard`` and ``robust``, and peers on one clock.

Robust accuracies are upper bounds: PGD-40 on the margin, from a random start with steps of a tenth of the radius, on
the first 1,000 test images, and the standard suite on the first 200 of them, with its 95% interval. Clean accuracy is
over all test images. The clock is CPU time of the whole run on one thread. Settings were chosen on held-out training
images (docs/notes/robust-training.md).

Trainings of radii are steps of the run store: found in ``$RADII_RUNS`` if they are done, continued if they were
killed. ``minutes`` trains both recipes for about two core-minutes each, ``others`` the same rule on other data and
threats. ``twenty`` and ``night`` judge only trainings that exist. ``peers`` gives four rivals in plain torch the CPU
time of the robust run of ``minutes``: PGD-7, FGSM from a random start (Wong et al. 2020) and the loss of TRADES
(Zhang et al. 2019) on a post-activation ResNet of the same widths under SGD, and the same network without an attack.
``--quick`` trains each for five CPU seconds and attacks 50 images.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness import Figure, figure, main
from radii.attacks.pgd import PGD
from radii.budget import Budget
from radii.data.dataset import Data
from radii.data.sources import load
from radii.evaluation.evaluate import evaluate
from radii.models.classifier import predict
from radii.models.io.bundle import load_bundle
from radii.randomness import stream
from radii.runs.planning import data_spec, named_training
from radii.runs.steps import Train
from radii.runs.store import Store
from radii.threat import Ball
from radii.training.loop import accuracy_on

ATTACK = PGD(steps=40, step=0.1, loss="margin")
POINTS, SUITE_POINTS, QUICK_POINTS = 1000, 200, 50
QUICK_SECONDS = 5.0
CIFAR = "linf:8/255"


@dataclass(frozen=True)
class Subject:
    """A training by a recipe, and the accuracies in percent to reach: clean, under PGD-40, under the suite."""

    data: str
    recipe: str
    threat: str
    budget: Budget
    goals: tuple[float | None, float | None, float | None] = (None, None, None)

    @property
    def name(self) -> str:
        """``cifar10 robust at linf:8/255, budget smoke``."""
        threat = "" if self.recipe == "standard" else f" at {self.threat}"
        return f"{self.data} {self.recipe}{threat}, budget {self.budget}"

    def step(self, store: Store) -> Train:
        """The training as a step of the store."""
        ball = Ball.parse(self.threat)
        return named_training(data_spec(self.data, store), recipe=self.recipe, budget=self.budget, threat=ball)


MINUTES = (
    Subject("cifar10", "robust", CIFAR, "smoke", (None, 0.31, 0.29)),
    Subject("cifar10", "standard", CIFAR, "smoke", (0.80, None, None)),
)
OTHERS = (
    Subject("cifar10", "robust", "l2:0.5", "smoke"),
    Subject("mnist", "robust", "linf:0.3", "smoke"),
    Subject("fashion-mnist", "robust", "linf:0.1", "smoke"),
)
TWENTY = (
    Subject("cifar10", "robust", CIFAR, "cpu", (None, 0.43, 0.40)),
    Subject("cifar10", "standard", CIFAR, "cpu", (0.91, None, None)),
)
NIGHT = (Subject("cifar10", "robust", CIFAR, "night", (None, 0.49, 0.45)),)


def judged(name: str, model: nn.Module, data: Data, ball: Ball, goals: tuple[float | None, ...] = (None,) * 3) -> Any:
    """Clean accuracy, and unless ``ball`` has radius 0 what PGD-40 and the standard suite leave."""
    figures = [figure(f"{name}: clean", accuracy_on(model, data.test), goals[0], at_most=False)]
    if ball.radius:
        x, y = data.test.tensors(slice(0, POINTS))
        figures.append(figure(f"{name}: under PGD-40", unbroken(model, x, y, ball), goals[1], at_most=False))
        x, y = data.test.tensors(slice(0, SUITE_POINTS))
        scores = evaluate(model, x, y, ball, suite="standard", certificate=None, radii=False, alarms=False)
        share = scores.robust.unbroken
        low, high = share.interval
        figures += [
            figure(f"{name}: under the standard suite", share.value, goals[2], at_most=False),
            figure(f"{name}: under the standard suite, low", low),
            figure(f"{name}: under the standard suite, high", high),
        ]
    return figures


def unbroken(model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> float:
    """The share of points that are right and stay so under PGD-40."""
    model.eval()
    right = predict(model, x) == y
    broken = ATTACK(model, x[right], y[right], ball, stream(0, "attack", "pgd-40")).broken
    return float((~broken).sum()) / len(x)


def recipes(subjects: tuple[Subject, ...], *, long: bool) -> Callable[[bool], list[Figure]]:
    """The part that measures ``subjects``; long ones only where their training exists already."""

    def run(quick: bool) -> list[Figure]:
        store, figures = Store.default(), []
        for subject in () if quick else subjects:
            step = subject.step(store)
            if long and not store.is_done(step):
                words = f"--recipe {subject.recipe} --threat {subject.threat} --budget {subject.budget}"
                print(f"not trained: radii train {subject.data} {words}", file=sys.stderr)
                continue
            run = store.ensure(step)
            ball = Ball.parse(subject.threat).with_radius(0.0) if subject.recipe == "standard" else None
            figures += judged(
                subject.name, load_bundle(run.folder)[0], step.data.load(), ball or Ball.parse(subject.threat),
                subject.goals,
            )  # fmt: skip
            if run.cpu_seconds is not None:  # a resumed run does not know it
                figures.append(figure(f"{subject.name}: core-minutes", run.cpu_seconds / 60))
        return figures

    return run


class PlainBlock(nn.Module):
    """relu(bn(conv(relu(bn(conv x)))) + shortcut), He et al. 2016."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        changed = nn.Sequential(nn.AvgPool2d(stride), nn.Conv2d(inside, outside, 1, bias=False))
        self.shortcut = changed if inside != outside else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[n, inside, h, w] -> [n, outside, h / stride, w / stride]."""
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class PlainResNet(nn.Sequential):
    """The peers' network: the widths, positions and depth of the recipe's at ``smoke``, so equal work a pass."""

    def __init__(self, width: int = 32) -> None:
        super().__init__(
            nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            PlainBlock(width, width, 1), PlainBlock(width, 2 * width, 2), PlainBlock(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Logits of pixels in [0, 1]."""
        return super().forward((x - 0.47) / 0.25)


def sign_step(x: Tensor, point: Tensor, gradient: Tensor, size: float, radius: float) -> Tensor:
    """One projected step in the Linf ball of ``radius`` around ``x``."""
    moved = point.detach() + size * gradient.sign()
    return torch.max(torch.min(moved, x + radius), x - radius).clamp(0, 1)


def natural(model: nn.Module, x: Tensor, y: Tensor, radius: float) -> Tensor:  # noqa: ARG001
    """CE at the inputs."""
    return F.cross_entropy(model(x), y)


def searched(model: nn.Module, x: Tensor, y: Tensor, radius: float, steps: int, size: float) -> Tensor:
    """CE after ``steps`` projected steps of ``size`` radii from a random start."""
    point = (x + (2 * torch.rand_like(x) - 1) * radius).clamp(0, 1)
    for _ in range(steps):
        point.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(point), y), point)
        point = sign_step(x, point, gradient, size * radius, radius)
    return F.cross_entropy(model(point), y)


def pgd(model: nn.Module, x: Tensor, y: Tensor, radius: float) -> Tensor:
    """Madry et al. 2018: seven steps of a quarter."""
    return searched(model, x, y, radius, 7, 0.25)


def fgsm(model: nn.Module, x: Tensor, y: Tensor, radius: float) -> Tensor:
    """Wong et al. 2020: one step of 1.25 radii."""
    return searched(model, x, y, radius, 1, 1.25)


def trades(model: nn.Module, x: Tensor, y: Tensor, radius: float) -> Tensor:
    """CE + 6 KL, ten steps of a quarter in eval mode (Zhang et al. 2019)."""
    model.eval()
    with torch.no_grad():
        clean = F.softmax(model(x), 1)
    point = x + 0.001 * torch.randn_like(x)
    for _ in range(10):
        point.requires_grad_()
        distance = F.kl_div(F.log_softmax(model(point), 1), clean, reduction="sum")
        point = sign_step(x, point, torch.autograd.grad(distance, point)[0], 0.25 * radius, radius)
    model.train()
    logits = model(x)
    moved = F.log_softmax(model(point), 1)
    return F.cross_entropy(logits, y) + 6 * F.kl_div(moved, F.softmax(logits, 1), reduction="batchmean")


PEERS = {"PGD-7": pgd, "FGSM with a random start": fgsm, "TRADES": trades, "no attack, SGD": natural}


def trained(loss: Callable[..., Tensor], data: Data, radius: float, seconds: float) -> tuple[nn.Module, float]:
    """A peer's network after ``seconds`` of CPU time, and its epochs: SGD, batches of 128, mirrored and moved."""
    torch.manual_seed(0)
    model = PlainResNet().train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    count, start, order = 0, time.process_time(), torch.empty(0, dtype=torch.int64)
    while (share := (time.process_time() - start) / seconds) < 1:
        if len(order) < 128:
            order = torch.randperm(len(data.train))
        x, y = data.train.tensors(order[:128].numpy())
        order, count = order[128:], count + 128
        x = torch.where(torch.rand(128, 1, 1, 1) < 0.5, x.flip(3), x)
        top, left = torch.randint(5, (2,)).tolist()
        x = F.pad(x, (2, 2, 2, 2), mode="reflect")[:, :, top : top + 32, left : left + 32]
        optimizer.param_groups[0]["lr"] = 0.1 * min(share / 0.2, (1 - share) / 0.8)
        value = loss(model, x.contiguous(memory_format=torch.channels_last), y, radius)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return model.eval(), count / len(data.train)


def peers(quick: bool) -> list[Figure]:
    """Four plain trainings with the CPU time of the robust recipe at ``smoke``."""
    data, ball, store, figures = load("cifar10"), Ball.parse(CIFAR), Store.default(), []
    seconds = QUICK_SECONDS
    if not quick:
        seconds = store.ensure(MINUTES[0].step(store)).cpu_seconds or 120.0
    x, y = data.test.tensors(slice(0, QUICK_POINTS if quick else POINTS))
    for name, loss in PEERS.items():
        model, epochs = trained(loss, data, ball.radius, seconds)
        title = f"cifar10, {name} in plain torch"
        right = float((predict(model, x) == y).double().mean())
        figures.append(figure(f"{title}: clean, {len(x)} images", right))
        if loss is not natural:
            figures.append(figure(f"{title}: under PGD-40", unbroken(model, x, y, ball)))
        figures += [figure(f"{title}: epochs", epochs), figure(f"{title}: core-minutes", seconds / 60)]
    return figures


if __name__ == "__main__":
    main(
        {
            "minutes": recipes(MINUTES, long=False),
            "peers": peers,
            "others": recipes(OTHERS, long=False),
            "twenty": recipes(TWENTY, long=True),
            "night": recipes(NIGHT, long=True),
        }
    )
