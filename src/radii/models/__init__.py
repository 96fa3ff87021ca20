"""Networks from pixels to logits. A factory takes ``(input_shape, classes, …)`` and returns a module.

A user's own factory may take what :mod:`radii.models.io.bundle` says.
"""

from radii.registry import Registry

MODELS = Registry(
    "model",
    {
        "simple-convnet": "radii.models.zoo.convnets:SimpleConvNet",
        "lenet5": "radii.models.zoo.convnets:LeNet5",
        "mlp": "radii.models.zoo.mlp:MLP",
        "cnn1": "radii.models.zoo.convnets:CNN1",
        "cnn2": "radii.models.zoo.convnets:CNN2",
        "wong-kolter": "radii.models.zoo.convnets:WongKolterConvNet",
        "threshold-convnet": "radii.models.zoo.convnets:ThresholdConvNet",
        "clipping-convnet": "radii.models.zoo.convnets:ClippingConvNet",
        "wide-resnet": "radii.models.zoo.wide_resnet:WideResNet",
        "small-resnet": "radii.models.zoo.small_resnet:SmallResNet",
        "lipschitz-convnet": "radii.models.zoo.lipschitz_networks:LipschitzConvNet",
        "isometric": "radii.models.zoo.isometric:Isometric",
        "interval-network": "radii.models.zoo.interval_network:IntervalNetwork",
        "linf-distance": "radii.models.zoo.linf_distance:LinfDistanceNetwork",
        "prototypes": "radii.models.zoo.prototypes:Prototypes",
        "lipschitz-mlp": "radii.models.zoo.lipschitz_networks:LipschitzMLP",
    },
    positional=("input_shape", "classes", "num_classes", "n_classes", "num_labels", "in_channels", "in_chans"),
    product="torch.nn:Module",
)
