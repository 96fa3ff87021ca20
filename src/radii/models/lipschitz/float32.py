"""What float32 arithmetic can add to a network's logits, for every input of a box at once."""

from __future__ import annotations

from math import inf, prod, sqrt

import torch
from torch import nn

from radii.models.lipschitz.network_bound import LipschitzBound
from radii.models.lipschitz.operators import UNIT32
from radii.threat import Box


@torch.no_grad()
def float32_error(network: nn.Sequential, bound: LipschitzBound, box: Box = (0.0, 1.0)) -> float:
    """A bound on the L2 error of logits that float32 computes from any input in ``box``.

    ``network`` is the folded float64 network of ``bound``. A float32 sum of n
    products is off by at most 1.01 n 2^-24 times the sum of their sizes, in any
    order (n < 160,000); each layer passes on the error it received times its
    Lipschitz constant and adds its own for the largest input it can get,
    |h(x)| <= |h(c)| + L |x - c| with c the middle of the box. Algorithms that rearrange
    products, such as Winograd's, are not covered.
    """
    low, high = box
    value = torch.full((1, *bound.input_shape), (low + high) / 2, dtype=torch.float64)
    reach = (high - low) / 2 * sqrt(prod(bound.input_shape)) * (1 + 1e-9)
    error = 0.0
    for module, layer in zip(network, bound.layers, strict=True):
        if layer.terms > 160_000:
            return inf
        largest = (float(value.norm()) + reach) * (1 + 1e-9) + error
        error = layer.value * error + 1.01 * layer.terms * UNIT32 * (layer.absolute * largest + layer.offset)
        value, reach = module(value), reach * layer.value
    return error * (1 + 1e-9) + 1e-30  # results below the smallest normal number
