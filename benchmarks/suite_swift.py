"""The suite `swift` beside the original AutoAttack on three public robust networks: CPU time and points broken by one.

Networks of `../shared/models` (`RADII_MODELS`) at the radius of their training, the original of `../shared/peers`
(`RADII_PEERS`); 50 test images of CIFAR-10 each, about five CPU minutes; with --quick ten images of one network.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from harness import Figure, cpu_seconds, figure, main
from public_networks import NETWORKS, public_network
from radii.attacks.suite import members, run_suite
from radii.data import sources
from radii.models.classifier import predict
from radii.threat import Ball

PEERS = Path(os.environ.get("RADII_PEERS", "../shared/peers"))


def beside(name: str, points: int) -> list[Figure]:
    """Both on the first ``points`` test images; a success of theirs counts in the closed ball, asked again."""
    sys.path.insert(0, str(PEERS))  # before this folder, whose autoattack.py is another
    from autoattack import AutoAttack

    net, ball = public_network(name), Ball("linf", NETWORKS[name])
    x, y = sources.load("cifar10").test.tensors(slice(0, points))
    theirs, ours = [], []
    original = AutoAttack(net, norm="Linf", eps=ball.radius, version="standard", device="cpu", seed=0, verbose=False)
    before = cpu_seconds(lambda: theirs.append(original.run_standard_evaluation(x, y, bs=points)))
    after = cpu_seconds(lambda: ours.append(run_suite(members("swift"), net, x, y, ball)))
    inside = ball.project(theirs[0].detach(), x)
    broken, mine = predict(net, inside) != y, ours[0].broken
    return [
        figure(f"{name}, {ball}: points, broken by AutoAttack", float(broken.sum())),
        figure(f"{name}: broken by AutoAttack alone", float((broken & ~mine).sum()), 0),
        figure(f"{name}: broken by swift alone", float((mine & ~broken).sum())),
        figure(f"{name}: CPU time over AutoAttack", after / before, 0.6),
    ]


def run(quick: bool) -> list[Figure]:
    """All figures."""
    torch.manual_seed(0)
    names, points = (["cifar_wide"], 10) if quick else (list(NETWORKS), 50)
    return [one for name in names for one in beside(name, points)]


if __name__ == "__main__":
    main(run)
