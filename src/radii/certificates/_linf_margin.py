"""Certificates of networks that are 1-Lipschitz in Linf: half the margin, minus rounding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from radii.certificates.certificate import Certificate
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.zoo.linf_distance import LinfDistanceNetwork
from radii.networks.calling import frozen, predicted_class
from radii.networks.model_state import ModelState

UNIT32 = 2.0**-24
SLACK = 1.01  # covers products of roundings, and the float64 rounding of this computation
TINY = 1e-30  # more than float32 loses by underflow
LARGEST = 3.4e38  # below the largest float32


@torch.no_grad()
def certify(model: nn.Module, x: Tensor, batch_size: int = 256) -> Certificate:
    """The Linf radius around each row of ``x`` within which the prediction cannot change.

    A layer computes |x - w_j|_inf - m_j. In float32 each difference has a relative error of at most
    u = 2^-24, the maximum has none, and subtracting m_j adds u |d_j - m_j|. Layers are 1-Lipschitz, so these errors
    add up: E(x) = sum over layers of u (max_j d_j + max_j |d_j - m_j|) for each logit. Within r of x, distances
    grow by r at most in every layer, so E grows by 2 u r a layer. With the margin m of the float32 logits at x the
    prediction holds while m > 2 r + 2 E(x) + 2 (E(x) + 2 u L r): r = (m - 4 E) / (2 (1 + 2 u L)), L layers.

    Guarantee: deterministic, for the network in eval mode as float32 computes it.

    Args:
        model: a :class:`~radii.models.zoo.linf_distance.LinfDistanceNetwork`.
        x: inputs [n, …] in float32; never changed.
    """
    check_inputs(x, box=None)
    if type(model) is not LinfDistanceNetwork:
        raise InputError(f"Linf margins need a LinfDistanceNetwork, got {type(model).__name__} instead.")
    if x.dtype != torch.float32 or any(value.dtype != torch.float32 for value in model.state_dict().values()):
        raise InputError("Linf margins cover float32 networks and inputs.")
    predictions, radii = [], []
    with frozen(model):
        for chunk in x.split(batch_size):
            prediction, radius = _radii(model, chunk)
            predictions.append(prediction)
            radii.append(radius)
    return Certificate(
        prediction=torch.cat(predictions),
        radius=torch.cat(radii),
        norm="linf",
        kind="deterministic",
        method="linf-margin",
        assumptions=("float32 network, every operation rounded to nearest",),
        state=ModelState.of(model),
    )


def _radii(model: LinfDistanceNetwork, x: Tensor) -> tuple[Tensor, Tensor]:
    value, error, layers = x.flatten(1), torch.zeros(len(x), dtype=torch.float64), list(model.layers())
    most = torch.full_like(error, LARGEST)  # no value grows faster than the input moves
    for layer in layers:
        distances = layer.distances(value)
        value = layer(value)
        size = (distances.abs().amax(1).double() + value.abs().amax(1).double()).cpu()
        error += UNIT32 * size + TINY
        most = torch.minimum(most, LARGEST - size)
    logits = model(x)
    prediction, sorted_logits = predicted_class(logits).cpu(), logits.double().cpu().sort(1, descending=True).values
    margin = sorted_logits[:, 0] - sorted_logits[:, 1] - 4 * SLACK * error
    radius = torch.minimum(margin / (2 * (1 + 2 * SLACK * UNIT32 * len(layers))) * (1 - 1e-12), most / 2)
    proved = (radius > 0) & (prediction >= 0)  # NaN proves nothing
    return prediction, torch.where(proved, radius, torch.zeros_like(radius))
