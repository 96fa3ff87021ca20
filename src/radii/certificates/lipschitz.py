"""Certificates from Lipschitz constants: a logit margin cannot vanish faster than the network moves.

If logit y minus logit c is Lipschitz with L_yc, the prediction y holds within
min_c (s_y - s_c) / L_yc. For a 1-Lipschitz network L_yc <= sqrt(2)
(Prach & Lampert 2025, Eq. 5); with the proven norm of every layer and the
last layer's row differences it is smaller, on the same network.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf, sqrt
from typing import Literal

import torch
from torch import Tensor, nn

from radii import progress
from radii.certificates._model_comparison import about
from radii.certificates.certificate import Arithmetic, Certificate
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.equality_check import check_same
from radii.models.heads import assumed, freeze, provable
from radii.models.layers.plain_layers import BlockedLinear
from radii.models.lipschitz.network_bound import LipschitzBound, certified_network, lipschitz_bound
from radii.models.lipschitz.operators import UNIT, UNIT32, rounding
from radii.models.lipschitz.rounding_error import MOST_TERMS, Float32Error
from radii.networks.calling import ask, frozen, predicted_class, probe
from radii.networks.frozen import Frozen
from radii.networks.model_state import ModelState
from radii.networks.read_torch import example
from radii.threat import length

Form = Literal["pairwise", "sqrt2"]


def certify(
    model: nn.Module,
    x: Tensor,
    bound: LipschitzBound | None = None,
    *,
    form: Form = "pairwise",
    arithmetic: Arithmetic = "float32",
    evaluation_error: float = 0.0,
    batch_size: int = 256,
) -> Certificate:
    """The L2 radius around each row of ``x`` within which the prediction cannot change.

    radius = min_c (s_y - s_c - e) / (L_yc + e'), rounded down. e + e' r bounds what arithmetic can change of
    the difference of two logits within r: the rounding of this float64 evaluation and, for ``float32``, that
    of the deployed network, whose sums may run in any order (:mod:`radii.models.lipschitz.rounding_error`).
    Ties and NaN get radius 0.

    Guarantee: deterministic, for the network with exactly the weights that the model uses in eval mode, as
    float32 computes it, or in exact arithmetic if that is asked for; on inputs of the bounded size.

    Args:
        model: a network whose every layer has a known Lipschitz bound; others are refused by name.
        x: inputs [n, …]; never changed.
        bound: a Lipschitz bound of this model; one of other weights is refused; default: it is computed.
        form: ``pairwise`` uses L_yc = features * |w_y - w_c|; ``sqrt2`` the textbook sqrt(2) * value.
        arithmetic: ``float32`` covers the network as it is deployed; ``exact`` does not, and says so.
        evaluation_error: a further error of each logit, stated by the user for another arithmetic; default 0.
        batch_size: inputs evaluated together; default 256.
    """
    forms = certify_forms(
        model,
        x,
        bound,
        forms=(form,),
        arithmetic=arithmetic,
        evaluation_error=evaluation_error,
        batch_size=batch_size,
    )
    return forms[form]


@torch.no_grad()
def certify_forms(
    model: nn.Module,
    x: Tensor,
    bound: LipschitzBound | None = None,
    *,
    forms: Sequence[Form] = ("pairwise", "sqrt2"),
    arithmetic: Arithmetic = "float32",
    evaluation_error: float = 0.0,
    batch_size: int = 256,
) -> dict[Form, Certificate]:
    """:func:`certify` in several forms at the price of one: the network is evaluated once.

    Args:
        x: inputs [n, …]; never changed.
        bound: a Lipschitz bound of this model; default: it is computed.
        forms: which certificates; default both.
        arithmetic: ``float32`` or ``exact``.
        evaluation_error: a further error of each logit; default 0.
        batch_size: inputs evaluated together; default 256.
    """
    check_inputs(x, box=None)
    for form in forms:
        if form not in ("pairwise", "sqrt2"):
            raise InputError(f"form must be pairwise or sqrt2, got {form!r} instead.")
    if arithmetic not in ("float32", "exact"):
        raise InputError(f"arithmetic must be float32 or exact, got {arithmetic!r} instead.")
    if not evaluation_error >= 0:
        raise InputError(f"evaluation_error must be at least 0, got {evaluation_error} instead.")
    shape = tuple(x.shape[1:])
    bound = bound or lipschitz_bound(model, shape)
    if shape != bound.input_shape:
        raise InputError(f"The Lipschitz bound holds for inputs of shape {bound.input_shape}, got {shape} instead.")
    network = certified_network(model, shape)
    bound.check(network)
    probe(model, x[:1])
    pairwise = bound.features * bound.pairs * (1 + rounding(2))
    textbook = torch.full_like(pairwise, sqrt(2.0) * bound.value * (1 + rounding(4)))
    constants = {form: pairwise if form == "pairwise" else textbook for form in forms}
    scores, least = provable(model)
    predictions: list[Tensor] = []
    radii: dict[Form, list[Tensor]] = {form: [] for form in forms}
    with progress.task("certifying", total=len(x), unit="points") as task, frozen(model):
        for chunk in x.split(batch_size):
            logits, error, deployed = logits_with_error(network, bound, chunk, arithmetic)
            answers = ask(scores, chunk)
            if arithmetic == "float32" and answers.dtype not in (torch.float32, torch.float64):
                raise InputError(f"Margins exist for float32 and float64 models, got {answers.dtype}: model.float().")
            check_same(answers.double().cpu(), (logits, logits))
            said = (answers if scores is model else ask(model, chunk)).double().cpu()
            own = predicted_class(said) if arithmetic == "float32" else None
            for form in forms:
                prediction, radius = margin_radius(logits, error + evaluation_error, constants[form], deployed, least)
                if own is not None:
                    prediction, radius = own, torch.where(own == prediction, radius, 0.0)
                radii[form].append(radius)
            predictions.append(prediction)
            task.advance(len(chunk))
    certificates = {
        form: Certificate(
            prediction=torch.cat(predictions),
            radius=torch.cat(radii[form]),
            norm="l2",
            kind="deterministic",
            method=f"lipschitz-margin-{form}" + ("" if arithmetic == "float32" else ", exact arithmetic"),
            assumptions=(*_assumptions(bound, arithmetic, evaluation_error), *assumed(model)),
            arithmetic=arithmetic,
            state=ModelState.of(model),
            exact_logits=network if arithmetic == "exact" else None,
        )
        for form in forms
    }
    if arithmetic != "float32":
        return certificates
    held = _read(model, network, shape)
    return {form: about(certificate, held, model, x) for form, certificate in certificates.items()}


def _read(model: nn.Module, folded: nn.Module, shape: tuple[int, ...]) -> Frozen:
    """The network that a margin is about: as the model runs or, where that cannot be followed, by its plain layers."""
    try:
        return freeze(model, shape)
    except InputError:
        return freeze(deepcopy(folded).to(example(model).dtype), shape)


@dataclass(frozen=True)
class DifferenceError:
    """What float32 can change of logit i minus logit j within r of an input: fixed[n, i, j] + slope[i, j] r."""

    fixed: Tensor  # [n, classes, classes]
    slope: Tensor  # [classes, classes]
    most: Tensor  # [n] r at most, so that no sum exceeds float32

    @classmethod
    def of(
        cls, head: nn.Module, bound: LipschitzBound, features: Tensor, before: Float32Error, behind: Float32Error
    ) -> DifferenceError:
        """From the error before and behind the last layer. The rows of a linear one are treated one by one.

        Args:
            features: the inputs of the last layer, [n, …].
        """
        if type(head) not in (nn.Linear, BlockedLinear):
            pairs = torch.ones_like(bound.pairs)
            return cls(2 * behind.fixed[:, None, None] * pairs, 2 * behind.slope * pairs, behind.most)
        assert isinstance(head, nn.Linear)
        layer = bound.layers[-1]
        unit = 1.01 * layer.terms * UNIT32 if layer.terms <= MOST_TERMS else inf
        norms = head.weight.norm(dim=1) * (1 + 1e-9)
        bias = 0.0 if head.bias is None else head.bias.abs()
        own = unit * (features.abs() @ head.weight.abs().T + bias + norms * before.fixed[:, None]) + 1e-30  # [n, k]
        rate = unit * norms * (bound.features + before.slope)
        fixed = own[:, :, None] + own[:, None, :] + bound.pairs * before.fixed[:, None, None]
        slope = rate[:, None] + rate[None, :] + bound.pairs * before.slope
        return cls(fixed * (1 + 1e-9), slope * (1 + 1e-9), behind.most)


def logits_with_error(
    network: nn.Sequential, bound: LipschitzBound, x: Tensor, arithmetic: Arithmetic = "exact"
) -> tuple[Tensor, Tensor, DifferenceError | None]:
    """Float64 logits [n, classes] of ``network`` at ``x``, a bound of their L2 error [n], and what float32 can change.

    Each layer multiplies the error of its input by its Lipschitz constant and adds its own: the rounding of its
    sums for the size of its input.

    Args:
        network: the folded float64 network of ``bound``.
        x: inputs [n, …].
        arithmetic: ``float32`` follows the error of the deployed network beside; ``exact`` returns None for it.
    """
    value = x.detach().double().cpu()
    error = torch.zeros(len(value), dtype=torch.float64)
    single, grown, last = Float32Error.none(value), 1.0, (value, Float32Error.none(value))
    for module, layer in zip(network, bound.layers, strict=True):
        if layer.terms:
            size = length(value, "l2") * (1 + rounding(value[0].numel()))
            error = error * layer.value + rounding(layer.terms) * (layer.absolute * size + layer.offset)
        else:
            error = error * layer.value
        error = error * (1 + 8 * UNIT)
        if arithmetic == "float32":
            last = value, single
            single, grown = single.through(module, layer, value, grown)
        value = module(value)
    deployed = DifferenceError.of(network[-1], bound, *last, single) if arithmetic == "float32" else None
    return value, error, deployed


def margin_radius(
    logits: Tensor, error: Tensor, constants: Tensor, deployed: DifferenceError | None = None, least: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Predictions [n] and radii [n].

    Args:
        logits: logits [n, k].
        error: error of each row's logits [n].
        constants: L_yc [k, k].
        deployed: what float32 can change of differences; None for exact arithmetic.
        least: by how much a logit must exceed the others to be the prediction.
    """
    known = ~logits.isnan().any(1)
    prediction = torch.where(known, logits.argmax(1), -1)
    own = prediction.clamp_min(0)
    gap = logits.gather(1, own[:, None]) - logits - least
    # Two roundings: the difference and the subtraction of the errors.
    gap = gap - 2 * error[:, None] - 4 * UNIT * (gap.abs() + error[:, None])
    steepness = constants[own]
    if deployed is not None:
        gap = gap - deployed.fixed[torch.arange(len(own)), own] * (1 + 4 * UNIT)
        steepness = (steepness + deployed.slope[own]) * (1 + 4 * UNIT)
    ratio = gap / steepness.clamp_min(torch.finfo(torch.float64).tiny) * (1 - 8 * UNIT)
    ratio.scatter_(1, own[:, None], torch.inf)
    radius = ratio.amin(1).clamp_min(0.0)
    if deployed is not None:
        radius = torch.minimum(radius, deployed.most)
    return prediction, torch.where(known & radius.isfinite(), radius, 0.0)


def _assumptions(bound: LipschitzBound, arithmetic: Arithmetic, evaluation_error: float) -> tuple[str, ...]:
    spoken = (
        "float32 network, each layer's sums in any order (no TF32, bfloat16, Winograd or FFT convolutions)"
        if arithmetic == "float32"
        else "exact arithmetic: logits are those of the stored weights without rounding; float32 may differ"
    )
    stated = (f"deployed logits are within {evaluation_error:g} of that",) if evaluation_error else ()
    return (
        f"inputs of shape {'x'.join(map(str, bound.input_shape))}; radii are L2 distances in input units",
        f"weights with digest {bound.digest[:16]}, folded as in eval mode",
        spoken,
        *stated,
        "float64 matrix products obey the standard rounding bounds",
    )
