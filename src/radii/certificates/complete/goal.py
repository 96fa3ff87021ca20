"""What is to be proved on one box: for every case some inequality fails everywhere on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from radii.certificates.bounds.rows import Domain
from radii.certificates.complete.query import Case, Floats, Query


class Runnable(Protocol):
    """A float32 network on flat inputs [n, inputs]."""

    def run(self, x: Tensor) -> Tensor:
        """Outputs [n, outputs], with gradients."""

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs as deployed."""


@dataclass(frozen=True)
class Goal:
    """Cases that share one region. Row k is the inequality matrix[k] . y <= limit[k] of case ``case[k]``.

    The region is a box, cut with the L2 ball around ``center`` where a ``radius`` is given.
    """

    lower: Tensor  # [inputs] float64
    upper: Tensor
    matrix: Tensor  # [rows, outputs] float64
    limit: Tensor  # [rows]
    case: Tensor  # [rows] int64
    cases: int
    center: Tensor | None = None  # [inputs] float64, in the box
    radius: float | None = None

    def domain(self) -> Domain:
        """The region with every float32 number that its ends round to."""
        low, high = self.reach()
        center = None if self.center is None else self.center[None]
        return Domain(low[None], high[None], center, self.radius)

    def placed(self, x: Tensor) -> Tensor:
        """Inputs [n, inputs] moved into the region: clipped to the box, then drawn to the center of the ball."""
        x = x.clamp(*self.inside())
        if self.center is None or self.radius is None:
            return x
        step = x.double() - self.center
        size = step.norm(dim=1, keepdim=True).clamp_min(1e-300)
        return (self.center + step * (self.radius * (1 - 1e-6) / size).clamp_max(1.0)).float()

    def corners(self, slopes: Tensor) -> Tensor:
        """The inputs of the region at which lines with these slopes [n, inputs] are least, or nearly."""
        low, high = self.inside()
        if self.center is None or self.radius is None:
            return torch.where(slopes > 0, low, torch.where(slopes < 0, high, (low + high) / 2))
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
        """By how much each case is missed: the largest matrix . y - limit of its rows, [n, cases]; <= 0 meets it."""
        over = outputs.double() @ self.matrix.T - self.limit
        worst = torch.full((len(over), self.cases), -torch.inf, dtype=over.dtype)
        return worst.scatter_reduce(1, self.case.expand(len(over), -1), over, "amax")


def goals(query: Query) -> list[Goal]:
    """The cases of a query, gathered by their boxes."""
    groups: dict[bytes, list[Case]] = {}
    for case in query.cases:
        groups.setdefault(case.lower.tobytes() + case.upper.tobytes(), []).append(case)
    return [_goal(cases) for cases in groups.values()]


def _goal(cases: list[Case]) -> Goal:
    def tensor(value: Floats) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(value, dtype=np.float64))

    return Goal(
        tensor(cases[0].lower),
        tensor(cases[0].upper),
        tensor(np.concatenate([case.matrix for case in cases])),
        tensor(np.concatenate([case.limit for case in cases])),
        torch.cat([torch.full((len(case.limit),), number) for number, case in enumerate(cases)]),
        len(cases),
    )
