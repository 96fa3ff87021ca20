"""Training methods, one module each; the registry of their names."""

from radii.registry import Registry

METHODS = Registry(
    "method",
    {
        "natural": "radii.training.objectives.cross_entropies:Natural",
        "gaussian-noise": "radii.training.objectives.cross_entropies:GaussianNoise",
        "gradient-regularization": "radii.training.objectives.gradient_regularization:GradientRegularization",
        "local-linearity": "radii.training.objectives.local_linearity:LocalLinearity",
        "adversarial": "radii.training.objectives.adversarial:AdversarialTraining",
        "noise-fgsm": "radii.training.objectives.single_step:NoiseFGSM",
        "trades": "radii.training.objectives.adversarial:Trades",
        "robust-self-training": "radii.training.objectives.robust_self_training:RobustSelfTraining",
        "interval-bounds": "radii.training.objectives.bound_propagation:IntervalBounds",
        "crown-ibp": "radii.training.objectives.bound_propagation:CrownIBP",
        "fast-ibp": "radii.training.objectives.interval_training:FastIBP",
        "mtl-ibp": "radii.training.objectives.interval_training:MtlIBP",
        "sabr": "radii.training.objectives.interval_training:Sabr",
        "linf-distance": "radii.training.objectives.cross_entropies:GrowingPower",
        "prototype-margin": "radii.training.objectives.prototype_margin:PrototypeMargin",
        "offset-cross-entropy": "radii.training.objectives.cross_entropies:OffsetCrossEntropy",
        "self-normalizing": "radii.training.objectives.cross_entropies:SelfNormalizingCrossEntropy",
        "gloro": "radii.training.objectives.cross_entropies:GloRo",
    },
    product="radii.training.objectives.objective:Objective",
)
