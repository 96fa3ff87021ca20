"""Certificates from Lipschitz constants: a logit margin cannot vanish faster than the network moves.

If logit y minus logit c is Lipschitz with L_yc, the prediction y holds within
min_c (s_y - s_c) / L_yc. For a 1-Lipschitz network L_yc <= sqrt(2)
(Prach & Lampert 2025, Eq. 5); with the proven norm of every layer and the
last layer's row differences it is smaller, on the same network.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Literal

import torch
from torch import Tensor, nn

from radii import progress
from radii.certificates.certificate import Certificate
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.lipschitz.layer_bounds import LayerBound
from radii.models.lipschitz.network_bound import LipschitzBound, certified_network, lipschitz_bound
from radii.models.lipschitz.operators import UNIT, rounding
from radii.threat import length

Form = Literal["pairwise", "sqrt2"]


@torch.no_grad()
def certify(
    model: nn.Module,
    x: Tensor,
    bound: LipschitzBound | None = None,
    *,
    form: Form = "pairwise",
    evaluation_error: float = 0.0,
    batch_size: int = 256,
) -> Certificate:
    """The L2 radius around each row of ``x`` within which the prediction cannot change.

    radius = min_c (s_y - s_c - 2e) / L_yc, rounded down, where e bounds the
    error of the logits: the rounding of this float64 evaluation, carried along
    layer by layer, plus ``evaluation_error``, which a user may state for the
    arithmetic the model is deployed with (float32 is typically within 1e-5).
    ``form="pairwise"`` uses L_yc = features * |w_y - w_c|; ``form="sqrt2"``
    the textbook sqrt(2) * value. Ties and NaN get radius 0.

    Guarantee: deterministic, for the network with exactly the weights that the
    model uses in eval mode, evaluated without rounding (or within
    ``evaluation_error``), on inputs of the bounded size. A ``bound`` of other
    weights is refused.
    """
    check_inputs(x, box=None)
    if form not in ("pairwise", "sqrt2"):
        raise InputError(f"form must be pairwise or sqrt2, got {form!r} instead.")
    if not evaluation_error >= 0:
        raise InputError(f"evaluation_error must be at least 0, got {evaluation_error} instead.")
    shape = tuple(x.shape[1:])
    bound = bound or lipschitz_bound(model, shape)
    if shape != bound.input_shape:
        raise InputError(f"The Lipschitz bound holds for inputs of shape {bound.input_shape}, got {shape} instead.")
    network = certified_network(model, shape)
    bound.check(network)
    constants = bound.features * bound.pairs * (1 + rounding(2))
    if form == "sqrt2":
        constants = torch.full_like(constants, sqrt(2.0) * bound.value * (1 + rounding(4)))
    predictions, radii = [], []
    with progress.task("certifying", total=len(x), unit="points") as task:
        for chunk in x.split(batch_size):
            logits, error = logits_with_error(network, bound.layers, chunk)
            prediction, radius = margin_radius(logits, error + evaluation_error, constants)
            predictions.append(prediction)
            radii.append(radius)
            task.advance(len(chunk))
    return Certificate(
        prediction=torch.cat(predictions),
        radius=torch.cat(radii),
        norm="l2",
        kind="deterministic",
        method=f"lipschitz-margin-{form}",
        assumptions=_assumptions(bound, evaluation_error),
    )


def logits_with_error(network: nn.Sequential, layers: Sequence[LayerBound], x: Tensor) -> tuple[Tensor, Tensor]:
    """Float64 logits [n, classes] and, per point, a bound on the L2 distance to the exact logits [n].

    Each layer carries the error it received (times its Lipschitz constant)
    and adds its own: the rounding of its sums for the size of its input.
    """
    value = x.detach().double().cpu()
    error = torch.zeros(len(value), dtype=torch.float64)
    for module, layer in zip(network, layers, strict=True):
        if layer.terms:
            size = length(value, "l2") * (1 + rounding(value[0].numel()))
            error = error * layer.value + rounding(layer.terms) * (layer.absolute * size + layer.offset)
        else:
            error = error * layer.value
        error = error * (1 + 8 * UNIT)
        value = module(value)
    return value, error


def margin_radius(logits: Tensor, error: Tensor, constants: Tensor) -> tuple[Tensor, Tensor]:
    """Predictions [n] and radii [n] from logits [n, k], their errors [n] and L_yc [k, k]."""
    known = ~logits.isnan().any(1)
    prediction = torch.where(known, logits.argmax(1), -1)
    own = prediction.clamp_min(0)
    gap = logits.gather(1, own[:, None]) - logits
    # Two roundings: the difference and the subtraction of the errors.
    gap = gap - 2 * error[:, None] - 4 * UNIT * (gap.abs() + error[:, None])
    ratio = gap / constants[own].clamp_min(torch.finfo(torch.float64).tiny) * (1 - 8 * UNIT)
    ratio.scatter_(1, own[:, None], torch.inf)
    radius = ratio.amin(1).clamp_min(0.0)
    return prediction, torch.where(known & radius.isfinite(), radius, 0.0)


def _assumptions(bound: LipschitzBound, evaluation_error: float) -> tuple[str, ...]:
    arithmetic = (
        "logits are those of the stored weights in exact arithmetic; other arithmetic may differ by its rounding"
        if evaluation_error == 0
        else f"deployed logits are within {evaluation_error:g} of exact arithmetic"
    )
    return (
        f"inputs of shape {'x'.join(map(str, bound.input_shape))}; radii are L2 distances in input units",
        f"weights with digest {bound.digest[:16]}, folded as in eval mode",
        arithmetic,
        "float64 matrix products obey the standard rounding bounds",
    )
