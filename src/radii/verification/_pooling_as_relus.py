"""Max pooling as ReLUs, so that branch and bound can split it: max(a, b) = a + relu(b - a), in rounds of pairs.

The identity is exact for real numbers, and pooling itself rounds nothing, so bounds
of the rewritten network hold for the pooled one.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from radii.networks.operations.linear import Linear
from radii.networks.operations.linear_maps import Move
from radii.networks.operations.pooling import MaxPool
from radii.networks.program import Builder, Program
from radii.networks.read_torch import larger


def without_pools(program: Program) -> Program:
    """The same network with every max pooling whose windows lie inside its image written with ReLUs."""
    builder, moved = Builder(program.input_shape), {0: 0}
    for number, step in program.steps.items():
        own = replace(step, inputs=tuple(moved[source] for source in step.inputs))
        if isinstance(own, MaxPool) and bool((own.members >= 0).all()):
            moved[number] = _add_rounds(builder, own)
        else:
            moved[number] = builder.add(own)
    return builder.finish(moved[program.output], program.dtype)


def _add_rounds(builder: Builder, pool: MaxPool) -> int:
    """One copy of the image for each member of a window, then the larger of pairs."""
    channels = pool.shape[1] * pool.shape[2] * torch.arange(pool.shape[0])[:, None]
    values = [
        builder.add(
            Linear(
                pool.origin,
                pool.inputs,
                Move((channels + members).flatten(), pool.shape, pool.out_shape),
                pool.shape,
                pool.out_shape,
            )
        )
        for members in pool.members.T
    ]
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = [values[-1]] if len(values) % 2 else []
        values = [larger(builder, pool.origin, first, second, pool.out_shape) for first, second in pairs] + rest
    return values[0]
