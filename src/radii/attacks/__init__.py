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

SUITES = Registry(
    "suite",
    {
        "standard": "radii.attacks.suite:STANDARD",
        "exhaustive": "radii.attacks.suite:EXHAUSTIVE",
        "sampled": "radii.attacks.suite:SAMPLED_SUITE",
        "fast": "radii.attacks.suite:FAST",
        "black-box": "radii.attacks.suite:BLACK_BOX",
        "pgd": "radii.attacks.suite:PGD_40",
    },
)
