"""Branch and bound over the signs of ReLUs, with multipliers for the splits (beta-CROWN, Wang et al. 2021).

A domain fixes the signs of some ReLUs. Its bound is a backward pass with three
sets of parameters, ascended together: lower slopes alpha of the open ReLUs,
multipliers beta >= 0 of the fixed ones, and weights lambda >= 0 of a case's
inequalities. Every value of them gives a true bound, so the best one met counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

import torch
from torch import Tensor

from radii.certificates.bounds.bound_engine import Engine, Visit
from radii.certificates.bounds.rows import ValueBounds, relu_lines
from radii.certificates.bounds.slope_ascent import Adam, has_slopes, hidden_ascent, lower_with_slopes
from radii.certificates.complete.answer import Answer, Limits, Verdict
from radii.certificates.complete.goal import Goal, Runnable
from radii.certificates.complete.leaf import solve_leaf
from radii.certificates.complete.proof import SignLeaf
from radii.certificates.complete.search import first_meeting

NUMBERS = 1 << 21  # coefficients of the widest value in one pass
ROOT_STEPS = 60
HIDDEN_STEPS = 20
STEPS = 12
ROUND, STALLED = 5, 0.005  # so many steps must raise an open bound by this share of it, or the ascent ends
CANDIDATES = 4  # ReLUs whose split is tried before one is chosen


@dataclass(frozen=True)
class Branch:
    """A case with the signs of some ReLUs: ``splits`` are (source value, coordinate, +1 or -1, multiplier)."""

    case: int
    splits: tuple[tuple[int, int, int, float], ...]
    alphas: dict[int, Tensor]  # [d] each, half precision
    weights: Tensor  # [rows of the case]
    bound: float
    choice: tuple[int, int] | None  # the ReLU's source value and coordinate to split next


def split_relus(
    engine: Engine, goal: Goal, network: Runnable, limits: Limits, leaves: list[SignLeaf] | None = None
) -> Answer:
    """Prove a goal, or find an input that meets a case.

    Args:
        engine: bounds of the network.
        goal: the box and its cases.
        network: the float32 network, for candidates.
        limits: limits of time and domains.
        leaves: is filled with the proved domains, whose parameters are float32 then.
    """
    return _Search(engine, goal, network, limits, leaves).run()


class _Search:
    def __init__(
        self, engine: Engine, goal: Goal, network: Runnable, limits: Limits, leaves: list[SignLeaf] | None
    ) -> None:
        self.leaves = leaves
        self.engine, self.goal, self.network, self.limits = engine, goal, network, limits
        self.root = engine.bounds(goal.domain())
        self.sources = {place: engine.program.steps[place].inputs[0] for place in engine.relus}
        self.met: Tensor | None = None
        self.suspect: Tensor | None = None
        self.nodes = 0
        widest = max(engine.program.sizes.values())
        self.batch = max(2, min(512, NUMBERS // widest))

    def run(self) -> Answer:
        """Worst domains first, until none is open."""
        rows = [torch.nonzero(self.goal.case == case)[:, 0] for case in range(self.goal.cases)]
        open_ = [
            Branch(case, (), {}, torch.ones(len(row)) / len(row), -torch.inf, None) for case, row in enumerate(rows)
        ]
        open_ = self._refined(self._bounded(open_, ROOT_STEPS))
        verdict: Verdict
        with self.limits.task("splitting ReLUs") as bar:
            while open_ and self.met is None:
                if monotonic() > self.limits.deadline or self.nodes >= self.limits.nodes:
                    verdict = "timeout" if self.nodes < self.limits.nodes else "unknown"
                    return Answer(verdict, None, self.nodes, self._left(open_))
                stuck = [node for node in open_ if node.choice is None]  # every sign is fixed, and still not proved
                if stuck and not all(self._leaf(node) for node in stuck):
                    verdict = "unknown" if self.met is None else "sat"
                    return Answer(verdict, self.met, self.nodes, self._left(open_), self.suspect)
                open_ = [node for node in open_ if node.choice is not None]
                open_.sort(key=lambda node: node.bound, reverse=True)
                count = max(1, self.batch // 2)
                taken, open_ = open_[-count:], open_[:-count]
                children = [child for node in taken for child in _children(node)]
                open_ += self._bounded(children, STEPS)
                bar.advance(0, f"{self.nodes} domains, {len(open_)} open")
        if self.met is not None:
            return Answer("sat", self.met, self.nodes, self._left(open_))
        return Answer("unsat", None, self.nodes, 0.0)

    def _refined(self, open_: list[Branch]) -> list[Branch]:
        """Cases that the first bounds leave open, with hidden bounds that are ascended too; a proof keeps the first."""
        hidden = set(self.engine.bent) & self.engine.behind
        if not open_ or self.leaves is not None or not hidden or not has_slopes(self.engine):
            return open_
        refine = hidden_ascent(self.engine, HIDDEN_STEPS, self.limits.deadline)
        self.root = self.engine.bounds(self.goal.domain(), refine=refine)
        return self._bounded(open_, ROOT_STEPS)

    def _leaf(self, node: Branch) -> bool:
        """Whether a domain with every sign fixed is proved by the multipliers of its convex program."""
        batch = _Batch(self, [node])
        row, _ = batch._rows(batch.weights)
        point, betas = solve_leaf(self.engine, batch.known, row[0].to(batch.dtype), node.splits)
        if point is not None:
            self.suspect = self.goal.placed(point.float()[None])[0]
            self.met = first_meeting(self.goal, self.network, self.suspect[None])
        splits = tuple((*split[:3], beta) for split, beta in zip(node.splits, betas, strict=True))
        batch = _Batch(self, [replace(node, splits=splits)])
        batch.settle()
        return bool((batch.best > 0).all())

    def _left(self, open_: list[Branch]) -> float:
        """The share of the tree that is open: a half for every split."""
        return sum(2.0 ** -len(node.splits) for node in open_) / self.goal.cases

    def _bounded(self, nodes: list[Branch], steps: int) -> list[Branch]:
        """Those of the nodes that are not proved, with their bounds and the ReLU to split next."""
        left: list[Branch] = []
        for start in range(0, len(nodes), self.batch):
            part = nodes[start : start + self.batch]
            self.nodes += len(part)
            batch = _Batch(self, part)
            batch.ascend(steps)
            if self.leaves is not None:
                batch.settle()
            self.met = self.met if self.met is not None else first_meeting(self.goal, self.network, batch.corners())
            if self.met is not None:
                return []
            left += batch.survivors()
            if monotonic() > self.limits.deadline:
                left += [replace(node, choice=(0, 0)) for node in nodes[start + self.batch :]]
                break
        return left


class _Climb:
    """Steps of gradient ascent of one batch's parameters, which are changed in place."""

    def __init__(self, batch: _Batch, alphas: dict[int, Tensor], betas: dict[int, Tensor], weights: Tensor) -> None:
        self.batch, self.alphas, self.betas, self.weights = batch, alphas, betas, weights
        self.several = weights.shape[1] > 1
        relus = batch.engine.relus
        self.adam = {("alpha", place): Adam(value, 0.25, relus[place].slope, 1.0) for place, value in alphas.items()}
        self.adam |= {("beta", source): Adam(value, 0.1, 0.0, torch.inf) for source, value in betas.items()}
        if self.several:
            self.adam["weight", 0] = Adam(weights, 0.1, 0.0, torch.inf)
        self.grads: dict[tuple[str, int], Tensor] = {}

    def bound(self) -> Tensor:
        """Bounds with the present parameters, and their gradients for the next step."""
        batch = self.batch
        if not has_slopes(batch.engine):
            return self._by_graph()
        rows, constant = batch.objective(self.weights)
        output = batch.engine.program.output
        met = lower_with_slopes(batch.engine, batch.known, output, rows, None, self.alphas, batch.full(self.betas))
        self.grads = {("alpha", place): grad for place, grad in met.by_alpha.items()}
        for source, signs in batch.signs.items():
            self.grads["beta", source] = -signs * met.values[source][tuple(batch.index[source])]
        if self.several:
            reached = (batch.matrix @ met.values[output].double()[:, :, None])[:, :, 0] - batch.limit
            self.grads["weight", 0] = reached.to(batch.dtype)
        return met.bound + constant

    def _by_graph(self) -> Tensor:
        """The same for networks whose bends are not all ReLUs."""
        values = {("alpha", place): value for place, value in self.alphas.items()}
        values |= {("beta", source): value for source, value in self.betas.items()}
        values |= {("weight", 0): self.weights} if self.several else {}
        with torch.enable_grad():
            leaves = {name: value.detach().clone().requires_grad_() for name, value in values.items()}
            alphas = {place: leaves["alpha", place] for place in self.alphas}
            betas = {source: leaves["beta", source] for source in self.betas}
            bound = self.batch.lower(alphas, betas, leaves["weight", 0] if self.several else self.weights)
            self.grads = {}
            if bound.requires_grad:
                grads = torch.autograd.grad(bound[bound.isfinite()].sum(), list(leaves.values()), allow_unused=True)
                self.grads = {name: grad for name, grad in zip(leaves, grads, strict=True) if grad is not None}
        return bound.detach()

    def step(self, open_: Tensor) -> bool:
        """Move the parameters; False if nothing moves. Proved rows, those not ``open_``, may move as well."""
        for name, grad in self.grads.items():
            self.adam[name].step(grad)
        if self.several:
            self.weights.mul_((self.batch.matrix.abs().sum(2) > 0).to(self.batch.dtype))
            self.weights.div_(self.weights.sum(1, keepdim=True).clamp_min(1e-6))
        return bool(self.grads) and bool(open_.any())


