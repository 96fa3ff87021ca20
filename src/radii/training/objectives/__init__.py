"""Training methods, one module each; the registry of their names."""

from radii.registry import Registry

METHODS = Registry(
    "method",
    {
        "natural": "radii.training.objectives.natural:Natural",
        "gaussian-noise": "radii.training.objectives.gaussian_noise:GaussianNoise",
        "interval-bounds": "radii.training.objectives.interval_bounds:IntervalBounds",
        "crown-ibp": "radii.training.objectives.crown_ibp:CrownIBP",
        "offset-cross-entropy": "radii.training.objectives.offset_cross_entropy:OffsetCrossEntropy",
    },
)
