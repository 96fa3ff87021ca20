"""Domains of branch and bound over the signs of ReLUs, bounded side by side (beta-CROWN, Wang et al. 2021).

A domain fixes the signs of some ReLUs. Its bound is a backward pass with three
sets of parameters: lower slopes alpha of the open ReLUs, multipliers beta >= 0
of the fixed ones, and weights lambda >= 0 of a case's inequalities. Every value
of them gives a true bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from radii.bounds.bound_engine import Engine, Visit
from radii.bounds.regions import Domain, ValueBounds
from radii.verification._clipping import clipped
from radii.verification._goal import Goal
from radii.verification.proof import SignLeaf


@dataclass(frozen=True)
class Branch:
    """A case with the signs of some ReLUs: ``splits`` are (source value, coordinate, +1 or -1, multiplier)."""

    case: int
    splits: tuple[tuple[int, int, int, float], ...]
    alphas: dict[int, Tensor]  # [d] each, half precision
    weights: Tensor  # [rows of the case]
    bound: float
    choice: tuple[int, int] | None  # the ReLU's source value and coordinate to split next
    box: Tensor | None = (
        None  # [2, inputs], float64: ends of the inputs that may meet the case; None: all of the goal's
    )

    def children(self) -> list[Branch]:
        """Both halves of this domain."""
        assert self.choice is not None
        source, place = self.choice
        return [replace(self, splits=(*self.splits, (source, place, sign, 0.0))) for sign in (1, -1)]


class SignBatch:
    """Domains that are bounded together, one row each."""

    def __init__(self, engine: Engine, goal: Goal, root: ValueBounds, nodes: list[Branch], clips: bool = False) -> None:
        self.engine, self.goal, self.nodes = engine, goal, nodes

        self.clips = clips
        self.sources = {place: engine.program.steps[place].inputs[0] for place in engine.relus}
        self.dtype = self.engine.program.dtype
        self.best = torch.full((len(nodes),), -torch.inf, dtype=torch.float64)
        self.known = root[torch.zeros(len(nodes), dtype=torch.int64)]
        if any(node.box is not None for node in nodes):
            self._narrow()
        self.index, self.signs, self.betas = dict[int, Tensor](), dict[int, Tensor](), dict[int, Tensor]()
        where = [
            (split[0], row, split[1], split[2], split[3]) for row, node in enumerate(nodes) for split in node.splits
        ]
        for source in sorted({entry[0] for entry in where}):
            mine = [entry for entry in where if entry[0] == source]
            self.index[source] = torch.tensor([entry[1:3] for entry in mine]).T
            self.signs[source] = torch.tensor([entry[3] for entry in mine], dtype=self.dtype)
            self.betas[source] = torch.tensor([entry[4] for entry in mine], dtype=self.dtype)
            self.known.fix_signs(source, self.index[source][0], self.index[source][1], self.signs[source])
        self.alphas = {place: self._start_slopes(place) for place in self.engine.relus}
        rows = max(len(node.weights) for node in nodes)
        self.weights = torch.zeros(len(nodes), rows, dtype=self.dtype)
        self.matrix = torch.zeros(len(nodes), rows, self.goal.matrix.shape[1], dtype=torch.float64)
        self.limit = torch.zeros(len(nodes), rows, dtype=torch.float64)
        for row, node in enumerate(nodes):
            own = torch.nonzero(self.goal.case == node.case)[:, 0]
            self.weights[row, : len(own)] = node.weights.to(self.dtype)
            self.matrix[row, : len(own)] = self.goal.matrix[own]
            self.limit[row, : len(own)] = self.goal.limit[own]

    def _narrow(self) -> None:
        """Let every row have the box of its own domain, with intervals from it."""
        known = self.known
        whole = torch.stack([known.domain.lower[0], known.domain.upper[0]])
        ends = torch.stack([whole if node.box is None else node.box for node in self.nodes])
        inner = self.engine.start(Domain(ends[:, 0], ends[:, 1]))
        for number in (0, *self.engine.program.steps):
            if number:
                self.engine.forward(inner, number)
            inner.lower[number] = torch.maximum(inner.lower[number], known.lower[number])
            inner.upper[number] = torch.minimum(inner.upper[number], known.upper[number])
        self.known = inner

    def _start_slopes(self, place: int) -> Tensor:
        source = self.sources[place]
        if self.nodes[0].alphas:
            return torch.stack([node.alphas[place] for node in self.nodes]).to(self.dtype)
        return self.known.lines(self.engine.relus[place], source)[0].clone()

    def weighted(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted inequalities: coefficients of the outputs [R, outputs] and their limit [R]."""
        return (weights.double()[:, :, None] * self.matrix).sum(1), (weights.double() * self.limit).sum(1)

    def full(self, betas: dict[int, Tensor]) -> dict[int, Tensor]:
        """Multipliers as they are added to coefficients: beta z <= 0 where the sign of z is fixed."""
        return {
            source: torch.zeros(len(self.nodes), self.engine.program.sizes[source], dtype=self.dtype).index_put(
                tuple(self.index[source]), -self.signs[source] * betas[source]
            )
            for source in self.index
        }

    def lower(
        self, alphas: dict[int, Tensor], betas: dict[int, Tensor], weights: Tensor, visit: Visit | None = None
    ) -> Tensor:
        """Lower bounds of each row's weighted inequalities: positive proves that its case cannot be met."""
        rows, constant = self.objective(weights)
        bound = self.engine.lower(self.known, self.engine.program.output, rows, None, alphas, self.full(betas), visit)
        return bound + constant

    def objective(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted inequalities' coefficients [R, outputs] and what is added to a bound of them [R]."""
        output = self.engine.program.output
        rows, offset = self.weighted(weights)
        single = rows.to(self.dtype)
        lost = (rows - single.double()).abs().detach()  # by the rows' own rounding
        reach = torch.maximum(self.known.lower[output].abs(), self.known.upper[output].abs())
        spare = 2.0**-46 * (weights.double() * self.limit.abs()).sum(1)
        return single, -1.01 * (lost * reach).sum(1) - offset - spare

    def bound(self) -> Tensor:
        """The bounds with the present parameters."""
        return self.lower(self.alphas, self.betas, self.weights)

    def keep(
        self, better: Tensor, bound: Tensor, alphas: dict[int, Tensor], betas: dict[int, Tensor], weights: Tensor
    ) -> None:
        """Take these parameters in the rows in which their ``bound`` is ``better``."""
        self.best = torch.where(better, bound, self.best)
        if not bool(better.any()):
            return
        for place, value in alphas.items():
            if bool(better.all()):
                self.alphas[place].copy_(value)
            else:
                self.alphas[place][better] = value[better]
        for source, value in betas.items():
            mine = better[self.index[source][0]]
            self.betas[source][mine] = value[mine]
        self.weights[better] = weights[better]

    def settle(self, single: bool = False) -> None:
        """Take the bounds of the present parameters; ``single`` makes them float32 before, as a proof stores them."""
        if single:
            for values in (self.alphas, self.betas):
                for number, value in values.items():
                    values[number] = value.float().to(self.dtype)
            self.weights = self.weights.float().to(self.dtype)
        self.best = self.bound()

    def proved_leaves(self) -> list[SignLeaf]:
        """The proved rows as a proof writes them down."""
        return [self._sign_leaf(row) for row in torch.nonzero(self.best > 0)[:, 0].tolist()]

    def _sign_leaf(self, row: int) -> SignLeaf:
        node, order = self.nodes[row], {source: k for k, source in enumerate(self.sources.values())}
        betas = {
            (source, place): beta
            for source, index in self.index.items()
            for owner, place, beta in zip(*index.tolist(), self.betas[source].tolist(), strict=True)
            if owner == row
        }
        return SignLeaf(
            node.case,
            tuple((order[source], place, sign, betas[source, place]) for source, place, sign, _ in node.splits),
            tuple(self.alphas[place][row].float().numpy() for place in self.sources),
            self.weights[row, : len(node.weights)].float().numpy(),
        )

    def corners(self) -> Tensor:
        """The input at which each row's line is least; also fills what the choice of a split needs."""
        self.meetings: dict[int, Tensor] = {}
        least = self.lower(
            self.alphas, self.betas, self.weights, lambda place, A: self.meetings.update({place: A.clone()})
        )
        slopes = self.meetings.get(0)
        self.boxes: Tensor | None = None
        if self.clips and slopes is not None:
            domain = self.known.domain
            self.boxes = torch.stack(clipped(domain.lower, domain.upper, least, slopes.double()), 1)
        return self.goal.corners(self.known.domain.lower[:1] * 0 if slopes is None else slopes)

    def branches(self, rows: Tensor, choices: list[tuple[int, int] | None]) -> list[Branch]:
        """The domains of these ``rows`` with their parameters, ready to be split at their ``choices``."""
        slopes = {place: value[rows].half() for place, value in self.alphas.items()}
        betas = {
            (source, row, place): beta
            for source, index in self.index.items()
            for row, place, beta in zip(*index.tolist(), self.betas[source].tolist(), strict=True)
        }
        branches = []
        for number, (row, choice) in enumerate(zip(rows.tolist(), choices, strict=True)):
            node = self.nodes[row]
            splits = tuple((source, place, sign, betas[source, row, place]) for source, place, sign, _ in node.splits)
            alphas = {place: value[number] for place, value in slopes.items()}
            weights = self.weights[row, : len(node.weights)].clone()
            box = None if self.boxes is None else self.boxes[row]
            branches.append(Branch(node.case, splits, alphas, weights, float(self.best[row]), choice, box))
        return branches
