"""What is to be proved on one box: for every case some inequality fails everywhere on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from radii.bounds.regions import Domain, lowest_input
from radii.threat import Norm, length
from radii.verification._vnnlib_cases import Case, Floats
from radii.verification.vnnlib import Query, holds


class Runnable(Protocol):
    """A float32 network on flat inputs [n, inputs]."""

    def run(self, x: Tensor) -> Tensor:
        """Outputs [n, outputs], with gradients."""

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs as deployed."""

    def each_deployed(self, x: Tensor) -> list[Tensor]:
        """Outputs in every way in which it is deployed; :meth:`outputs` come first."""


@dataclass(frozen=True)
class Goal:
    """Cases that share one region. Row k is the inequality matrix[k] . y <= limit[k] of case ``case[k]``.

    The region is a box, cut with the ball around ``center`` where a ``radius`` is given: in L2 or, by ``norm``, in L1,
    with a ``scale`` [1, inputs] if there is one. ``strict`` rows ask for <; ``query`` is the property that a
    counterexample must meet to the last digit.
    """

    lower: Tensor  # [inputs] float64
    upper: Tensor
    matrix: Tensor  # [rows, outputs] float64
    limit: Tensor  # [rows]
    case: Tensor  # [rows] int64
    cases: int
    center: Tensor | None = None  # [inputs] float64, in the box
    radius: float | None = None
    norm: Norm = "l2"
    scale: Tensor | None = None
    strict: Tensor | None = None  # [rows] bool
    query: Query | None = field(default=None, repr=False)

    def domain(self) -> Domain:
        """The region with every float32 number that its ends round to."""
        low, high = self.reach()
        center = None if self.center is None else self.center[None]
        return Domain(low[None], high[None], center, self.radius, self.norm, self.scale)

    def placed(self, x: Tensor) -> Tensor:
        """Inputs [n, inputs] moved into the region: clipped to the box, then drawn to the center of the ball."""
        x = x.clamp(*self.inside())
        if self.center is None or self.radius is None:
            return x
        step = x.double() - self.center
        counted = step if self.scale is None else torch.where(self.scale > 0, step / self.scale, 0.0)
        size = length(counted, self.norm)[:, None].clamp_min(1e-300)
        return (self.center + step * (self.radius * (1 - 1e-6) / size).clamp_max(1.0)).float()

    def corners(self, slopes: Tensor) -> Tensor:
        """The inputs of the region at which lines with these slopes [n, inputs] are least, or nearly."""
        low, high = self.inside()
        if self.center is None or self.radius is None:
            return torch.where(slopes > 0, low, torch.where(slopes < 0, high, (low + high) / 2))
        if not self.domain().is_l2:
            lowest = lowest_input(slopes.double(), self.domain(), torch.zeros(len(slopes), dtype=torch.int64))
            return self.placed(lowest.float())
        size = slopes.double().norm(dim=1, keepdim=True).clamp_min(1e-300)
        return self.placed((self.center - self.radius * slopes.double() / size).float())

    def failing(self, lowers: Tensor) -> Tensor:
        """Which cases cannot be met, given lower bounds of matrix . y - limit [B, rows]: [B, cases].

        An inequality fails where its lower bound is positive, by more than the limit's own rounding.
        """
        fails = lowers > self.limit.abs() * 2.0**-50
        counts = torch.zeros(len(lowers), self.cases, dtype=torch.int64)
        return counts.index_add_(1, self.case, fails.long()) > 0

    def inside(self) -> tuple[Tensor, Tensor]:
        """The box in float32, rounded inward; where nothing is left, the nearest float32."""
        low, high = self.lower.float(), self.upper.float()
        up = torch.where(low.double() < self.lower, torch.nextafter(low, torch.tensor(torch.inf)), low)
        down = torch.where(high.double() > self.upper, torch.nextafter(high, torch.tensor(-torch.inf)), high)
        return torch.where(up <= down, up, low), torch.where(up <= down, down, low)

    def reach(self) -> tuple[Tensor, Tensor]:
        """The box with every float32 number that its ends round to."""
        low, high = self.lower, self.upper
        return torch.minimum(low, low.float().double()), torch.maximum(high, high.float().double())

    def excess(self, outputs: Tensor) -> Tensor:
        """By how much each case is missed: the largest matrix . y - limit of its rows, [n, cases]."""
        return self._worst(outputs.double() @ self.matrix.T - self.limit)

    def met(self, outputs: Tensor) -> Tensor:
        """Which outputs [n, outputs] are numbers and meet a case: [n] bool; strict rows strictly."""
        over = outputs.double() @ self.matrix.T - self.limit
        missed = ~(over <= 0) if self.strict is None else ~torch.where(self.strict, over < 0, over <= 0)
        return (self._worst(missed.double()) == 0).any(1) & outputs.isfinite().all(1)

    def _worst(self, values: Tensor) -> Tensor:
        """The largest of the rows [n, rows] of each case: [n, cases]."""
        worst = torch.full((len(values), self.cases), -torch.inf, dtype=values.dtype)
        return worst.scatter_reduce(1, self.case.expand(len(values), -1), values, "amax")

    def written(self, x: Tensor, outputs: Tensor) -> tuple[list[str], list[str]] | None:
        """A counterexample and its outputs as decimals that meet the file exactly, or None.

        An input outside the decimal bounds is written as the bound where float32 rounds the bound to it.
        """
        inputs = torch.minimum(torch.maximum(x.double(), self.lower), self.upper)
        inside, answers = _decimals(inputs.tolist()), _decimals(outputs.tolist())
        met = torch.equal(inputs.float(), x) and (self.query is None or holds(self.query, inside, answers))
        return (inside, answers) if met else None


def goals(query: Query) -> list[Goal]:
    """The cases of a query, gathered by their boxes."""
    groups: dict[bytes, list[Case]] = {}
    for case in query.cases:
        groups.setdefault(case.lower.tobytes() + case.upper.tobytes(), []).append(case)
    return [_goal(cases, query) for cases in groups.values()]


def _decimals(values: Iterable[float]) -> list[str]:
    """Float64 numbers with all their digits and without an exponent."""
    return [np.format_float_positional(value, trim="0") for value in values]


def _goal(cases: list[Case], query: Query) -> Goal:
    def tensor(value: Floats) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(value, dtype=np.float64))

    return Goal(
        tensor(cases[0].lower),
        tensor(cases[0].upper),
        tensor(np.concatenate([case.matrix for case in cases])),
        tensor(np.concatenate([case.limit for case in cases])),
        torch.cat([torch.full((len(case.limit),), number) for number, case in enumerate(cases)]),
        len(cases),
        strict=torch.from_numpy(np.concatenate([case.strict for case in cases])),
        query=query,
    )
