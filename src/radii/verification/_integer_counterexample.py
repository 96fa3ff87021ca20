"""A search for an input that meets a case by mixed integer programming (HiGHS), for small ReLU networks.

Every ReLU y = max(z, 0) whose sign is open becomes y >= 0, y >= z, y <= u a, y <= z - l (1 - a) with a
binary a and bounds l <= z <= u (Tjeng et al. 2019). The solver's answer is only a candidate: what it finds
is run by the network, and what it does not find proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor

from radii.bounds.bound_engine import Engine
from radii.bounds.regions import ValueBounds
from radii.networks.operations.linear import Join, Linear, Sum
from radii.verification._counterexample_search import first_meeting
from radii.verification._goal import Goal, Runnable

MOST_VALUES = 2000  # of a network that becomes a program
NEAR = 1e-4  # of the box: a coordinate so near an end is moved there

Floats = NDArray[np.float64]


def integer_search(
    engine: Engine, known: ValueBounds, goal: Goal, network: Runnable, cases: Sequence[int], seconds: float
) -> Tensor | None:
    """An input [inputs] of the box that meets a case in float32, or None.

    Args:
        network: the float32 network.
    """
    many = sum(engine.program.sizes.values()) > MOST_VALUES
    if goal.radius is not None or many or engine.nonlinear != engine.relus.keys():
        return None
    program = _Program(engine, known)
    for case in cases:
        rows = goal.case == case
        x = program.solved(goal.matrix[rows].numpy(), goal.limit[rows].numpy(), seconds / len(cases))
        if x is None:
            continue
        low, high = goal.lower.numpy(), goal.upper.numpy()
        near = NEAR * (high - low)
        snapped = np.where(x - low <= near, low, np.where(high - x <= near, high, x))
        met = first_meeting(goal, network, goal.placed(torch.from_numpy(np.stack([x, snapped])).float()))
        if met is not None:
            return met
    return None


class _Program:
    """The values of a network as variables: first the values in their order, then a binary for each open ReLU."""

    def __init__(self, engine: Engine, known: ValueBounds) -> None:
        self.output, self.sizes = engine.program.output, engine.program.sizes
        starts = np.cumsum([0, *self.sizes.values()])
        self.at = dict(zip(self.sizes, starts, strict=False))
        self.low = np.concatenate([known.lower[n][0].double().numpy() for n in self.sizes])
        self.high = np.concatenate([known.upper[n][0].double().numpy() for n in self.sizes])
        self.open: list[tuple[int, int]] = []  # variable of z and of y of each open ReLU
        self.rows: list[sparse.coo_matrix] = []
        self.least: list[Floats] = []
        self.most: list[Floats] = []
        self.width, self.slope = int(starts[-1]), 0.0
        for number, step in engine.program.steps.items():
            own, before = self._eye(number), [self._eye(source) for source in step.inputs]
            if isinstance(step, Linear):
                matrix = step.apply(torch.eye(self.sizes[step.inputs[0]], dtype=engine.program.dtype))
                bias = torch.zeros(self.sizes[number]) if step.bias is None else step.bias
                weight = sparse.csr_matrix((matrix - bias).double().numpy().T)
                self._add(own - weight @ before[0], bias.double().numpy(), bias.double().numpy())
            elif isinstance(step, Join):
                nothing = np.zeros(self.sizes[number])
                self._add(own - sparse.vstack(before), nothing, nothing)
            elif isinstance(step, Sum):
                nothing = np.zeros(self.sizes[number])
                self._add(own - before[0] - step.sign * before[1], nothing, nothing)
            else:
                self._relu(number, step.inputs[0], engine.relus[number].slope)

    def _eye(self, number: int) -> sparse.csr_matrix:
        """The rows that pick a value's variables."""
        size, start = self.sizes[number], self.at[number]
        entries = (np.ones(size), (np.arange(size), start + np.arange(size)))
        return sparse.csr_matrix(entries, shape=(size, self.width))

    def _add(self, rows: sparse.csr_matrix, least: Floats, most: Floats) -> None:
        self.rows.append(rows.tocoo())
        self.least.append(least)
        self.most.append(most)

    def _relu(self, number: int, source: int, slope: float) -> None:
        first, second = self.at[source], self.at[number]
        size = self.sizes[number]
        low, high = self.low[first : first + size], self.high[first : first + size]
        y, z, free = self._eye(number), self._eye(source), np.full(size, np.inf)
        fixed = (low >= 0) | (high <= 0)
        factor = np.where(low >= 0, 1.0, slope)
        rows = np.flatnonzero(fixed)
        zero = np.zeros(len(rows))
        self._add((y - sparse.diags(factor) @ z)[rows], zero, zero)
        rows = np.flatnonzero(~fixed)
        self._add((y - z)[rows], np.zeros(len(rows)), free[rows])
        self._add((y - slope * z)[rows], np.zeros(len(rows)), free[rows])
        self.open += [(first + int(row), second + int(row)) for row in rows]
        self.slope = slope

    def solved(self, matrix: Floats, limit: Floats, seconds: float) -> Floats | None:
        """An input at which matrix . outputs <= limit, up to the solver's tolerance."""
        binaries, width = len(self.open), self.width
        rows = [*self.rows, sparse.coo_matrix(sparse.csr_matrix(matrix) @ self._eye(self.output))]
        body = sparse.hstack([sparse.vstack(rows), sparse.coo_matrix((sum(r.shape[0] for r in rows), binaries))])
        least = np.concatenate([*self.least, np.full(len(limit), -np.inf)])
        most = np.concatenate([*self.most, limit])
        z, y = (np.array([pair[k] for pair in self.open], dtype=np.int64) for k in (0, 1))
        order, zeros = np.arange(binaries), np.zeros(binaries)
        low, high = self.low[z], self.high[z]
        # y <= slope z + (1 - slope) u a and y <= z - (1 - slope) l (1 - a)
        shape, both = (binaries, width + binaries), (np.concatenate([order] * 3),)
        upper = sparse.coo_matrix(
            (
                np.concatenate([zeros + 1, zeros - self.slope, -(1 - self.slope) * high]),
                (both[0], np.concatenate([y, z, width + order])),
            ),
            shape,
        )
        lower = sparse.coo_matrix(
            (
                np.concatenate([zeros + 1, zeros - 1, -(1 - self.slope) * low]),
                (both[0], np.concatenate([y, z, width + order])),
            ),
            shape,
        )
        constraints = [LinearConstraint(body.tocsr(), least, most)]
        if binaries:
            constraints += [
                LinearConstraint(upper.tocsr(), -np.inf, zeros),
                LinearConstraint(lower.tocsr(), -np.inf, -(1 - self.slope) * low),
            ]
        answer = milp(
            np.zeros(width + binaries),
            integrality=np.concatenate([np.zeros(width), np.ones(binaries)]),
            bounds=Bounds(np.concatenate([self.low, zeros]), np.concatenate([self.high, zeros + 1])),
            constraints=constraints,
            options={"time_limit": seconds},
        )
        return None if answer.x is None else np.asarray(answer.x[: self.sizes[0]], dtype=np.float64)
