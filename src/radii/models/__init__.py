"""Networks from pixels to logits. A factory takes ``(input_shape, classes, …)`` and returns a module."""

from radii.registry import Registry

MODELS = Registry(
    "model",
    {
        "simple-convnet": "radii.models.zoo.simple_convnet:SimpleConvNet",
        "lenet5": "radii.models.zoo.lenet:LeNet5",
        "mlp": "radii.models.zoo.mlp:MLP",
        "cnn1": "radii.models.zoo.cnn:CNN1",
        "cnn2": "radii.models.zoo.cnn:CNN2",
        "wong-kolter": "radii.models.zoo.cnn:WongKolterConvNet",
        "threshold-convnet": "radii.models.zoo.threshold:ThresholdConvNet",
        "clipping-convnet": "radii.models.zoo.threshold:ClippingConvNet",
        "wide-resnet": "radii.models.zoo.wide_resnet:WideResNet",
        "lipschitz-convnet": "radii.models.zoo.lipschitz_convnet:LipschitzConvNet",
        "isometric": "radii.models.zoo.isometric:Isometric",
        "lipschitz-mlp": "radii.models.zoo.lipschitz_mlp:LipschitzMLP",
    },
    positional=("input_shape", "classes"),
)
