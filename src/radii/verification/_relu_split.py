"""Branch and bound over the signs of ReLUs, worst domains first (beta-CROWN, Wang et al. 2021).

Which sign to split next is the best of a few candidates, each tried by one backward pass. Candidates are the ReLUs
whose relaxation loses most (BaBSR, Bunel et al. 2018); trying them is filtered smart branching (FSB, De Palma et al.
2021).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from radii.bounds.alpha_crown import hidden_ascent
from radii.bounds.bound_engine import Engine
from radii.verification._beta_ascent import ascend
from radii.verification._beta_crown import Branch, SignBatch
from radii.verification._counterexample_search import first_meeting
from radii.verification._goal import Goal, Runnable
from radii.verification._leaf_program import solve_leaf
from radii.verification._search_state import branch_arrays
from radii.verification.answer import Answer, Limits, OpenRegions, OutOfTimeError, Verdict
from radii.verification.proof import SignLeaf

NUMBERS = 1 << 21  # coefficients of the widest value in one pass
ROOT_STEPS = 60
HIDDEN_STEPS = 20
STEPS = 12
CLIPPED_INPUTS = 256  # up to so many inputs domains have boxes of their own
INTEGER_SHARE, INTEGER_SECONDS = 0.2, 30.0  # of the time left, and at most, for the integer program
LEAST_SECONDS = 0.2  # below which it is not tried
CANDIDATES = 4  # ReLUs whose split is tried before one is chosen


def split_relus(
    engine: Engine,
    goal: Goal,
    network: Runnable,
    limits: Limits,
    leaves: list[SignLeaf] | None = None,
    searched: bool = True,
    start: list[Branch] | None = None,
) -> Answer:
    """Prove a goal, or find an input that meets a case.

    Args:
        network: the float32 network, for candidates.
        leaves: is filled with the proved domains, whose parameters are float32 then.
        start: the domains that an earlier search left open; all others of the goal are proved.
    """
    return _Search(engine, goal, network, limits, leaves, searched, start).run()


class _Search:
    def __init__(
        self,
        engine: Engine,
        goal: Goal,
        network: Runnable,
        limits: Limits,
        leaves: list[SignLeaf] | None,
        searched: bool,
        start: list[Branch] | None,
    ) -> None:
        self.leaves, self.searched, self.start = leaves, searched, start
        self.engine, self.goal, self.network, self.limits = engine, goal, network, limits
        self.open: list[Branch] = []
        self.aside: list[Branch] = []  # every sign is fixed, and still not proved
        self.met: Tensor | None = None
        self.suspect: Tensor | None = None
        self.nodes = 0
        self.clips = leaves is None and goal.radius is None and len(goal.lower) <= CLIPPED_INPUTS
        widest = max(engine.program.sizes.values())
        self.batch = max(2, min(512, NUMBERS // widest))

    def run(self) -> Answer:
        """Worst domains first, until none is open, the time is over or the user ends the search."""
        try:
            verdict = self._run()
        except OutOfTimeError:
            return self._answer("timeout")
        except KeyboardInterrupt:
            return replace(self._answer("unknown"), interrupted=True)
        return self._answer(verdict)

    def _run(self) -> Verdict:
        rows = [torch.nonzero(self.goal.case == case)[:, 0] for case in range(self.goal.cases)]
        self.open = [
            Branch(case, (), {}, torch.ones(len(row)) / len(row), -torch.inf, None) for case, row in enumerate(rows)
        ]
        if self.start is not None:
            self.open = self.start
            self.root = self.engine.bounds(self.goal.domain())
            self.open = self._refined(self.open, STEPS)
        else:
            self.root = self.engine.bounds(self.goal.domain())
            self.open = self._refined(self._bounded(self.open, ROOT_STEPS), ROOT_STEPS)
        seconds = min(INTEGER_SECONDS, INTEGER_SHARE * self.limits.left())
        if self.open and not self.searched and self.nodes < self.limits.nodes and seconds > LEAST_SECONDS:
            from radii.verification._integer_counterexample import integer_search  # scipy takes its time to start

            cases = sorted({node.case for node in self.open})
            self.met = integer_search(self.engine, self.root, self.goal, self.network, cases, seconds)
        with self.limits.task("splitting ReLUs") as bar:
            while self.open and self.met is None:
                if self.nodes >= self.limits.nodes:
                    return "unknown"
                self.limits.check()
                self._set_aside()
                if self.met is not None or not self.open:
                    break
                self.open.sort(key=lambda node: node.bound, reverse=True)
                count = max(1, self.batch // 2)
                children = [child for node in self.open[-count:] for child in node.children()]
                self.open = self.open[:-count] + self._bounded(children, STEPS)
                bar.advance(0, f"{self.nodes} domains, {len(self.open)} open")
        if self.met is not None:
            return "sat"
        return "unknown" if self.aside else "unsat"

    def _set_aside(self) -> None:
        """Decide the open domains in which every sign is fixed; those that stay open are set aside."""
        for node in [node for node in self.open if node.choice is None]:
            if self.met is None and not self._leaf(node):
                self.aside.append(node)
            self.open.remove(node)

    def _answer(self, verdict: Verdict) -> Answer:
        if verdict == "unsat":
            return Answer("unsat", None, self.nodes, 0.0)
        bound = min((node.bound for node in (*self.open, *self.aside) if node.bound > -torch.inf), default=None)
        return Answer(verdict, self.met, self.nodes, self._left(), self.suspect, bound, left=self._regions)

    def _regions(self) -> OpenRegions:
        return "signs", branch_arrays([*self.open, *self.aside])

    def _refined(self, open_: list[Branch], steps: int) -> list[Branch]:
        """Cases that the first bounds leave open, with hidden bounds that are ascended too; a proof keeps the first."""
        hidden = set(self.engine.bent) & self.engine.behind
        if not open_ or self.leaves is not None or not hidden:
            return open_ if self.start is None else self._bounded(open_, steps)
        refine = hidden_ascent(self.engine, HIDDEN_STEPS)
        self.root = self.engine.bounds(self.goal.domain(), refine=refine)
        return self._bounded(open_, steps)

    def _leaf(self, node: Branch) -> bool:
        """Whether a domain with every sign fixed is proved by the multipliers of its convex program."""
        batch = self._batch([node])
        row, _ = batch.weighted(batch.weights)
        point, betas = solve_leaf(self.engine, batch.known, row[0].to(batch.dtype), node.splits, self.limits)
        if point is not None:
            self.suspect = self.goal.placed(point.float()[None])[0]
            self.met = first_meeting(self.goal, self.network, self.suspect[None])
        splits = tuple((*split[:3], beta) for split, beta in zip(node.splits, betas, strict=True))
        batch = self._batch([replace(node, splits=splits)])
        self._settle(batch)
        return bool((batch.best > 0).all())

    def _batch(self, nodes: list[Branch]) -> SignBatch:
        return SignBatch(self.engine, self.goal, self.root, nodes, self.clips)

    def _settle(self, batch: SignBatch) -> None:
        """Final bounds of a batch; what they prove is written down where a proof is wanted."""
        batch.settle(single=self.leaves is not None)
        if self.leaves is not None:
            self.leaves += batch.proved_leaves()

    def _left(self) -> float:
        """The share of the tree that is open: a half for every split."""
        return sum(2.0 ** -len(node.splits) for node in (*self.open, *self.aside)) / self.goal.cases

    def _bounded(self, nodes: list[Branch], steps: int) -> list[Branch]:
        """Those of the nodes that are not proved, with their bounds and the ReLU to split next."""
        left: list[Branch] = []
        for start in range(0, len(nodes), self.batch):
            part = nodes[start : start + self.batch]
            self.nodes += len(part)
            batch = self._batch(part)
            ascend(batch, steps)
            if self.leaves is not None:
                self._settle(batch)
            self.met = self.met if self.met is not None else first_meeting(self.goal, self.network, batch.corners())
            if self.met is not None:
                return []
            rows = torch.nonzero(batch.best <= 0)[:, 0]
            if len(rows):
                left += batch.branches(rows, choose_splits(batch, rows, self.batch))
        return left


def choose_splits(batch: SignBatch, left: Tensor, most: int) -> list[tuple[int, int] | None]:
    """For each row the ReLU whose two halves bound best, among those that lose most.

    Returns:
        The ReLU's source value and coordinate; None where every sign is fixed.
    """
    losses = []
    for place, A in batch.meetings.items():
        if place not in batch.engine.relus:
            continue
        source = batch.sources[place]
        low, high = batch.known.lower[source][left], batch.known.upper[source][left]
        _, _, lift = batch.engine.relus[place].relaxation(low, high)
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
    best = _tried(batch, most, left, owner[spot], coordinate[spot], value)
    owners, places = owner[spot].tolist(), coordinate[spot].tolist()
    splittable = (value[:, 0] > 0).tolist()
    return [(owners[row][k], places[row][k]) if splittable[row] else None for row, k in enumerate(best.tolist())]


def _tried(batch: SignBatch, most: int, left: Tensor, owner: Tensor, place: Tensor, value: Tensor) -> Tensor:
    """Which candidate [rows, k] gives the best pair of bounds, by one backward pass each: [rows]."""
    count, tries = owner.shape
    parts = [
        _trial(batch, left[rows], owner[rows], place[rows])
        for rows in torch.arange(count).split(max(1, most // (2 * tries)))
    ]
    pairs = torch.cat(parts).clamp_max(0)  # [rows, k, 2]
    scores = pairs.sum(2) + 0.5 * pairs.amin(2)
    return torch.where(value > 0, scores, -torch.inf).nan_to_num(-1e30, -1e30, -1e30).argmax(1)


def _trial(batch: SignBatch, left: Tensor, owner: Tensor, place: Tensor) -> Tensor:
    """Bounds of both halves of each candidate: [rows, k, 2]."""
    count, tries = owner.shape
    rows = left.repeat_interleave(2 * tries)
    known = batch.known[rows]
    sign = torch.tensor([1, -1]).repeat(count * tries)
    owners, places = owner.flatten().repeat_interleave(2), place.flatten().repeat_interleave(2)
    for source in owners.unique().tolist():
        mine = owners == source
        spots = torch.nonzero(mine)[:, 0]
        known.fix_signs(source, spots, places[mine], sign[mine])
    full = {source: value[rows] for source, value in batch.full(batch.betas).items()}
    alphas = {number: slopes[rows] for number, slopes in batch.alphas.items()}
    matrix, offset = batch.weighted(batch.weights)
    output = batch.engine.program.output
    bound = batch.engine.lower(known, output, matrix.to(batch.dtype)[rows], None, alphas, full)
    return (bound - offset[rows]).view(count, tries, 2)
