"""The network that a certificate is about, compared with the model that it was read from."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from radii.certificates.certificate import Certificate
from radii.errors import InputError
from radii.models.equality_check import check_same, probes
from radii.models.heads import Headed
from radii.networks.calling import ask, frozen, predicted_class
from radii.networks.frozen import Frozen

BATCHES = (256, 7, 1)  # sizes in which the certified inputs are asked; small ones of the first inputs only
ASSUMED = (
    "your model computes what was read of it (certificate.network): compared on these inputs, on random ones, and in "
    "batches of several sizes"
)


@torch.no_grad()
def about(certificate: Certificate, network: Frozen, model: nn.Module, x: Tensor) -> Certificate:
    """``certificate`` as one of ``network``, which was read of ``model``; a difference between them is refused.

    Where a class is proved for an input of ``x``, both return it, in batches of several sizes. The answers agree to
    rounding on random inputs.
    """
    if isinstance(model.net if isinstance(model, Headed) else model, Frozen):  # radii's own: nothing is assumed of it
        return replace(certificate, network=network)
    logits = model.net if isinstance(model, Headed) else model
    with frozen(model):
        for random in probes(network.input_shape, x[:1].to(network.program.dtype)):
            check_same(ask(logits, random).reshape(len(random), -1), (network.logits(random),) * 2)
        proved = torch.where(certificate.radius > 0, certificate.prediction, -1).cpu()
        for size in BATCHES:
            for part in torch.arange(len(x) if size == BATCHES[0] else min(len(x), 4 * size)).split(size):
                _compare(network, model, x[part], proved[part], int(part[0]))
    assumptions = tuple(dict.fromkeys((*certificate.assumptions, ASSUMED)))
    return replace(certificate, network=network, assumptions=assumptions)


def _compare(network: Frozen, model: nn.Module, x: Tensor, proved: Tensor, first: int) -> None:
    read, said = (predicted_class(ask(own, x)).cpu() for own in (network, model))
    for answers, whose in ((said, "your model returns"), (read, "the network that was read of it returns")):
        other = torch.nonzero((answers != proved) & (proved >= 0))[:, 0]
        if len(other):
            row = int(other[0])
            raise InputError(
                f"Class {int(proved[row])} is proved for input {first + row} of what was read of your model, but "
                f"{whose} class {int(answers[row])} for it in a batch of {len(x)}: no certificate holds for your model."
            )
