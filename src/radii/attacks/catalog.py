"""Attacks by name, with the settings that results are compared at."""

from __future__ import annotations

from radii.attacks.apgd import APGD
from radii.attacks.attack import Attack
from radii.attacks.baseline import Blur, Noise
from radii.attacks.fab import FAB
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.errors import unknown_name

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
