"""The suite `swift` beside the original AutoAttack on robust networks: CPU time, and points that one of them breaks.

The original of `../shared/peers` (`RADII_PEERS`), 200 test images of CIFAR-10 for each network. Part ``public``: three
networks of `../shared/models` (`RADII_MODELS`) at the radius of their training, about a quarter of a CPU hour. Part
``recipe``: the recipe ``robust`` at Linf 8/255 and budget ``smoke``, trained if the store (`RADII_RUNS`) has it not.
With --quick ten images of one network.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import nn

from harness import Figure, cpu_seconds, figure, main
from public_networks import NETWORKS, public_network
from radii.attacks.suite import members, run_suite
from radii.data import sources
from radii.models.classifier import predict
from radii.models.io.bundle import load_bundle
from radii.runs.planning import data_spec, named_training
from radii.runs.store import Store
from radii.threat import Ball

PEERS = Path(os.environ.get("RADII_PEERS", "../shared/peers"))


def beside(name: str, net: nn.Module, ball: Ball, points: int = 200) -> list[Figure]:
    """Both on the first ``points`` test images; a success of theirs counts in the closed ball, asked again."""
    sys.path.insert(0, str(PEERS))  # before this folder, whose autoattack.py is another
    from autoattack import AutoAttack

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


def public(quick: bool) -> list[Figure]:
    """The networks that others trained."""
    names, points = (["cifar_wide"], 10) if quick else (list(NETWORKS), 200)
    return [one for name in names for one in beside(name, public_network(name), Ball("linf", NETWORKS[name]), points)]


def recipe(quick: bool) -> list[Figure]:
    """Our own."""
    if quick:
        return []
    store, ball = Store.default(), Ball.parse("linf:8/255")
    step = named_training(data_spec("cifar10", store), recipe="robust", budget="smoke", threat=ball)
    return beside("the robust recipe, smoke", load_bundle(store.ensure(step).folder)[0].eval(), ball)


if __name__ == "__main__":
    torch.manual_seed(0)
    main({"public": public, "recipe": recipe})
