"""What a proof by bounds costs, in forward passes of the network: counted, so that no clock decides a result."""

from __future__ import annotations

import torch
from torch import Tensor

from radii.certificates.bounds.bounded import Bounded, region_of
from radii.certificates.bounds.lower_margins import Method
from radii.certificates.bounds.network import Network
from radii.certificates.bounds.propagation import Region, forward
from radii.certificates.bounds.relaxations import Affine, Relu, Sum
from radii.threat import Ball

ASCENT = 20  # steps of alpha-CROWN
BATCH = 256


@torch.no_grad()
def passes_needed(bounded: Bounded, x: Tensor, ball: Ball, method: Method) -> Tensor:
    """About how many forward passes the proof of each point costs by ``method``: [n].

    A row of coefficients carried back costs about one pass; CROWN carries two for every coordinate that a
    layer which is not linear reads, beyond the first, and whose sign intervals leave open: few in networks that were
    trained for narrow intervals. A step of alpha-CROWN carries each of these rows, and those
    of the margins twice, back and forth again. SDP-CROWN does the same work beside CROWN's, and searches one parameter
    for each row and layer, in about three times the time.

    Args:
        bounded: the network.
        x: inputs [n, …].
        ball: norm, radius and box; Linf intervals are cheap, in float32.
        method: one of the methods of bounds.
    """
    classes = bounded.network.classes
    if method in ("ibp", "crown-ibp"):
        cheap = 8 + 2 * classes if method == "crown-ibp" else 4 if ball.norm == "linf" else 8
        return torch.full((len(x),), cheap)
    hidden = 2 * torch.cat([_open(bounded.network, region_of(part, ball, bounded.dtype)) for part in x.split(BATCH)])
    crown = 8 + 2 * classes + hidden
    ascent = 3 * ASCENT * (2 * classes + hidden)
    return {"alpha-crown": crown + ascent, "sdp-crown": 4 * crown + 3 * ascent}.get(method, crown)


def _open(network: Network, region: Region) -> Tensor:
    """How many coordinates CROWN tightens in each region: read by a layer that is not linear, behind another such."""
    behind: dict[int, bool] = {0: False}
    readers, known = network.readers(), forward(network, region)
    total = torch.zeros(len(region.lower), dtype=torch.int64)
    for number, layer in network.layers.items():
        linear = isinstance(layer, Affine | Sum)
        behind[number] = not linear or any(behind[source] for source in layer.inputs)
        bent = [reader for reader in readers[number] if not isinstance(reader, Affine | Sum)]
        if linear and behind[number] and bent:
            low, high = known[number].lower.flatten(1), known[number].upper.flatten(1)
            only_relu = all(isinstance(reader, Relu) for reader in bent)
            total += ((low < 0) & (high > 0) if only_relu else ~(high <= low)).sum(1).cpu()
    return total
