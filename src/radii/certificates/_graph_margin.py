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

from radii.bounds.linear_norms import linear_norms
from radii.bounds.provably_robust import Bounded
from radii.certificates._model_comparison import about
from radii.certificates.certificate import Certificate
from radii.certificates.lipschitz import DifferenceError, margin_radius
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.heads import assumed
from radii.models.lipschitz.layer_bounds import LayerBound
from radii.models.lipschitz.network_bound import pair_norms
from radii.models.lipschitz.operators import UNIT, rounding
from radii.models.lipschitz.rounding_error import Float32Error
from radii.networks.model_state import ModelState
from radii.networks.operations.activations import Relu
from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.linear_maps import Dense
from radii.networks.operations.operation import Operation
from radii.networks.operations.pooling import MaxPool
from radii.networks.program import Program
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
        batch_size: inputs treated together; default 64.
    """
    check_inputs(x, box=None)
    bounded = Bounded(model, tuple(x.shape[1:]))
    program = bounded.exact
    norms = {number: _bounds_of(step, prove) for number, step in program.steps.items()}
    predictions, radii = [], []
    for part in x.split(batch_size):
        said = bounded.predict(part).cpu()
        values = _values(program, norms, part.detach().double().cpu())
        logits, constants = values[program.output], _constants(program, values)
        deployed = _difference(logits.error, constants)
        prediction, radius = margin_radius(logits.at.flatten(1), logits.own, constants, deployed, bounded.margin)
        predictions.append(said)
        radii.append(torch.where(said == prediction, radius, 0.0))
    certificate = Certificate(
        prediction=torch.cat(predictions),
        radius=torch.cat(radii),
        norm="l2",
        kind="deterministic",
        method="lipschitz-margin-graph",
        assumptions=(*ASSUMPTIONS, *assumed(model)),
        state=ModelState.of(model),
    )
    return about(certificate, bounded.network, model, x)


def graph_constant(model: nn.Module, input_shape: tuple[int, ...], *, prove: bool = True) -> float:
    """An upper bound of the L2 Lipschitz constant of ``model`` on inputs of ``input_shape``, for real numbers."""
    program = Bounded(model, input_shape).exact
    norms = {number: _bounds_of(step, prove) for number, step in program.steps.items()}
    return _values(program, norms, torch.zeros(1, *input_shape, dtype=torch.float64))[program.output].grown


def _values(program: Program, norms: dict[int, LayerBound], x: Tensor) -> dict[int, _Value]:
    values = {0: _Value(x.flatten(1), torch.zeros(len(x), dtype=torch.float64), 1.0, Float32Error.none(x))}
    for number, step in program.steps.items():
        before = [values[source] for source in step.inputs]
        if isinstance(step, Sum):
            values[number] = _added(step, *before)
        else:
            values[number] = _side_by_side(before) if isinstance(step, Join) else _after(step, norms[number], before[0])
    return values


def _after(step: Operation, bound: LayerBound, before: _Value) -> _Value:
    """A value behind one operation."""
    at = before.at
    size = length(at, "l2") * UP
    if isinstance(step, Linear):
        size = length(step.absolute(at.abs()) + (0.0 if step.bias_size is None else step.bias_size), "l2") * UP
        at = step.apply(at)
    else:
        assert isinstance(step, Relu | MaxPool)
        at = step.at(at)
    size = size + bound.absolute * before.own  # the exact value may be that much larger
    own = before.own * bound.value + rounding(bound.terms) * size
    error = before.error.after(bound, size, before.grown, length(before.at, "l2") * UP + before.own)
    return _Value(at, own * (1 + 8 * UNIT), before.grown * bound.value * UP, error)


def _added(step: Sum, first: _Value, second: _Value) -> _Value:
    """The sum, or difference, of two values."""
    size = (length(first.at, "l2") + length(second.at, "l2") + first.own + second.own) * UP
    grown = (first.grown + second.grown) * UP
    error = _both(first, second).after(LayerBound(1.0, absolute=1.0, terms=2), size, grown, size)
    own = (first.own + second.own + rounding(2) * size) * (1 + 8 * UNIT)
    return _Value(first.at + step.sign * second.at, own, grown, error)


def _side_by_side(parts: list[_Value]) -> _Value:
    """Values one behind the other, which rounds nothing; the sum of their movements bounds its length."""
    whole = parts[0]
    for part in parts[1:]:
        at = torch.cat([whole.at, part.at], 1)
        whole = _Value(at, (whole.own + part.own) * UP, (whole.grown + part.grown) * UP, _both(whole, part))
    return whole


def _both(first: _Value, second: _Value) -> Float32Error:
    most = torch.minimum(first.error.most, second.error.most)
    return Float32Error(first.error.fixed + second.error.fixed, first.error.slope + second.error.slope, most)


def _bounds_of(step: Operation, prove: bool) -> LayerBound:
    """Norm, norm of absolute values and length of sums of one operation."""
    if isinstance(step, Sum | Join):
        return LayerBound(1.0)
    if isinstance(step, Relu):
        return LayerBound(1.0)  # a leaky one rounds in the step behind it
    if isinstance(step, MaxPool):
        return LayerBound(nextafter(sqrt(step.repeats), inf) if step.repeats > 1 else 1.0)
    if not isinstance(step, Linear):
        raise InputError(f"{step.origin} ({type(step).__name__}) has no Lipschitz constant here.")
    value, absolute = linear_norms(step.linear, step.in_shape, step.out_shape, prove)
    terms = step.terms + (0 if step.bias is None else 1)
    peak = (0.0, 0.0) if step.peak is None else (_largest(step.peak.factor), _largest(step.peak.offset))
    return LayerBound(value * UP, "exact", absolute * UP, 0.0, terms + 2 if terms else 0, *peak)


def _largest(value: Tensor | float) -> float:
    return float(value.max()) if isinstance(value, Tensor) else value


def _constants(program: Program, values: dict[int, _Value]) -> Tensor:
    """How fast logit i minus logit j can move: by the rows of a last matrix where there is one."""
    last = program.steps.get(program.output)
    if isinstance(last, Linear) and isinstance(last.linear, Dense) and len(last.in_shape) == 1:
        return pair_norms(last.linear.weight) * (values[last.inputs[0]].grown * UP)
    steepest = sqrt(2.0) * values[program.output].grown * UP
    return torch.full((program.outputs, program.outputs), steepest, dtype=torch.float64)


def _difference(error: Float32Error, constants: Tensor) -> DifferenceError:
    """What float32 changes of two logits together, from the L2 error of all."""
    pairs = torch.ones_like(constants)
    return DifferenceError(2 * error.fixed[:, None, None] * pairs, 2 * error.slope * pairs, error.most)
