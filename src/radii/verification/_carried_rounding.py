"""Rounding carried back to the answers: by how much float32 may move rows of the outputs along a traced line.

Let e_l be what operation l rounds. The network as it runs differs from the traced one by the sum of J_l e_l over all
operations, where J_l is a product of matrices and of secant slopes: a ReLU between two values a and b has the slope
(relu(a) - relu(b)) / (a - b), exactly 0 or 1 unless the value may have both signs, and in [0, 1] then. A row of J_l is
carried as a center and a radius. Signs cancel in the center, so the sum is far below what |W| |W| … |e| gives.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.linear_maps import Convolution, Dense, LinearMap, Scale, TransposedConvolution
from radii.networks.operations.operation import Operation
from radii.networks.operations.pooling import MaxPool
from radii.networks.program import Program
from radii.verification._linear_pieces import Passage, Pieces, secant_slopes

OWN = 2.0**-36  # rounding of the rows, relative to |W| |row|, for up to 2^16 summands
UP = 1 + 2.0**-20
Row = tuple[Tensor, Tensor]  # center and radius [rows, d]


def carried_rounding(program: Program, pieces: Pieces, rows: Tensor) -> Tensor:
    """A bound of |rows . (outputs as float32 computes them - traced outputs)| on the whole line: [rows].

    Args:
        pieces: of ``program``, with their trail.
        rows: coefficients of the outputs [rows, outputs] in float64.
    """
    pending: dict[int, Row] = {program.output: (rows, torch.zeros_like(rows))}
    total = torch.zeros(len(rows), dtype=torch.float64)
    for number in sorted(pieces.trail, reverse=True):
        if number not in pending:
            continue
        center, radius = pending.pop(number)
        total = total + (center.abs() + radius) @ pieces.trail[number].error
        if number:
            step = program.steps[number]
            for source, row in zip(step.inputs, _back(step, center, radius, pieces.trail), strict=True):
                old = pending.get(source)
                pending[source] = row if old is None else (old[0] + row[0], old[1] + row[1])
    return total * UP


def _back(step: Operation, center: Tensor, radius: Tensor, trail: dict[int, Passage]) -> list[Row]:
    """The rows behind ``step``, for each of its inputs."""
    if isinstance(step, Sum):
        return [(center, radius), (center * step.sign, radius)]
    if isinstance(step, Join):
        return list(zip(step.split(center), step.split(radius), strict=True))
    if isinstance(step, Linear):
        spread = radius + OWN * center.abs()
        return [(step.transpose(center), _absolute(step.linear, spread.unflatten(1, step.shape)).flatten(1))]
    if isinstance(step, MaxPool):
        return [_through_pool(step, center, radius, trail[step.inputs[0]])]
    source = trail[step.inputs[0]]
    low, high = secant_slopes(step, source.lower, source.upper)
    middle, half = (low + high) / 2, (high - low) / 2
    return [(center * middle, radius * high + center.abs() * half)]


def _absolute(linear: LinearMap, rows: Tensor) -> Tensor:
    """|W|^T rows."""
    if isinstance(linear, Dense | Convolution):
        return replace(linear, weight=linear.weight.abs()).transpose(rows)
    if isinstance(linear, Scale):
        return rows * linear.factor.abs()
    if isinstance(linear, TransposedConvolution):
        return linear.forward.absolute(rows)
    return linear.transpose(rows)  # its weights are not negative


def _through_pool(step: MaxPool, center: Tensor, radius: Tensor, at: Passage) -> Row:
    """Behind a max pooling: to the member that is surely the largest; else a share in [0, 1] to every member."""
    lower, upper = (end.view(1, step.shape[0], -1) for end in (at.lower, at.upper))
    members = step.members
    inside = members >= 0
    floors = lower[..., members.clamp_min(0)].masked_fill(~inside, -torch.inf)[0]  # [channels, windows, kernel]
    tops = upper[..., members.clamp_min(0)].masked_fill(~inside, -torch.inf)[0]
    most, place = floors.max(2)
    rivals = tops.scatter(2, place[..., None], -torch.inf).amax(2)
    sure = (most > rivals)[..., None]
    winner = torch.zeros_like(tops).scatter(2, place[..., None], 1.0)
    possible = ((tops >= most[..., None]) & inside).to(tops.dtype)
    middle = torch.where(sure, winner, possible / 2)
    half = torch.where(sure, torch.zeros_like(winner), possible / 2)
    shape = (len(center), step.shape[0], members.shape[0], 1)
    c, r = center.view(shape), radius.view(shape)
    pixels = step.shape[1] * step.shape[2]
    index = members.clamp_min(0).flatten().expand(len(center), step.shape[0], -1)
    both = []
    for values in (c * middle, r * (middle + half) + c.abs() * half):
        back = values.new_zeros(len(center), step.shape[0], pixels)
        both.append(back.scatter_add(2, index, values.flatten(2)).flatten(1))
    return both[0], both[1]
