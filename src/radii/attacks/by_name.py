"""Attacks by name, with the settings that results are compared at."""

from __future__ import annotations

from torch import Tensor, nn

from radii.attacks.apgd import APGD
from radii.attacks.attack import Attack, AttackResult
from radii.attacks.baseline import Blur, Noise
from radii.attacks.fab import FAB
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.errors import unknown_name
from radii.randomness import stream
from radii.threat import Ball

ATTACKS: dict[str, Attack] = {
    "pgd": PGD(),
    "apgd-ce": APGD("ce"),
    "apgd-dlr": APGD("dlr"),
    "apgd-t": APGD("dlr-targeted"),
    "fab-t": FAB(),
    "square": Square(),
    "minimum-norm": MinimumNorm(),
    "noise": Noise(),
    "blur": Blur(),
}


def named(name: str) -> Attack:
    """The attack called ``name``."""
    if name not in ATTACKS:
        raise unknown_name("attack", name, ATTACKS)
    return ATTACKS[name]


def attack(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, *, name: str = "apgd-ce", seed: int = 0) -> AttackResult:
    """One attack by name on inputs ``x`` [n, …] with labels ``y`` [n].

    What it leaves unbroken bounds robust accuracy from above; to report that, use
    :func:`radii.evaluation.evaluate.evaluate`.
    """
    return named(name)(model, x, y, ball, stream(seed, "attack", name))
