"""Training methods, one module each; the registry of their names."""

from radii.registry import Registry

METHODS = Registry(
    "method",
    {
        "natural": "radii.training.objectives.natural:Natural",
        "gaussian-noise": "radii.training.objectives.gaussian_noise:GaussianNoise",
        "gradient-regularization": "radii.training.objectives.gradient_regularization:GradientRegularization",
        "local-linearity": "radii.training.objectives.local_linearity:LocalLinearity",
        "adversarial": "radii.training.objectives.adversarial:AdversarialTraining",
        "trades": "radii.training.objectives.trades:Trades",
        "robust-self-training": "radii.training.objectives.robust_self_training:RobustSelfTraining",
        "interval-bounds": "radii.training.objectives.interval_bounds:IntervalBounds",
        "crown-ibp": "radii.training.objectives.crown_ibp:CrownIBP",
        "offset-cross-entropy": "radii.training.objectives.offset_cross_entropy:OffsetCrossEntropy",
        "self-normalizing": "radii.training.objectives.self_normalizing:SelfNormalizingCrossEntropy",
        "gloro": "radii.training.objectives.gloro:GloRo",
    },
)