def _children(node: Branch) -> list[Branch]:
    assert node.choice is not None
    source, place = node.choice
    return [replace(node, splits=(*node.splits, (source, place, sign, 0.0))) for sign in (1, -1)]


class _Batch:
    """Domains that are bounded together, one row each."""

    def __init__(self, search: _Search, nodes: list[Branch]) -> None:
        self.search, self.nodes = search, nodes
        self.engine, self.goal = search.engine, search.goal
        self.dtype = self.engine.program.dtype
        self.best = torch.full((len(nodes),), -torch.inf, dtype=torch.float64)
        self.final: Tensor | None = None
        self.known = search.root[torch.zeros(len(nodes), dtype=torch.int64)]
        self.index, self.signs, self.betas = dict[int, Tensor](), dict[int, Tensor](), dict[int, Tensor]()
        where = [
            (split[0], row, split[1], split[2], split[3]) for row, node in enumerate(nodes) for split in node.splits
        ]
        for source in sorted({entry[0] for entry in where}):
            mine = [entry for entry in where if entry[0] == source]
            self.index[source] = torch.tensor([entry[1:3] for entry in mine]).T
            self.signs[source] = torch.tensor([entry[3] for entry in mine], dtype=self.dtype)
            self.betas[source] = torch.tensor([entry[4] for entry in mine], dtype=self.dtype)
            _clip(self.known, source, self.index[source][0], self.index[source][1], self.signs[source])
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

    def _start_slopes(self, place: int) -> Tensor:
        source = self.search.sources[place]
        if self.nodes[0].alphas:
            return torch.stack([node.alphas[place] for node in self.nodes]).to(self.dtype)
        return relu_lines(self.engine.relus[place], self.known.lower[source], self.known.upper[source])[0]

    def _rows(self, weights: Tensor) -> tuple[Tensor, Tensor]:
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
        rows, offset = self._rows(weights)
        single = rows.to(self.dtype)
        lost = (rows - single.double()).abs().detach()  # by the rows' own rounding
        reach = torch.maximum(self.known.lower[output].abs(), self.known.upper[output].abs())
        spare = 2.0**-46 * (weights.double() * self.limit.abs()).sum(1)
        return single, -1.01 * (lost * reach).sum(1) - offset - spare

    def bound(self) -> Tensor:
        """The bounds with the present parameters."""
        return self.lower(self.alphas, self.betas, self.weights)

    def ascend(self, steps: int) -> None:
        """Gradient ascent; the parameters of the best bound of each row are kept."""
        alphas = {place: value.clone() for place, value in self.alphas.items()}
        betas = {source: value.clone() for source, value in self.betas.items()}
        weights = self.weights.clone()
        climb = _Climb(self, alphas, betas, weights)
        before = self.best
        for step in range(steps):
            bound = climb.bound()
            self._keep(bound > self.best, bound, alphas, betas, weights)
            open_ = self.best <= 0
            done = monotonic() > self.search.limits.deadline or step == steps - 1 or not bool(open_.any())
            if step % ROUND == ROUND - 1:
                done = done or not bool((self.best - before > STALLED * self.best.abs())[open_].any())
                before = self.best
            if done or not climb.step(open_):
                break

    def _keep(
        self, better: Tensor, bound: Tensor, alphas: dict[int, Tensor], betas: dict[int, Tensor], weights: Tensor
    ) -> None:
        self.best = torch.where(better, bound, self.best)
        for place, value in alphas.items():
            self.alphas[place][better] = value[better]
        for source, value in betas.items():
            mine = better[self.index[source][0]]
            self.betas[source][mine] = value[mine]
        self.weights[better] = weights[better]

    def settle(self) -> None:
        """The bounds with the present parameters; for a proof with float32 ones, and proved rows are written down."""
        if self.search.leaves is None:
            self.best = self.bound()
            return
        for values in (self.alphas, self.betas):
            for number, value in values.items():
                values[number] = value.float().to(self.dtype)
        self.weights = self.weights.float().to(self.dtype)
        self.best = self.bound()
        for row in torch.nonzero(self.best > 0)[:, 0].tolist():
            self.search.leaves.append(self._sign_leaf(row))

    def _sign_leaf(self, row: int) -> SignLeaf:
        node, order = self.nodes[row], {source: k for k, source in enumerate(self.search.sources.values())}
        betas = {
            (source, place): beta
            for source, index in self.index.items()
            for owner, place, beta in zip(*index.tolist(), self.betas[source].tolist(), strict=True)
            if owner == row
        }
        return SignLeaf(
            node.case,
            tuple((order[source], place, sign, betas[source, place]) for source, place, sign, _ in node.splits),
            tuple(self.alphas[place][row].float().numpy() for place in self.search.sources),
            self.weights[row, : len(node.weights)].float().numpy(),
        )

    def corners(self) -> Tensor:
        """The input at which each row's line is least; also fills what the choice of a split needs."""
        self.meetings: dict[int, Tensor] = {}
        self.lower(self.alphas, self.betas, self.weights, lambda place, A: self.meetings.update({place: A.clone()}))
        slopes = self.meetings.get(0)
        return self.goal.corners(self.known.domain.lower[:1] * 0 if slopes is None else slopes)

    def survivors(self) -> list[Branch]:
        """The nodes that are not proved, ready to be split."""
        left = torch.nonzero(self.best <= 0)[:, 0]
        if len(left) == 0:
            return []
        chosen = self._choices(left)
        branches = []
        slopes = {place: value[left].half() for place, value in self.alphas.items()}
        betas = {
            (source, row, place): beta
            for source, index in self.index.items()
            for row, place, beta in zip(*index.tolist(), self.betas[source].tolist(), strict=True)
        }
        for number, (row, choice) in enumerate(zip(left.tolist(), chosen, strict=True)):
            node = self.nodes[row]
            splits = tuple((source, place, sign, betas[source, row, place]) for source, place, sign, _ in node.splits)
            alphas = {place: value[number] for place, value in slopes.items()}
            weights = self.weights[row, : len(node.weights)].clone()
            branches.append(Branch(node.case, splits, alphas, weights, float(self.best[row]), choice))
        return branches

    def _choices(self, left: Tensor) -> list[tuple[int, int] | None]:
        """For each row the ReLU whose two halves bound best, among those that lose most (Bunel et al. 2018, FSB)."""
        losses = []
        for place, A in self.meetings.items():
            if place not in self.engine.relus:
                continue
            source = self.search.sources[place]
            low, high = self.known.lower[source][left], self.known.upper[source][left]
            _, _, lift = relu_lines(self.engine.relus[place], low, high)
            rows = A[left]
            below = torch.minimum(high, -low) * 0.5
            loss = torch.where(lift > 0, rows.clamp_min(0) * below - rows.clamp_max(0) * lift + 1e-12, 0.0)
            losses.append((source, loss))
        if not losses:  # no ReLU is left to split: the open layers are steps or clamps
            return [None] * len(left)
        flat = torch.cat([loss for _, loss in losses], 1)
        value, spot = flat.topk(min(CANDIDATES, flat.shape[1]), 1)
        owner = torch.cat([torch.full((loss.shape[1],), source) for source, loss in losses])
        coordinate = torch.cat([torch.arange(loss.shape[1]) for _, loss in losses])
        best = self._tried(left, owner[spot], coordinate[spot], value)
        owners, places = owner[spot].tolist(), coordinate[spot].tolist()
        splittable = (value[:, 0] > 0).tolist()
        return [(owners[row][k], places[row][k]) if splittable[row] else None for row, k in enumerate(best.tolist())]

    def _tried(self, left: Tensor, owner: Tensor, place: Tensor, value: Tensor) -> Tensor:
        """Which candidate [rows, k] gives the best pair of bounds, by one backward pass each: [rows]."""
        count, tries = owner.shape
        parts = [
            self._trial(left[rows], owner[rows], place[rows])
            for rows in torch.arange(count).split(max(1, self.search.batch // (2 * tries)))
        ]
        pairs = torch.cat(parts).clamp_max(0)  # [rows, k, 2]
        scores = pairs.sum(2) + 0.5 * pairs.amin(2)
        return torch.where(value > 0, scores, -torch.inf).nan_to_num(-1e30, -1e30, -1e30).argmax(1)

    def _trial(self, left: Tensor, owner: Tensor, place: Tensor) -> Tensor:
        """Bounds of both halves of each candidate: [rows, k, 2]."""
        count, tries = owner.shape
        rows = left.repeat_interleave(2 * tries)
        known = self.known[rows]
        sign = torch.tensor([1, -1]).repeat(count * tries)
        owners, places = owner.flatten().repeat_interleave(2), place.flatten().repeat_interleave(2)
        for source in owners.unique().tolist():
            mine = owners == source
            spots = torch.nonzero(mine)[:, 0]
            _clip(known, source, spots, places[mine], sign[mine])
        full = {source: value[rows] for source, value in self.full(self.betas).items()}
        alphas = {number: slopes[rows] for number, slopes in self.alphas.items()}
        matrix, offset = self._rows(self.weights)
        output = self.engine.program.output
        bound = self.engine.lower(known, output, matrix.to(self.dtype)[rows], None, alphas, full)
        return (bound - offset[rows]).view(count, tries, 2)


def _clip(known: ValueBounds, source: int, rows: Tensor, places: Tensor, signs: Tensor) -> None:
    """Fix signs of coordinates, in place."""
    low, high = known.lower[source][rows, places], known.upper[source][rows, places]
    known.lower[source][rows, places] = torch.where(signs > 0, low.clamp_min(0), low)
    known.upper[source][rows, places] = torch.where(signs < 0, high.clamp_max(0), high)
