"""Proved spectral norms of linear maps and of their absolute values."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import torch

from radii.models.lipschitz.layer_bounds import norm_bound
from radii.models.lipschitz.operators import convolution_operators, matrix_operator
from radii.networks.operations.linear_maps import (
    Average,
    Convolution,
    Dense,
    LinearMap,
    Move,
    Scale,
    TransposedConvolution,
)

UP = 1 + 1e-9  # covers the float64 rounding of these bounds themselves


def linear_norms(
    linear: LinearMap, before: tuple[int, ...], after: tuple[int, ...], prove: bool
) -> tuple[float, float]:
    """Upper bounds of the L2 norms of W and of |W|.

    Args:
        before: the shape of one input, without the batch.
    """
    if isinstance(linear, Scale):
        largest = float(linear.factor.abs().max())
        return largest, largest
    if isinstance(linear, Dense):
        operator = matrix_operator(linear.weight)
        return norm_bound([operator], prove)[0], operator.absolute
    if isinstance(linear, Convolution) and linear.weight.dim() == 4:
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
    if isinstance(linear, Move | Average):  # nonnegative: its transpose is that of |W|
        columns = linear.transpose(torch.ones(1, *after, dtype=torch.float64))
    else:
        columns = torch.autograd.functional.vjp(
            linear.absolute, torch.zeros(1, *before, dtype=torch.float64), torch.ones_like(rows)
        )[1]
    return sqrt(float(rows.max()) * float(columns.max())) * UP


def in_float64(linear: LinearMap) -> LinearMap:
    """The same map with its weights in float64."""
    if isinstance(linear, Dense | Convolution):
        return replace(linear, weight=linear.weight.double())
    if isinstance(linear, TransposedConvolution):
        return replace(linear, forward=replace(linear.forward, weight=linear.forward.weight.double()))
    return replace(linear, factor=linear.factor.double()) if isinstance(linear, Scale) else linear
