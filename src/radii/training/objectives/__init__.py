"""Training methods, one module each; the registry of their names."""

from radii.registry import Registry

METHODS = Registry(
    "method",
    {
        "natural": "radii.training.objectives.natural:Natural",
        "offset-cross-entropy": "radii.training.objectives.offset_cross_entropy:OffsetCrossEntropy",
        "self-normalizing": "radii.training.objectives.self_normalizing:SelfNormalizingCrossEntropy",
    },
)
