"""Suites: several attacks on each point, and the worst case of all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from radii.attacks.apgd import APGD
from radii.attacks.attack import Attack
from radii.attacks.fab import FAB
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.attacks.survivor_sample import SurvivorBound, draw_survivors, survivor_bound
from radii.errors import unknown_name
from radii.randomness import stream
from radii.threat import Ball


@dataclass(frozen=True)
class Member:
    """An attack of a suite, with its name in results."""

    name: str
    attack: Attack


@dataclass(frozen=True)
class SuiteResult:
    """The worst case over a suite's attacks, per point."""

    x_adv: Tensor  # [n, …] float32; the clean input where nothing was found
    broken: Tensor  # [n] bool
    broken_by: tuple[str, ...]  # the attack that broke each point, "clean" or ""
    queries: Tensor  # [n] int64, forward and backward passes
    passes: dict[str, int]  # images through the network, per attack
    audit: SurvivorBound | None = None  # of the audited suite


SUITES: dict[str, dict[str, APGD | FAB | PGD | Square]] = {
    "standard": {
        "apgd-ce": APGD("ce"),
        "apgd-t": APGD("dlr-targeted"),
        "fab-t": FAB(),
        "square": Square(),
    },
    "exhaustive": {
        "apgd-ce": APGD("ce", restarts=5),
        "apgd-dlr": APGD("dlr", restarts=5),
        "apgd-t": APGD("dlr-targeted", restarts=5),
        "fab-t": FAB(restarts=5),
        "square": Square(restarts=5),
    },
    "audited": {
        "apgd-ce": APGD("ce"),
        "apgd-t": APGD("dlr-targeted"),
        "fab-t": FAB(),
        "square": Square(),
    },
    "fast": {
        "apgd-ce": APGD("ce", steps=50),
        "apgd-dlr": APGD("dlr", steps=50),
    },
    "black-box": {"square": Square()},
    "pgd": {"pgd-40": PGD()},
}

SAMPLED = ("fab-t", "square")  # what the audited suite runs on a sample


def members(suite: str, batch_size: int = 256) -> tuple[Member, ...]:
    """The attacks of a named suite, in the order in which they run.

    ``standard``: the four attacks of AutoAttack (Croce & Hein 2020) with its
    budgets. ``exhaustive``: the same with five restarts and untargeted DLR.
    ``audited``: the same attacks as ``standard``, but FAB-T and Square meet only
    a random sample of what APGD leaves, with a bound on what they would still
    break. ``fast``: 50 steps of APGD-CE and APGD-DLR, to choose between models; its
    result is not comparable to AutoAttack's. ``black-box``: Square alone, for
    models without gradients. ``pgd``: PGD-40 alone, never a robust accuracy.
    """
    if suite not in SUITES:
        raise unknown_name("suite", suite, SUITES)
    return tuple(Member(name, replace(attack, batch_size=batch_size)) for name, attack in SUITES[suite].items())


def run_suite(
    attacks: tuple[Member, ...],
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    seed: int = 0,
    audit: int | None = None,
) -> SuiteResult:
    """Each attack in turn on the points that all before it left unbroken.

    With ``audit`` the attacks named in :data:`SAMPLED` run on that many of the
    survivors only, and the result carries the bound for the rest.
    """
    x_adv, queries = x.float().clone(), torch.zeros_like(y)
    broken = torch.zeros_like(y, dtype=torch.bool)
    eligible = torch.ones_like(broken)
    broken_by, passes = [""] * len(y), {}
    survivors = drawn = 0
    for member in attacks:
        if audit is not None and member.name in SAMPLED and not survivors:
            left = torch.nonzero(~broken).squeeze(1)
            sample = draw_survivors(left, audit, seed)
            survivors, drawn = len(left), len(sample)
            eligible = torch.zeros_like(broken).index_fill_(0, sample, True)
        left = torch.nonzero(~broken & eligible).squeeze(1)
        passes[member.name] = 0
        if not len(left):
            continue
        result = member.attack(model, x[left], y[left], ball, stream(seed, "attack", member.name))
        queries[left] += result.queries
        passes[member.name] = int(result.queries.sum())
        hit = left[result.broken]
        broken[hit], x_adv[hit] = True, result.x_adv[result.broken]
        for point in hit.tolist():
            broken_by[point] = member.name
    bound = None
    if audit is not None:
        bound = survivor_bound(survivors, drawn, sum(broken_by.count(name) for name in SAMPLED))
    return SuiteResult(x_adv, broken, tuple(broken_by), queries, passes, bound)
