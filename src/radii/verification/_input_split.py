"""Branch and bound over boxes of inputs, for networks with few inputs that move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.bounds.bound_engine import Engine
from radii.bounds.regions import Domain, ValueBounds
from radii.verification._clipping import clipped_to_cases
from radii.verification._counterexample_search import first_meeting
from radii.verification._goal import Goal, Runnable
from radii.verification.answer import Answer, Limits, OpenRegions, OutOfTimeError, Verdict
from radii.verification.proof import InputTree

BATCH = 512
FEWEST = 64  # boxes in a pass, as far as splitting can give them
ULPS, HALVINGS = 2.0**-22, 2.0**-40  # an input is not halved at this share of its size, or of its first width
SLOPES = 0.3  # how much the range of a line counts for the choice of an input, against what ReLUs lose


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
        network: the float32 network, for candidates.
        tree: is filled with the boxes; then each box is bounded from its own ends alone, as its checker does.
        start: ends and shares of the boxes that an earlier search left open; the rest of the box is proved.
    """
    search = _Search(engine, goal, network, limits, tree, start)
    try:
        verdict, met = search.run()
    except OutOfTimeError:
        return Answer("timeout", None, search.nodes, search.open, left=search.left)
    except KeyboardInterrupt:
        return Answer("unknown", None, search.nodes, search.open, interrupted=True, left=search.left)
    return Answer(verdict, met, search.nodes, search.open, left=search.left)


class _Search:
    """``nodes`` boxes were bounded so far; ``open`` is the share of the search that is left."""

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
        self.aside: list[_Boxes] = []  # open boxes that halving does not help
        self.nodes, self.open = 0, float(share.sum())
        self.smallest = HALVINGS * (goal.upper - goal.lower)

    def left(self) -> OpenRegions:
        """The boxes that are open."""
        parts = {
            name: torch.cat([getattr(boxes, name) for boxes in (*self.stack, *self.aside)])
            for name in ("lower", "upper", "share")
        }
        return "boxes", {name: value.numpy() for name, value in parts.items()}

    def run(self) -> tuple[Verdict, Tensor | None]:
        """Halve boxes until none is left to halve, a limit is reached, or an input meets a case."""
        with self.limits.task("splitting inputs") as bar:
            while self.stack:
                self.limits.check()
                if self.nodes >= self.limits.nodes:
                    return "unknown", None
                boxes, before = self.stack[-1], self.open
                rest = [boxes.part(slice(BATCH, None))] if len(boxes) > BATCH else []
                halves, met = self._bounded(boxes.part(slice(0, BATCH)))
                self.stack = [*self.stack[:-1], *rest, *([] if halves is None else [halves])]
                bar.advance(before - self.open, f"{self.nodes} boxes, {self.open:.2%} open")
                if met is not None:
                    return "sat", met
        if self.aside:
            return "unknown", None
        self.open = 0.0
        return "unsat", None

    def _bounded(self, boxes: _Boxes) -> tuple[_Boxes | None, Tensor | None]:
        """The halves of the boxes that are not proved, or an input that meets a case."""
        lines = _Lines.of(self.engine, self.goal, boxes)
        self.nodes += len(boxes)
        still = torch.nonzero(~self.goal.failing(lines.lowers).all(1))[:, 0]
        left = boxes.part(still)
        met = first_meeting(self.goal, self.network, _candidates(left, lines.slopes[still], self.goal.inside()))
        if met is not None:
            return None, met
        left.known = None if self.tree is not None else _read_by_bends(self.engine, lines.known[still])
        gain = lines.gain[still]
        if self.tree is None:
            low, high, kept = clipped_to_cases(
                self.goal, left.lower, left.upper, lines.lowers[still], lines.slopes[still]
            )
            gain = gain * ((high - low) / (left.upper - left.lower).clamp_min(1e-300))
            left.lower, left.upper = low, high
            left, gain, still = left.part(kept), gain[kept], still[kept]
        self.open -= float(boxes.share.sum() - left.share.sum())
        stuck = self._stuck(left, lines.most[still])
        if bool(stuck.any()):
            self.aside.append(left.part(torch.nonzero(stuck)[:, 0]))
            left, gain = left.part(torch.nonzero(~stuck)[:, 0]), gain[~stuck]
        return (_halved(left, gain, self.tree) if len(left) else None), None

    def _stuck(self, boxes: _Boxes, most: Tensor) -> Tensor:
        """Boxes [B] whose halves cannot be proved: no row's bound can rise above 0, or float32 has nothing between."""
        size = torch.maximum(boxes.lower.abs(), boxes.upper.abs())
        fine = boxes.upper - boxes.lower <= torch.maximum(ULPS * size, self.smallest)
        best = torch.full((len(most), self.goal.cases), -torch.inf, dtype=most.dtype)
        best = best.scatter_reduce(1, self.goal.case.expand(len(most), -1), most, "amax")
        return fine.all(1) | (best <= 0).any(1)


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


@dataclass(frozen=True)
class _Lines:
    """Lower lines of matrix . y - limit on boxes.

    ``lowers`` [B, rows] are their least values and ``slopes`` [B, rows, inputs] their slopes; ``most`` [B, rows] is
    what no bound of a part of the box can exceed, and ``gain`` [B, inputs] what halving an input may gain.
    """

    known: ValueBounds
    lowers: Tensor
    slopes: Tensor
    most: Tensor
    gain: Tensor

    @classmethod
    def of(cls, engine: Engine, goal: Goal, boxes: _Boxes) -> _Lines:
        """The lines on ``boxes``."""
        known = engine.bounds(Domain(boxes.lower, boxes.upper), boxes.known)
        count, rows = len(boxes), len(goal.limit)
        A = goal.matrix.to(engine.program.dtype).repeat(count, 1)
        dom = torch.arange(count).repeat_interleave(rows)
        meetings: dict[int, Tensor] = {}
        lowers = engine.lower(
            known, engine.program.output, A, dom, visit=lambda place, A: meetings.update({place: A.clone()})
        )
        slopes = meetings.pop(0, A.new_zeros(count * rows, len(goal.lower))).double().view(count, rows, -1)
        output = engine.program.output
        lost = (goal.matrix - A[:rows].double()).abs()  # by the rounding of the rows to float32
        reach = torch.maximum(known.lower[output].abs(), known.upper[output].abs()).double()
        lowers = lowers.view(count, rows) - goal.limit - 1.01 * reach @ lost.T
        width = boxes.upper - boxes.lower
        weights = _weights(goal, lowers)
        gain = SLOPES * (slopes.abs() * weights[:, :, None]).sum(1) * width
        most = lowers + (slopes.abs() * width[:, None]).sum(2)
        for place, coefficients in meetings.items():
            if place not in engine.relus:
                most = most + torch.inf
                continue
            loss = _loss(engine, known, place, coefficients.view(count, rows, -1))
            most = most + loss.sum(2)
            gain = gain + _attributed(engine, known, place, (loss * weights[:, :, None]).sum(1), width)
        return cls(known, lowers, slopes, most, gain)


def _weights(goal: Goal, lowers: Tensor) -> Tensor:
    """Every row of an open case counts: whichever of them fails first proves the case, [B, rows]."""
    return (~goal.failing(lowers)[:, goal.case]).double()


def _loss(engine: Engine, known: ValueBounds, place: int, A: Tensor) -> Tensor:
    """What a relaxed ReLU can take from each row [B, rows, d]: the chord's offset, or the gap below."""
    source = engine.program.steps[place].inputs[0]
    low, high = known.lower[source], known.upper[source]
    _, _, lift = engine.relus[place].relaxation(low, high)
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
