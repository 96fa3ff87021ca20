"""Attacks: searches of a ball for an input that a model gets wrong."""

from radii.registry import Registry

ATTACKS = Registry(
    "attack",
    {
        "pgd": "radii.attacks.pgd:PGD",
        "apgd-ce": "radii.attacks.apgd:APGD",
        "apgd-dlr": "radii.attacks.apgd:APGD_DLR",
        "apgd-t": "radii.attacks.apgd:APGD_TARGETED",
        "apgd-pm": "radii.attacks.apgd:APGD_MARGIN_OF_PROBABILITIES",
        "apgd-nearest": "radii.attacks.apgd:APGD_NEAREST",
        "fab-t": "radii.attacks.fab:FAB",
        "square": "radii.attacks.square:Square",
        "minimum-norm": "radii.attacks.minimum_norm:MinimumNorm",
        "exact": "radii.attacks.exact:Exact",
        "decision-based": "radii.attacks.decision_based:DecisionBased",
        "noise": "radii.attacks.gradient_free:Noise",
        "blur": "radii.attacks.gradient_free:Blur",
        "grid": "radii.attacks.change_grid:ChangeGrid",
        "sparse": "radii.attacks.sparse:SparseAttack",
    },
)

GRADIENT_FREE = ("black-box", "decisions")  # suites for models without gradients
SUITES = Registry(
    "suite",
    {
        "standard": "radii.attacks.suite:STANDARD",
        "exhaustive": "radii.attacks.suite:EXHAUSTIVE",
        "sampled": "radii.attacks.suite:SAMPLED_SUITE",
        "swift": "radii.attacks.suite:SWIFT",
        "fast": "radii.attacks.suite:FAST",
        "black-box": "radii.attacks.suite:BLACK_BOX",
        "decisions": "radii.attacks.decision_based:DECISIONS",
        "pgd": "radii.attacks.suite:PGD_40",
    },
    elsewhere=dict.fromkeys(("autoattack", "auto-attack", "auto_attack", "aa"), "standard"),
)
