"""Networks from pixels to logits. A factory takes ``(input_shape, classes, …)`` and returns a module."""

from radii.registry import Registry

MODELS = Registry(
    "model",
    {
        "simple-convnet": "radii.models.simple_convnet:SimpleConvNet",
        "lenet5": "radii.models.lenet:LeNet5",
        "small-convnet": "radii.models.small_convnet:SmallConvNet",
        "lipschitz-convnet": "radii.models.lipschitz_convnet:LipschitzConvNet",
    },
    positional=("input_shape", "classes"),
)
