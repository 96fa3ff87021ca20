"""Networks from pixels to logits. A factory takes ``(input_shape, classes, …)`` and returns a module."""

from radii.registry import Registry

MODELS = Registry(
    "model",
    {
        "simple-convnet": "radii.models.simple_convnet:SimpleConvNet",
        "lenet5": "radii.models.lenet:LeNet5",
        "lipschitz-convnet": "radii.models.lipschitz_convnet:LipschitzConvNet",
        "lipschitz-mlp": "radii.models.lipschitz_mlp:LipschitzMLP",
    },
    positional=("input_shape", "classes"),
)
