"""What a robust training step costs, in natural steps: PGD-7 and TRADES-7 on LeNet5, batch 64, beside naive loops.

The naive loops are what most public code does: ``loss.backward()`` inside the
attack (weight gradients nobody reads), TRADES with the clean output computed
anew in every step. All subjects train copies of one network on one batch and
are timed in turns; before that their losses are compared, which must agree: in
float64, where rounding turns no sign of a gradient, and as timed in float32.
A natural step is forward, backward and update in torch's default memory order.
"""

from __future__ import annotations

import copy
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness import Figure, figure, main, medians
from radii.models.classifier import channels_last
from radii.models.zoo.convnets import LeNet5
from radii.models.zoo.wide_resnet import WideResNet
from radii.training._inner_maximization import Inner
from radii.training.objectives.adversarial import AdversarialTraining, Trades
from radii.training.objectives.cross_entropies import Natural
from radii.training.objectives.objective import Objective, TrainingProgress

BATCH, STEPS, EPSILON = 64, 7, 0.3
THREAT, SIZE = f"linf:{EPSILON}", 0.25
MOMENT = TrainingProgress(0, 10)


class Trainer:
    """A network, its optimizer and one batch."""

    def __init__(self, net: nn.Module, x: Tensor, y: Tensor, objective: Objective | None = None) -> None:
        self.net, self.x, self.y, self.objective = copy.deepcopy(net).train(), x, y, objective
        # a rate of 0 keeps the loss of every round the same and costs what any other rate costs
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.0, momentum=0.9, nesterov=True)
        self.order = ExitStack()  # how the weights lie in memory, while this object lives

    def loss(self) -> Tensor:
        """Ours: the objective as ``radii train`` calls it."""
        assert self.objective is not None
        return self.objective.loss(self.net, self.x, self.y, MOMENT).value

    def __call__(self) -> Tensor:
        loss = self.loss()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class NaivePgd(Trainer):
    """Adversarial training as a first version of it reads."""

    def loss(self) -> Tensor:
        point = start(self.x, "uniform")
        for _ in range(STEPS):
            point = point.detach().requires_grad_()
            F.cross_entropy(self.net(point), self.y).backward()
            assert point.grad is not None
            point = stepped(point, point.grad, self.x)
        return F.cross_entropy(self.net(point.detach()), self.y)


class ReferenceTrades(Trainer):
    """TRADES in the structure of its public code: clean outputs anew in every step, three outer passes."""

    def loss(self) -> Tensor:
        point = start(self.x, "normal")
        self.net.eval()
        for _ in range(STEPS):
            point = point.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self._divergence(point), point)
            point = stepped(point, gradient, self.x)
        self.net.train()
        natural = F.cross_entropy(self.net(self.x), self.y)
        return natural + 6 * self._divergence(point.detach()) / len(self.x)

    def _divergence(self, point: Tensor) -> Tensor:
        return F.kl_div(F.log_softmax(self.net(point), 1), F.softmax(self.net(self.x), 1), reduction="sum")


def start(x: Tensor, kind: str) -> Tensor:
    """The same start as ours, so that losses can be compared."""
    return Inner(AdversarialTraining(THREAT).inner.ball, start=kind).begin(x, MOMENT)  # type: ignore[arg-type]


def stepped(point: Tensor, gradient: Tensor, x: Tensor) -> Tensor:
    """One sign step and two clips."""
    moved = point.detach() + SIZE * EPSILON * gradient.sign()
    return torch.min(torch.max(moved, x - EPSILON), x + EPSILON).clamp(0, 1)


def seasoned(net: nn.Module, x: Tensor, y: Tensor, steps: int) -> nn.Module:
    """A few steps of training, so that gradients are neither zero nor all alike."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


def subjects(net: nn.Module, x: Tensor, y: Tensor) -> dict[str, Trainer]:
    """Everything that is timed and compared; ours with the memory order that ``radii train`` gives a network."""
    plain = {
        "natural": Trainer(net, x, y, Natural()),
        "naive PGD-7": NaivePgd(net, x, y),
        "reference TRADES-7": ReferenceTrades(net, x, y),
    }
    ours = {
        "our natural": Trainer(net, x, y, Natural()),
        "our PGD-7": Trainer(net, x, y, AdversarialTraining(THREAT, STEPS, SIZE)),
        "our TRADES-7": Trainer(net, x, y, Trades(THREAT, 6.0, STEPS, SIZE)),
    }
    for trainer in ours.values():
        trainer.order.enter_context(channels_last(trainer.net, trained=True)())
    return {**plain, **ours}


def costs(net: nn.Module, x: Tensor, y: Tensor, rounds: int) -> dict[str, float]:
    """Median CPU times in natural steps."""
    seconds = medians(dict(subjects(net, x, y)), rounds)
    return {name: value / seconds["natural"] for name, value in seconds.items()}


def disagreement(net: nn.Module, x: Tensor, y: Tensor, ours: str, theirs: str) -> float:
    """Relative difference of two losses."""
    made = subjects(net, x, y)
    first, second = float(made[ours]()), float(made[theirs]())
    return abs(first - second) / abs(second)


def run(quick: bool) -> list[Figure]:
    """All figures."""
    torch.manual_seed(0)
    x, y = torch.rand(BATCH, 1, 28, 28).pow(3), torch.arange(BATCH) % 10
    net = seasoned(LeNet5((1, 28, 28), 10), x, y, 3)
    cost = costs(net, x, y, rounds=5 if quick else 15)
    pgd, trades = ("our PGD-7", "naive PGD-7"), ("our TRADES-7", "reference TRADES-7")
    precise = copy.deepcopy(net).double(), x.double(), y
    figures = [
        figure("LeNet5: naive PGD-7 step over a natural step", cost["naive PGD-7"]),
        figure("LeNet5: our PGD-7 step over a natural step", cost["our PGD-7"], 6.2),
        figure("LeNet5: our PGD-7 step over our natural step", cost["our PGD-7"] / cost["our natural"]),
        figure("LeNet5: PGD-7 losses differ by, float64", disagreement(*precise, *pgd), 1e-6),
        figure("LeNet5: PGD-7 losses differ by, float32", disagreement(net, x, y, *pgd)),
        figure("LeNet5: reference TRADES-7 step over a natural step", cost["reference TRADES-7"]),
        figure("LeNet5: our TRADES-7 step over a natural step", cost["our TRADES-7"], 7.2),
        figure("LeNet5: our TRADES-7 step over our natural step", cost["our TRADES-7"] / cost["our natural"]),
        figure("LeNet5: TRADES-7 losses differ by, float64", disagreement(*precise, *trades), 1e-6),
        figure("LeNet5: TRADES-7 losses differ by, float32", disagreement(net, x, y, *trades)),
    ]
    if not quick:
        images = torch.rand(BATCH, 3, 32, 32)
        cost = costs(seasoned(WideResNet((3, 32, 32), 10, depth=10, widen=1), images, y, 2), images, y, rounds=3)
        figures += [
            figure("WRN-10-1: naive PGD-7 step, in train mode, over a natural step", cost["naive PGD-7"]),
            figure("WRN-10-1: our PGD-7 step, batch norms folded, over a natural step", cost["our PGD-7"]),
        ]
    return figures


if __name__ == "__main__":
    main(run)
