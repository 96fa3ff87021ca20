"""Margins of networks that branch and join, such as residual ones, from the graph of their layers.

Within L2 distance r of an input, a value of the network moves by at most L r. A
linear layer multiplies L by its norm, a ReLU or a maximum over windows that do
not overlap keeps it, and a sum adds the constants of its two parts. The
rounding of float32 is carried along by the same rules. The radius is then the
one of :mod:`radii.certificates.lipschitz`: min_c (s_y - s_c - e) / (L_yc + e').
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nextafter, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.certificates.bounds.bounded import Bounded
from radii.certificates.bounds.linear_maps import Dense
from radii.certificates.bounds.linear_norms import linear_norms
from radii.certificates.bounds.network import Network
from radii.certificates.bounds.relaxations import Affine, Layer, MaxPool, Relu, Sum
from radii.certificates.certificate import Certificate
from radii.certificates.lipschitz import DifferenceError, margin_radius
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.lipschitz.float32 import Float32Error
from radii.models.lipschitz.layer_bounds import LayerBound
from radii.models.lipschitz.network_bound import pair_norms
from radii.models.lipschitz.operators import UNIT, rounding
from radii.models.model_state import ModelState
from radii.threat import length

UP = 1 + 1e-9  # covers the float64 rounding of these bounds themselves
ASSUMPTIONS = (
    "radii are L2 distances in input units",
    "float32 network, each layer's sums in any order (no TF32, bfloat16, Winograd or FFT convolutions)",
    "float64 matrix products obey the standard rounding bounds",
)


@dataclass(frozen=True)
class _Value:
    """A value of the network around n inputs: within distance r it moves by at most ``grown`` r.

    ``at`` [n, …] is its float64 result there, off by at most ``own`` [n]; ``error`` is what float32 adds.
    """

    at: Tensor
    own: Tensor
    grown: float
    error: Float32Error


@torch.no_grad()
def certify(model: nn.Module, x: Tensor, *, prove: bool = True, batch_size: int = 64) -> Certificate:
    """The L2 radius around each row of ``x`` within which the prediction cannot change.

    Guarantee: deterministic, for the network as float32 computes it in eval mode.

    Args:
        model: a network of linear layers, ReLUs, max pools and sums, joined in any way; others are refused by name.
        x: inputs [n, …]; never changed.
        prove: False takes looser norms of convolutions that cost less.
        batch_size: inputs treated together; default 64.

    Returns:
        Predictions and L2 radii.

    Raises:
        InputError: a layer has no Lipschitz constant, or the model does not do what its layers do.
    """
    check_inputs(x, box=None)
    bounded = Bounded(model, tuple(x.shape[1:]))
    network = bounded.network
    norms = {number: _bounds_of(network, number, prove) for number in network.layers}
    predictions, radii = [], []
    for part in x.split(batch_size):
        said = bounded.predict(part).cpu()
        values = _values(network, norms, part.detach().double().cpu())
        logits, constants = values[network.output], _constants(network, values)
        deployed = _difference(logits.error, constants)
        prediction, radius = margin_radius(logits.at.flatten(1), logits.own, constants, deployed)
        predictions.append(said)
        radii.append(torch.where(said == prediction, radius, 0.0))
    return Certificate(
        prediction=torch.cat(predictions),
        radius=torch.cat(radii),
        norm="l2",
        kind="deterministic",
        method="lipschitz-margin-graph",
        assumptions=ASSUMPTIONS,
        state=ModelState.of(model),
    )


def graph_constant(model: nn.Module, input_shape: tuple[int, ...], *, prove: bool = True) -> float:
    """An upper bound of the L2 Lipschitz constant of ``model`` on inputs of ``input_shape``, for real numbers.

    Args:
        model: a network as :func:`certify` takes.
        input_shape: the shape of one input.
        prove: False takes looser norms of convolutions that cost less.
    """
    network = Bounded(model, input_shape).network
    norms = {number: _bounds_of(network, number, prove) for number in network.layers}
    return _values(network, norms, torch.zeros(1, *input_shape, dtype=torch.float64))[network.output].grown


def _values(network: Network, norms: dict[int, LayerBound], x: Tensor) -> dict[int, _Value]:
    values = {0: _Value(x, torch.zeros(len(x), dtype=torch.float64), 1.0, Float32Error.none(x))}
    for number, layer in network.layers.items():
        before = [values[source] for source in layer.inputs]
        values[number] = _joined(layer, *before) if isinstance(layer, Sum) else _after(layer, norms[number], before[0])
    return values


def _after(layer: Layer, bound: LayerBound, before: _Value) -> _Value:
    """A value behind one layer."""
    at = before.at
    size = length(at, "l2") * UP
    if isinstance(layer, Affine):
        bias = 0.0 if layer.bias is None else layer.bias.double()
        size = length((layer.linear.absolute(at.abs()) + layer.magnitude).flatten(1), "l2") * UP
        at = layer.linear.apply(at) + bias
    elif isinstance(layer, Relu):
        at = F.leaky_relu(at, layer.slope)
    else:
        assert isinstance(layer, MaxPool)
        at = layer.interval(at, at)[0]
    size = size + bound.absolute * before.own  # the exact value may be that much larger
    own = before.own * bound.value + rounding(bound.terms) * size
    error = before.error.after(bound, size, before.grown)
    return _Value(at, own * (1 + 8 * UNIT), before.grown * bound.value * UP, error)


def _joined(layer: Sum, first: _Value, second: _Value) -> _Value:
    """The sum, or difference, of two values."""
    size = (length(first.at, "l2") + length(second.at, "l2") + first.own + second.own) * UP
    grown = (first.grown + second.grown) * UP
    most = torch.minimum(first.error.most, second.error.most)
    both = Float32Error(first.error.fixed + second.error.fixed, first.error.slope + second.error.slope, most)
    error = both.after(LayerBound(1.0, absolute=1.0, terms=2), size, grown)
    own = (first.own + second.own + rounding(2) * size) * (1 + 8 * UNIT)
    return _Value(first.at + layer.sign * second.at, own, grown, error)


def _bounds_of(network: Network, number: int, prove: bool) -> LayerBound:
    """Norm, norm of absolute values and length of sums of one layer."""
    layer = network.layers[number]
    if isinstance(layer, Sum):
        return LayerBound(1.0)
    if isinstance(layer, Relu):
        return LayerBound(1.0) if layer.slope == 0 else LayerBound(1.0, absolute=1.0, terms=1)
    before = network.shapes[layer.inputs[0]]
    if isinstance(layer, MaxPool):
        members = layer.members(*before[1:])
        repeats = int(members[members >= 0].flatten().bincount().max())
        return LayerBound(nextafter(sqrt(repeats), inf) if repeats > 1 else 1.0)
    if not isinstance(layer, Affine):
        raise InputError(f"{layer.layer} ({type(layer).__name__}) has no Lipschitz constant here.")
    value, absolute = linear_norms(layer.linear, before, network.shapes[number], prove)
    terms = layer.linear.terms + (0 if layer.bias is None else 1)
    return LayerBound(value * UP, absolute=absolute * UP, terms=terms + 2 if terms else 0)


def _constants(network: Network, values: dict[int, _Value]) -> Tensor:
    """How fast logit i minus logit j can move: by the rows of a last matrix where there is one."""
    last = network.layers[network.output]
    if isinstance(last, Affine) and isinstance(last.linear, Dense):
        return pair_norms(last.linear.weight) * (values[last.inputs[0]].grown * UP)
    steepest = sqrt(2.0) * values[network.output].grown * UP
    return torch.full((network.classes, network.classes), steepest, dtype=torch.float64)


def _difference(error: Float32Error, constants: Tensor) -> DifferenceError:
    """What float32 changes of two logits together, from the L2 error of all."""
    pairs = torch.ones_like(constants)
    return DifferenceError(2 * error.fixed[:, None, None] * pairs, 2 * error.slope * pairs, error.most)
