"""An upper bound of a network's L2 Lipschitz constant on a stated input size, proved layer by layer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, nextafter, prod, sqrt

import torch
from torch import Tensor, nn

from radii import progress
from radii.errors import InputError, checked
from radii.models.heads import provable
from radii.models.lipschitz._folding import fold
from radii.models.lipschitz.layer_bounds import LayerBound, bound_layer
from radii.models.lipschitz.operators import rounding


@dataclass(frozen=True)
class LipschitzBound:
    """|f(x) - f(x')| <= value |x - x'| in L2, for inputs of ``input_shape`` and the weights with ``digest``.

    ``features`` bounds everything before a last linear layer and
    ``pairs[i, j]`` that layer's |w_i - w_j|, so that logit i minus logit j is
    Lipschitz with ``features * pairs[i, j]``, which is at most sqrt(2) value
    and usually less. Without a last linear layer ``pairs`` is sqrt(2) times
    the last layer's constant everywhere.
    """

    value: float
    features: float
    pairs: Tensor  # [classes, classes] float64
    layers: tuple[LayerBound, ...]
    input_shape: tuple[int, ...]
    digest: str

    @property
    def is_proved(self) -> bool:
        """Whether no layer needed the looser fallback (which is an upper bound all the same)."""
        return all(layer.method != "fallback" for layer in self.layers)

    def check(self, network: nn.Module) -> None:
        """Refuse a folded network whose weights or layers are not those that were bounded."""
        if _weights_digest(network, self.input_shape) != self.digest:
            raise InputError(
                "The Lipschitz bound was computed for other weights or another input size; "
                "compute it again with lipschitz_bound(model, input_shape)."
            )


@checked
@torch.no_grad()
def lipschitz_bound(model: nn.Module, input_shape: tuple[int, ...], *, prove: bool = True) -> LipschitzBound:
    """An upper bound of the L2 Lipschitz constant of ``model`` in eval mode.

    The bound is the product of the layers' bounds. Each of these is exact, or
    proved by a Cholesky factorization, or computed by the looser bound from the
    discrete Fourier transform. All three are upper bounds for every input.

    Args:
        model: a network of layers that can be bounded, applied one after another.
        input_shape: shape of one input, without the batch.
        prove: False takes the Fourier bound for every convolution: faster and looser.

    Returns:
        The bound with the bounds of all layers and of all pairs of logits.

    Raises:
        InputError: a layer cannot be bounded (the message names it), or the model
            does not return logits.
    """
    network = certified_network(model, input_shape)
    layers: list[LayerBound] = []
    shapes = [tuple(input_shape)]
    x = torch.zeros(1, *input_shape, dtype=torch.float64)
    with progress.task("bounding layers", total=len(network), unit="layers") as task:
        for name, layer in network.named_children():
            layers.append(bound_layer(name, layer, shapes[-1], prove))
            x = layer(x)
            shapes.append(tuple(x.shape[1:]))
            task.advance(1, note=name)
    if len(shapes[-1]) != 1:
        raise InputError(f"The model must return logits [n, classes], got outputs of shape {shapes[-1]} instead.")
    head = network[-1]
    features = product(layer.value for layer in layers[:-1])
    pairs = pair_norms(head.weight) if isinstance(head, nn.Linear) else _any_pair(layers[-1].value, shapes[-1][0])
    value = product([features, layers[-1].value])
    return LipschitzBound(
        value, features, pairs, tuple(layers), tuple(input_shape), _weights_digest(network, input_shape)
    )


def certified_network(model: nn.Module, input_shape: tuple[int, ...]) -> nn.Sequential:
    """The network that certificates are about: ``model`` folded for inputs of ``input_shape``, exactly, in float64."""
    return fold(provable(model)[0], input_shape).double().cpu()


def _weights_digest(network: nn.Module, input_shape: tuple[int, ...]) -> str:
    """sha256 of the kinds, settings and weights of the layers of ``network`` and of ``input_shape``."""
    state = hashlib.sha256(repr((tuple(input_shape), str(network))).encode())
    for name, tensor in network.state_dict().items():
        state.update(f"{name}{tuple(tensor.shape)}".encode())
        state.update(tensor.detach().double().cpu().contiguous().numpy().data)
    return state.hexdigest()


def product(values: Iterable[float]) -> float:
    """The product of the positive ``values``, rounded up."""
    factors = [float(value) for value in values]
    return nextafter(prod(factors) * (1 + rounding(len(factors) + 1)), inf)


def pair_norms(weight: Tensor) -> Tensor:
    """|w_i - w_j| for all pairs of rows of ``weight`` [classes, features], rounded up: [classes, classes]."""
    weight = weight.detach().double().cpu()
    distances = torch.stack([(weight - row).norm(dim=1) for row in weight])
    return distances * (1 + rounding(weight.shape[1] + 4))


def _any_pair(value: float, classes: int) -> Tensor:
    return torch.full((classes, classes), nextafter(sqrt(2.0), inf) * value * (1 + rounding(2)), dtype=torch.float64)
