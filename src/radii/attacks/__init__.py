"""Attacks: searches of a ball for an input that a model gets wrong."""

from radii.registry import Registry

ATTACKS = Registry(
    "attack",
    {
        "pgd": "radii.attacks.pgd:PGD",
        "apgd-ce": "radii.attacks.apgd:APGD",
        "apgd-dlr": "radii.attacks.apgd:APGD_DLR",
        "apgd-t": "radii.attacks.apgd:APGD_TARGETED",
        "fab-t": "radii.attacks.fab:FAB",
        "square": "radii.attacks.square:Square",
        "minimum-norm": "radii.attacks.minimum_norm:MinimumNorm",
        "noise": "radii.attacks.baseline:Noise",
        "blur": "radii.attacks.baseline:Blur",
    },
)
