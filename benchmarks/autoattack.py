"""Agreement: the standard suite beside torchattacks' AutoAttack on the same 500 points, in both directions.

An adversarially trained LeNet5 of an eighth of the width, at Linf 0.34, where about a sixth
of the test points survive; both implementations in turns. Either breaks points by luck
of its random starts that the other misses, so both directions are told. Then the bound
of the suite `sampled` on 300 further images. About three CPU minutes; with --quick 20
points of a naturally trained net and a tenth of Square's queries.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import torch
import torchattacks
from torch import Tensor, nn

from attacks import natural_net, robust_net
from harness import Figure, cpu_seconds, figure, main
from radii.attacks.suite import SAMPLED, Member, members, run_suite
from radii.data import sources
from radii.models.classifier import predict
from radii.threat import Ball

BATCH = 250
SAMPLE = 20  # of the survivors that the suite `sampled` attacks, fixed before any was attacked


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


def standard(queries: int) -> tuple[Member, ...]:
    """The standard suite; with --quick Square gets fewer queries."""
    return tuple(
        replace(one, attack=replace(one.attack, queries=queries)) if one.name == "square" else one  # type: ignore[type-var]
        for one in members("standard")
    )


def agreement(net: nn.Module, x: Tensor, y: Tensor, ball: Ball, queries: int) -> tuple[list[Figure], float]:
    """Both on the same points, a batch at a time in turns; and the share of APGD's survivors that fell later."""
    counted, ours, seconds = Counted(net).eval(), [], {"theirs": 0.0, "ours": 0.0}
    other = torch.zeros_like(y, dtype=torch.bool)
    for rows in torch.arange(len(y)).split(BATCH):
        seconds["theirs"] += cpu_seconds(
            lambda: other.index_copy_(0, rows, theirs(counted, x[rows], y[rows], ball, queries))  # noqa: B023
        )
        seconds["ours"] += cpu_seconds(
            lambda: ours.append(run_suite(standard(queries), net, x[rows], y[rows], ball))  # noqa: B023
        )
        told = f"{int(rows[-1]) + 1} points: theirs {int(other.sum())}, ours {[int(one.broken.sum()) for one in ours]}"
        print(told, {name: round(value) for name, value in seconds.items()}, file=sys.stderr, flush=True)
    mine = torch.cat([one.broken for one in ours])
    late = sum(one.broken_by.count(name) for one in ours for name in SAMPLED)
    passes, point = sum(int(one.queries.sum()) for one in ours), 100 / len(y)
    return [
        figure(f"points, {ball}", len(y)),
        figure("robust accuracy by AutoAttack, %", 100 - point * int(other.sum())),
        figure("robust accuracy by the standard suite, %", 100 - point * int(mine.sum())),
        figure("broken by AutoAttack alone, points of accuracy", point * int((other & ~mine).sum()), 0.5),
        figure("broken by the standard suite alone, points of accuracy", point * int((mine & ~other).sum())),
        figure("broken by FAB-T and Square after APGD, points", late),
        figure("CPU time over AutoAttack", seconds["ours"] / seconds["theirs"], 1.0),
        figure("passes over AutoAttack", passes / counted.passes, 1.0),
    ], late / max(1, int((~mine).sum()) + late)


def sampled(net: nn.Module, x: Tensor, y: Tensor, ball: Ball, queries: int, fresh: float) -> list[Figure]:
    """The bound of the suite `sampled`, as a share of survivors, beside what the full suite broke on other images.

    The sample's size, the confidence and the rule (draw first, never stop early) were fixed before any
    of these images was attacked.
    """
    found = run_suite(standard(queries), net, x, y, ball, sample=SAMPLE)
    bounded = found.survivor_bound
    assert bounded is not None
    bound = bounded.at_most / max(1, bounded.survivors)
    return [
        figure("sampled: survivors of APGD", bounded.survivors),
        figure("sampled: broken in the sample", bounded.broken_in_sample),
        figure("sampled: share of survivors that a full run breaks, at most", bound),
        figure("sampled: share that the full suite broke on fresh images", fresh, bound),
    ]


def run(quick: bool) -> list[Figure]:
    """All figures."""
    data = sources.load("mnist")
    net = natural_net(data.train.tensors(slice(0, 3000)), 4) if quick else robust_net(widen=0.125, steps=400)
    count, queries, ball = (20, 500, Ball("linf", 0.05)) if quick else (500, 5000, Ball("linf", 0.34))
    figures, late = agreement(net, *data.test.tensors(slice(0, count)), ball, queries)
    return figures + sampled(net, *data.test.tensors(slice(count, count + count * 3 // 5)), ball, queries, late)


if __name__ == "__main__":
    main(run)
