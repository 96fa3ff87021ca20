"""CROWN as the paper writes it, in float64 and without rounding: an oracle for the fast engine.

It shares the operations with the engine, but no pass through a network: every coordinate of every value that a
nonlinear operation reads is bounded by its own row, for a whole batch, with the differentiable propagation of training.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from radii.networks.program import Program
from radii.training._bound_propagation import Region, intervals, lower_bounds


def crown(program: Program, lower: Tensor, upper: Tensor, rows: Tensor) -> Tensor:
    """Lower bounds [n, s] of rows [n, s, outputs] times the output over boxes [n, d]."""
    region = Region(lower, upper, (lower + upper) / 2)
    ends = intervals(program, region)
    for number in program.pre_activations():
        if number == 0:
            continue
        size = program.sizes[number]
        one = torch.eye(size, dtype=lower.dtype).expand(len(lower), size, size)
        part = replace(program, output=number)
        low, high = lower_bounds(part, ends, region, one), -lower_bounds(part, ends, region, -one)
        ends[number] = torch.maximum(ends[number][0], low), torch.minimum(ends[number][1], high)
    return lower_bounds(program, ends, region, rows)
