"""Networks from pixels to logits. A factory takes ``(input_shape, classes, …)`` and returns a module."""

from radii.registry import Registry

MODELS = Registry(
    "model",
    {
        "simple-convnet": "radii.models.simple_convnet:SimpleConvNet",
        "lenet5": "radii.models.lenet:LeNet5",
        "mlp": "radii.models.mlp:MLP",
        "cnn1": "radii.models.cnn:CNN1",
        "cnn2": "radii.models.cnn:CNN2",
        "wong-kolter": "radii.models.cnn:WongKolterConvNet",
        "threshold-convnet": "radii.models.threshold:ThresholdConvNet",
        "clipping-convnet": "radii.models.threshold:ClippingConvNet",
        "wide-resnet": "radii.models.wide_resnet:WideResNet",
        "lipschitz-convnet": "radii.models.lipschitz_convnet:LipschitzConvNet",
        "lipschitz-mlp": "radii.models.lipschitz_mlp:LipschitzMLP",
    },
    positional=("input_shape", "classes"),
)
