"""Branch and bound over boxes of inputs, for networks with few inputs that move."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.rows import Domain, ValueBounds, relu_lines
from radii.certificates.complete.answer import Answer, Limits, OpenRegions, Verdict
from radii.certificates.complete.goal import Goal, Runnable
from radii.certificates.complete.proof import InputTree
from radii.certificates.complete.search import first_meeting

BATCH = 512
SMALLEST = 2.0**-60  # share of a box whose bounds will not get better by splitting
FEWEST = 64  # boxes in a pass, as far as splitting can give them


@dataclass
class _Boxes:
    """Open boxes [B, inputs], bounds of the values that ReLUs read on them, and the share of the volume each has."""

    lower: Tensor
    upper: Tensor
    known: ValueBounds | None
    share: Tensor
    number: Tensor  # in the tree of boxes

    def __len__(self) -> int:
        return len(self.lower)

    def part(self, rows: Tensor | slice) -> _Boxes:
        known = None if self.known is None else self.known[rows]
        return _Boxes(self.lower[rows], self.upper[rows], known, self.share[rows], self.number[rows])


def split_inputs(
    engine: Engine,
    goal: Goal,
    network: Runnable,
    limits: Limits,
    tree: InputTree | None = None,
    start: dict[str, NDArray[Any]] | None = None,
) -> Answer:
    """Prove a goal, or find an input that meets a case, by halving boxes where the bound gains most.

    Args:
        engine: bounds of the network.
        goal: the box and its cases.
        network: the float32 network, for candidates.
        limits: limits of time and boxes.
        tree: is filled with the boxes; then each box is bounded from its own ends alone, as its checker does.
        start: ends and shares of the boxes that an earlier search left open; the rest of the box is proved.
    """
    search = _Search(engine, goal, network, limits, tree, start)
    try:
        verdict, met = search.run()
    except KeyboardInterrupt:
        share = sum(float(boxes.share.sum()) for boxes in search.stack)
        return Answer("unknown", None, search.nodes, share, interrupted=True, left=search.left)
    return Answer(verdict, met, search.nodes, search.open, left=search.left)


class _Search:
    """``nodes`` boxes were bounded so far; ``open`` is the share of the volume that is left."""

    def __init__(
        self,
        engine: Engine,
        goal: Goal,
        network: Runnable,
        limits: Limits,
        tree: InputTree | None,
        start: dict[str, NDArray[Any]] | None,
    ) -> None:
        self.engine, self.goal, self.network, self.limits, self.tree = engine, goal, network, limits, tree
        low, high = (end[None] for end in goal.reach())
        share = torch.ones(1, dtype=torch.float64)
        if start is not None:
            low, high, share = (torch.from_numpy(start[name]) for name in ("lower", "upper", "share"))
        self.stack = [_Boxes(low, high, None, share, torch.zeros(len(low), dtype=torch.int64))]
        self.nodes, self.open = 0, float(share.sum())

    def left(self) -> OpenRegions:
        """The boxes that are open."""
        parts = {
            name: torch.cat([getattr(boxes, name) for boxes in self.stack]) for name in ("lower", "upper", "share")
        }
        return "boxes", {name: value.numpy() for name, value in parts.items()}

    def run(self) -> tuple[Verdict, Tensor | None]:
        """Halve boxes until none is open, a limit is reached, or an input meets a case."""
        with self.limits.task("splitting inputs") as bar:
            while self.stack:
                if monotonic() > self.limits.deadline:
                    return "timeout", None
                boxes = self.stack[-1]
                if self.nodes >= self.limits.nodes or float(boxes.share.min()) < SMALLEST:
                    return "unknown", None
                rest = [boxes.part(slice(BATCH, None))] if len(boxes) > BATCH else []
                before = self.open
                halves, met = self._bounded(boxes.part(slice(0, BATCH)))
                self.stack = [*self.stack[:-1], *rest, *([] if halves is None else [halves])]
                bar.advance(before - self.open, f"{self.nodes} boxes, {self.open:.2%} open")
                if met is not None:
                    return "sat", met
        self.open = 0.0
        return "unsat", None

    def _bounded(self, boxes: _Boxes) -> tuple[_Boxes | None, Tensor | None]:
        """The halves of the boxes that are not proved, or an input that meets a case."""
        self.nodes += len(boxes)
        known, lowers, slopes, gain = _bounded(self.engine, self.goal, boxes)
        still = torch.nonzero(~self.goal.failing(lowers).all(1))[:, 0]
        self.open -= float(boxes.share.sum() - boxes.share[still].sum())
        if len(still) == 0:
            return None, None
        boxes = boxes.part(still)
        boxes.known = None if self.tree is not None else _read_by_bends(self.engine, known[still])
        candidates = _candidates(boxes, slopes[still], self.goal.inside())
        met = first_meeting(self.goal, self.network, candidates)
        return (None, met) if met is not None else (_halved(boxes, gain[still], self.tree), None)


def _read_by_bends(engine: Engine, known: ValueBounds) -> ValueBounds:
    """Only the bounds that children use."""
    kept = set(engine.bent)
    return ValueBounds(
        known.domain,
        {number: value for number, value in known.lower.items() if number in kept},
        {number: value for number, value in known.upper.items() if number in kept},
        {},
        known.finite,
    )


def _bounded(engine: Engine, goal: Goal, boxes: _Boxes) -> tuple[ValueBounds, Tensor, Tensor, Tensor]:
    """Bounds of all values, of matrix . y - limit [B, rows], the rows' slopes [B, rows, inputs], and gains."""
    known = engine.bounds(Domain(boxes.lower, boxes.upper), boxes.known)
    count, rows = len(boxes), len(goal.limit)
    A = goal.matrix.to(engine.program.dtype).repeat(count, 1)
    dom = torch.arange(count).repeat_interleave(rows)
    meetings: dict[int, Tensor] = {}
    lowers = engine.lower(
        known, engine.program.output, A, dom, visit=lambda place, A: meetings.update({place: A.clone()})
    )
    slopes = (
        meetings.pop(0).double().view(count, rows, -1) if 0 in meetings else A.new_zeros(count, rows, len(goal.lower))
    )
    lowers = lowers.view(count, rows) - goal.limit
    weights = _weights(goal, lowers)
    gain = (slopes.abs() * weights[:, :, None]).sum(1) * (boxes.upper - boxes.lower)
    for place, coefficients in meetings.items():
        loss = (_loss(engine, known, place, coefficients.view(count, rows, -1)) * weights[:, :, None]).sum(1)
        gain = gain + _attributed(engine, known, place, loss, boxes.upper - boxes.lower)
    return known, lowers, slopes, gain


