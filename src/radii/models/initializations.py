"""The weights that a training starts from, chosen by name instead of the network's own."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from radii.errors import InputError
from radii.models.layers.manifold import OrthogonalParameter
from radii.randomness import stream

Initialization = Literal["own", "orthogonal", "identity", "kaiming"]


def start_from(model: nn.Module, name: Initialization, seed: int) -> None:
    """Fill every matrix and kernel of ``model`` anew; biases and normalization layers keep their start.

    ``orthogonal``: orthonormal rows or columns of the matrix [out, in · h · w].
    ``identity``: ones where output and input channel and the kernel's center meet, for
    layers whose outputs are their inputs at first. ``kaiming``: uniform with
    standard deviation sqrt(2 / fan-in), He et al. 2015.

    Args:
        model: changed in place.
        name: one of these, or ``own``, which changes nothing.
        seed: the seed of the random starts.

    Raises:
        InputError: ``kaiming`` for a network whose matrices must stay orthogonal.
    """
    if name == "own":
        return
    for path, layer in model.named_modules():
        weight = layer._parameters.get("weight")
        if weight is None or weight.dim() not in (2, 4):
            continue
        if name == "kaiming" and isinstance(weight, OrthogonalParameter):
            raise InputError(f"The matrix of {path} must stay orthogonal: use init=orthogonal, identity or own.")
        with torch.no_grad():
            _fill(weight, name, stream(seed, "start", path))


def _fill(weight: torch.Tensor, name: Initialization, generator: torch.Generator) -> None:
    if name == "identity":
        nn.init.eye_(weight) if weight.dim() == 2 else nn.init.dirac_(weight)
    elif name == "orthogonal":
        weight.copy_(nn.init.orthogonal_(torch.empty(weight.shape), generator=generator))
    else:
        weight.copy_(nn.init.kaiming_uniform_(torch.empty(weight.shape), generator=generator))
