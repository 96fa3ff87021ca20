"""Suites: several attacks on each point, the worst case of all of them, and what a sample says of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace

import numpy as np
import torch
from scipy.stats import hypergeom
from torch import Tensor, nn

from radii.attacks import SUITES
from radii.attacks.apgd import APGD
from radii.attacks.attack import Attack
from radii.attacks.caveats import CONFIDENCE, SurvivorBound
from radii.attacks.fab import FAB
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.errors import InputError
from radii.randomness import stream
from radii.registry import is_import_path
from radii.threat import Ball

SAMPLE_SIZE = 100  # survivors that the suite ``sampled`` attacks


@dataclass(frozen=True)
class Member:
    """An attack of a suite, with its name in results."""

    name: str
    attack: Attack


@dataclass(frozen=True)
class SuiteResult:
    """The worst case over a suite's attacks, per point."""

    x_adv: Tensor  # [n, …] float32; the clean input where no attack succeeds
    broken: Tensor  # [n] bool
    broken_by: tuple[str, ...]  # the attack that broke each point, "clean" or ""
    queries: Tensor  # [n] int64, forward and backward passes
    passes: dict[str, int]  # images through the network, per attack
    survivor_bound: SurvivorBound | None = None  # of the suite ``sampled``


Suite = Mapping[str, Attack]  # attacks by their name in results, in the order in which they run

STANDARD: Suite = {
    "apgd-ce": APGD("ce"),
    "apgd-t": APGD("dlr-targeted"),
    "fab-t": FAB(),
    "square": Square(),
}
SAMPLED_SUITE = STANDARD
EXHAUSTIVE: Suite = {
    "apgd-ce": APGD("ce", restarts=5),
    "apgd-dlr": APGD("dlr", restarts=5),
    "apgd-t": APGD("dlr-targeted", restarts=5),
    "fab-t": FAB(restarts=5),
    "square": Square(restarts=5),
}
FAST: Suite = {
    "apgd-ce": APGD("ce", steps=50),
    "apgd-dlr": APGD("dlr", steps=50),
}
SWIFT: Suite = {
    "apgd-pm": APGD("pm"),
    "apgd-t": APGD("dlr-targeted", targets=3, order="distance"),
    "apgd-pm-t": APGD("pm-targeted", targets=3, order="distance"),
    "square": Square(queries=1000),
}
BLACK_BOX: Suite = {"square": Square()}
PGD_40: Suite = {"pgd-40": PGD()}
SAMPLED = ("fab-t", "square")  # the attacks that the suite ``sampled`` runs on a sample


def suite_name(text: str) -> str:
    """``text``, which must be the name of a suite or an import path."""
    if text not in SUITES and not is_import_path(text):
        SUITES.check(text)
    return text


def members(suite: str, batch_size: int = 256) -> tuple[Member, ...]:
    """The attacks of a named suite, in the order in which they run.

    ``standard``: the four attacks of AutoAttack (Croce & Hein 2020) with its
    budgets. ``exhaustive``: the same with five restarts and untargeted DLR.
    ``sampled``: the same attacks as ``standard``, but FAB-T and Square attack only
    a random sample of what APGD leaves, with a bound on what they would still
    break. ``swift``: APGD on the margin of probabilities, then towards the three classes whose tangent planes are
    nearest, and 1,000 queries of Square: on robust networks about a quarter of the passes of ``standard``, whose name
    its result does not carry. ``fast``: 50 steps of APGD-CE and APGD-DLR, to choose between models; its
    result is not comparable to AutoAttack's. ``black-box``: Square alone, for
    models without gradients. ``pgd``: PGD-40 alone, never a robust accuracy.
    Another name is that of an entry point in the group ``radii.suites`` or an
    import path of a dictionary of attacks.

    Args:
        batch_size: points attacked together; default 256.
    """
    attacks = SUITES.entry(suite_name(suite))
    if not isinstance(attacks, Mapping) or not attacks or not all(callable(attack) for attack in attacks.values()):
        raise InputError(f"The suite {suite!r} must be a dictionary of attacks by name, got {attacks!r} instead.")
    return tuple(Member(name, _batched(attack, batch_size)) for name, attack in attacks.items())


def _batched(attack: Attack, batch_size: int) -> Attack:
    """The attack with this batch size, if it has one."""
    if is_dataclass(attack) and not isinstance(attack, type) and hasattr(attack, "batch_size"):
        return replace(attack, batch_size=batch_size)
    return attack


def run_suite(
    attacks: tuple[Member, ...],
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    seed: int = 0,
    sample: int | None = None,
) -> SuiteResult:
    """Run each attack on the points that the attacks before it did not break.

    Args:
        x: inputs [n, …]; never changed.
        y: labels [n].
        seed: seed of all random numbers; default 0.
        sample: run the attacks of :data:`SAMPLED` only on so many unbroken points, and bound what they would
            break among the rest; default: on all.
    """
    x_adv, queries = x.float().clone(), torch.zeros_like(y)
    broken = torch.zeros_like(y, dtype=torch.bool)
    eligible = torch.ones_like(broken)
    broken_by, passes = [""] * len(y), {}
    survivors = drawn = 0
    for member in attacks:
        if sample is not None and member.name in SAMPLED and not survivors:
            left = torch.nonzero(~broken).squeeze(1)
            chosen = _draw_survivors(left, sample, seed)
            survivors, drawn = len(left), len(chosen)
            eligible = torch.zeros_like(broken).index_fill_(0, chosen, True)
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
    if sample is not None:
        bound = survivor_bound(survivors, drawn, sum(broken_by.count(name) for name in SAMPLED))
    return SuiteResult(x_adv, broken, tuple(broken_by), queries, passes, bound)


def _draw_survivors(survivors: Tensor, size: int, seed: int) -> Tensor:
    """``size`` of the indices ``survivors``, drawn by ``seed`` without replacement: [m] -> [min(size, m)]."""
    order = torch.randperm(len(survivors), generator=stream(seed, "audit"))  # the name is part of stored results
    return survivors[order[:size].sort().values]


def survivor_bound(survivors: int, sampled: int, broken: int, confidence: float = CONFIDENCE) -> SurvivorBound:
    """The largest number of breakable survivors that the sample does not contradict.

    at_most = max {K : P(X <= broken | survivors, K, sampled) > 1 - confidence},
    X hypergeometric: the exact one-sided limit for a finite population of
    ``survivors``, of which ``sampled`` were attacked.
    """
    breakable = np.arange(broken, survivors - (sampled - broken) + 1)
    unlikely = hypergeom.cdf(broken, survivors, breakable, sampled) <= 1 - confidence  # not where there are none: NaN
    return SurvivorBound(survivors, sampled, broken, int(breakable[~unlikely].max()), confidence)