def _weights(goal: Goal, lowers: Tensor) -> Tensor:
    """The row of each open case that is nearest to fail counts; the others do not."""
    best = torch.full((len(lowers), goal.cases), -torch.inf, dtype=lowers.dtype)
    best = best.scatter_reduce(1, goal.case.expand(len(lowers), -1), lowers, "amax")
    return ((lowers == best[:, goal.case]) & (lowers <= 0)).double()


def _loss(engine: Engine, known: ValueBounds, place: int, A: Tensor) -> Tensor:
    """What a relaxed ReLU can take from each row [B, rows, d]: the chord's offset, or the gap below."""
    layer = engine.relus.get(place)
    if layer is None:
        return torch.zeros_like(A).double()
    source = engine.program.steps[place].inputs[0]
    low, high = known.lower[source], known.upper[source]
    _, _, lift = relu_lines(layer, low, high)
    gap = torch.where(lift > 0, torch.minimum(high, -low), 0.0)
    return (A.clamp_min(0) * gap[:, None] - A.clamp_max(0) * lift[:, None]).double()


def _attributed(engine: Engine, known: ValueBounds, place: int, loss: Tensor, width: Tensor) -> Tensor:
    """The loss of each ReLU [B, d], shared among the inputs by how much they move what it reads: [B, inputs]."""
    source = engine.program.steps[place].inputs[0]
    total = torch.zeros_like(width)
    if source in known.forms:
        dom, spot, form = known.forms[source]
        part = form.double().abs() * width[dom]
        part = part / part.sum(1, keepdim=True).clamp_min(1e-300) * loss[dom, spot][:, None]
        return total.index_add_(0, dom, part)
    if source in engine.behind or len(width) == 0:
        return total
    form = engine.first_form(source).double().abs()  # [d, inputs]
    reach = (width @ form.T).clamp_min(1e-300)
    return (loss / reach) @ form * width


def _candidates(boxes: _Boxes, slopes: Tensor, inside: tuple[Tensor, Tensor]) -> Tensor:
    """The middle of each box, and the corner where each lower line is least."""
    low, high = boxes.lower[:, None], boxes.upper[:, None]
    corners = torch.where(slopes > 0, low, high).flatten(0, 1)
    return torch.cat([(boxes.lower + boxes.upper) / 2, corners]).float().clamp(*inside)


def _halved(boxes: _Boxes, gain: Tensor, tree: InputTree | None) -> _Boxes:
    """Each box in two, along the input with the largest gain; again while there are few boxes."""
    while True:
        width = boxes.upper - boxes.lower
        place = torch.where(width > 0, gain + 1e-30 * width, -1.0).argmax(1)
        row = torch.arange(len(boxes))
        middle = (boxes.lower[row, place] + boxes.upper[row, place]) / 2
        left_upper, right_lower = boxes.upper.clone(), boxes.lower.clone()
        left_upper[row, place] = middle
        right_lower[row, place] = middle
        twice = torch.cat([row, row])
        known = None if boxes.known is None else boxes.known[twice]
        number = boxes.number[twice] if tree is None else tree.cut(boxes.number, place, middle)
        lower, upper = torch.cat([boxes.lower, right_lower]), torch.cat([left_upper, boxes.upper])
        boxes = _Boxes(lower, upper, known, boxes.share[twice] / 2, number)
        gain[row, place] /= 2
        gain = gain[twice]
        if len(boxes) >= FEWEST:
            return boxes
