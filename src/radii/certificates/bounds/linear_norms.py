"""Proved spectral norms of linear maps and of their absolute values."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import torch

from radii.certificates.bounds.linear_maps import (
    Convolution,
    Dense,
    Gather,
    LinearMap,
    Scale,
    TransposedConvolution,
)
from radii.models.lipschitz.layer_bounds import norm_bound
from radii.models.lipschitz.operators import convolution_operators, matrix_operator

UP = 1 + 1e-9  # covers the float64 rounding of these bounds themselves


def linear_norms(
    linear: LinearMap, before: tuple[int, ...], after: tuple[int, ...], prove: bool
) -> tuple[float, float]:
    """Upper bounds of the L2 norms of W and of |W|.

    Args:
        linear: the map W.
        before: the shape of one input, without the batch.
        after: the shape of one output.
        prove: False takes looser norms of convolutions that cost less.
    """
    if isinstance(linear, Scale):
        largest = float(linear.factor.abs().max())
        return largest, largest
    if isinstance(linear, Dense):
        operator = matrix_operator(linear.weight)
        return norm_bound([operator], prove)[0], operator.absolute
    if isinstance(linear, Convolution):
        around = [(pad, pad) for pad in linear.padding]
        operators = convolution_operators(
            linear.weight,
            (before[1], before[2]),
            (linear.stride[0], linear.stride[1]),
            (around[0], around[1]),
            (linear.dilation[0], linear.dilation[1]),
            linear.groups,
        )
        return norm_bound(operators, prove)[0], max(operator.absolute for operator in operators)
    schur = _schur(linear, before, after)
    return schur, schur


def _schur(linear: LinearMap, before: tuple[int, ...], after: tuple[int, ...]) -> float:
    """|W| <= sqrt of its largest row sum times its largest column sum (Schur's test), for W and |W|."""
    rows = linear.absolute(torch.ones(1, *before, dtype=torch.float64))
    if isinstance(linear, Gather):  # nonnegative: its transpose is that of |W|
        columns = linear.transpose(torch.ones(1, *after, dtype=torch.float64))
    else:
        columns = torch.autograd.functional.vjp(
            linear.absolute, torch.zeros(1, *before, dtype=torch.float64), torch.ones_like(rows)
        )[1]
    return sqrt(float(rows.max()) * float(columns.max())) * UP


def in_float64(linear: LinearMap) -> LinearMap:
    """The same map with its weights in float64.

    Args:
        linear: the map.
    """
    if isinstance(linear, Dense | Convolution):
        return replace(linear, weight=linear.weight.double())
    if isinstance(linear, TransposedConvolution):
        return replace(linear, forward=replace(linear.forward, weight=linear.forward.weight.double()))
    return replace(linear, factor=linear.factor.double()) if isinstance(linear, Scale) else linear
