"""Agreement: the standard suite beside torchattacks' AutoAttack on the same 500 points, in both directions.

The adversarially trained LeNet5 of ``attacks.py`` at Linf 0.3, test points in
hundreds, both implementations in turns. Either breaks points by luck of its random
starts that the other misses, so both directions are told. About ten CPU minutes;
with --quick 20 points and a tenth of the budgets of Square.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import torch
import torchattacks
from torch import Tensor, nn

from attacks import natural_net, robust_net
from harness import Figure, cpu_seconds, figure, main
from radii.attacks.suite import SuiteResult, members, run_suite
from radii.data import sources
from radii.models.classifier import predict
from radii.threat import Ball

BATCH = 100


class Counted(nn.Module):
    """The model, counting images forward and backward."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.passes = net, 0

    def forward(self, x: Tensor) -> Tensor:
        """Logits; a hook on the input counts the gradients that come back."""
        self.passes += len(x)
        if x.requires_grad:
            x.register_hook(self._seen)
        return self.net(x)

    def _seen(self, gradient: Tensor) -> None:
        self.passes += len(gradient)


def theirs(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, queries: int) -> Tensor:
    """Which points torchattacks' AutoAttack breaks, with the budgets of the original.

    The class ``torchattacks.AutoAttack`` takes 10 steps where the original takes 100; so its
    members are written out, in its order, each on what the ones before left. The referee is
    ours: inside the ball (to 1e-5) and misclassified when predicted again.
    """
    common = {"norm": "Linf", "eps": ball.radius, "seed": 0, "n_restarts": 1}
    members_ = [
        torchattacks.APGD(model, loss="ce", steps=100, **common),
        torchattacks.APGDT(model, n_classes=10, steps=100, **common),
        torchattacks.FAB(model, n_classes=10, steps=100, multi_targeted=True, **common),
        torchattacks.Square(model, n_queries=queries, **common),
    ]
    broken = predict(model, x) != y
    for member in members_:
        left = torch.nonzero(~broken).squeeze(1)
        if len(left):
            found = member(x[left], y[left]).detach()
            broken[left] = (predict(model, found) != y[left]) & ball.contains(found, x[left], 1e-5)
    return broken


def ours(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, queries: int) -> SuiteResult:
    """The standard suite."""
    attacks = tuple(
        replace(one, attack=replace(one.attack, queries=queries)) if one.name == "square" else one  # type: ignore[type-var]
        for one in members("standard")
    )
    return run_suite(attacks, model, x, y, ball)


def run(quick: bool) -> list[Figure]:
    """All figures."""
    data = sources.load("mnist")
    net = natural_net(data.train.tensors(slice(0, 3000)), 4) if quick else robust_net()
    count, queries, ball = (20, 500, Ball("linf", 0.05)) if quick else (500, 5000, Ball("linf", 0.3))
    x, y = data.test.tensors(slice(0, count))
    counted = Counted(net).eval()
    mine, other = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
    seconds = {"ours": 0.0, "theirs": 0.0}
    passes, late = 0, {"fab-t": 0, "square": 0}

    for rows in torch.arange(count).split(BATCH):
        batch = x[rows], y[rows], ball, queries
        found: list[SuiteResult] = []
        seconds["theirs"] += cpu_seconds(lambda: other.index_copy_(0, rows, theirs(counted, *batch)))  # noqa: B023
        seconds["ours"] += cpu_seconds(lambda: found.append(ours(net, *batch)))  # noqa: B023
        mine[rows] = found[0].broken
        passes += int(found[0].queries.sum())
        late = {name: number + found[0].broken_counts()[name] for name, number in late.items()}
        told = f"{int(rows[-1]) + 1} points: theirs {int(other.sum())}, ours {int(mine.sum())} broken, {seconds}"
        print(told, file=sys.stderr, flush=True)
    point = 100 / count
    return [
        figure(f"points, {ball}", count),
        figure("robust accuracy by torchattacks' AutoAttack, %", 100 - point * int(other.sum())),
        figure("robust accuracy by the standard suite, %", 100 - point * int(mine.sum())),
        figure("broken by AutoAttack alone, points of accuracy", point * int((other & ~mine).sum()), 0.5),
        figure("broken by the standard suite alone, points of accuracy", point * int((mine & ~other).sum())),
        figure("broken by FAB-T and Square after APGD, points of accuracy", point * sum(late.values())),
        figure("CPU time over AutoAttack", seconds["ours"] / seconds["theirs"], 1.0),
        figure("passes over AutoAttack", passes / counted.passes, 1.0),
    ]


if __name__ == "__main__":
    main(run)
