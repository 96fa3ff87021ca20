"""The true radius of a change: how strong it must be to change a prediction, between proved and broken.

With one parameter and a piecewise linear network the pieces are traced outward from 0, in both directions in turns,
until an answer comes within the slack of another class: the radius proved so far. There the network is run on the
changed float32 images; the first that has another class is the broken radius. Everything else (several parameters,
smooth activations) is decided by complete verification of the network behind the change.

What is proved: for every real t up to the radius, the network as float32 computes it gives the same class to the
float32 image that :meth:`radii.change.Change.apply` makes. Where the bound of all rounding would swallow the answers
(deep networks), rounding is measured instead, and the point is marked: its radius is that of the network in exact
arithmetic, with answers that differ by more than ``2 FACTOR`` times the largest difference between float32 and float64
that was met at ``SAMPLES`` strengths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite

import torch
from torch import Tensor, nn

from radii import progress
from radii.bounds.bound_engine import Engine
from radii.bounds.provably_robust import Bounded
from radii.change import Change
from radii.change_kinds import KINDS
from radii.change_pixels import ImagePath
from radii.errors import ContradictionError, InputError
from radii.models.classifier import check_inputs
from radii.networks.calling import ask, frozen, predicted_class
from radii.threat import Ball
from radii.verification._behind_change import behind
from radii.verification._carried_rounding import carried_rounding
from radii.verification._linear_pieces import Line, Pieces, TooManyPiecesError, is_piecewise_linear, traced
from radii.verification._runnable_network import Deployed
from radii.verification.answer import Limits, OutOfTimeError
from radii.verification.true_radius import TOLERANCE, RadiusBracket, decide, true_radii

FACTOR = 16.0  # times the measured rounding of a lead, which is twice that of a logit
SAMPLES = 32  # strengths at which rounding is measured
PIECES = 400  # aimed at in one part of the line
SHARE, SMALL = 0.5, 0.01  # of the answer's lead and of all answers' range: bounds of rounding above both are no use
CURVED = 1e-8  # how far a curve may be from its chords
SMALLEST = 1e-12  # part of the line
REGIONS, TRIALS = 4000, 8  # of a proof by splitting without a limit of seconds, and radii that are tried
ATTEMPTS, FINEST = 48, 1e-5  # at a stretch that the slack leaves open, and shares of the strength
BEYOND = tuple(10.0**-power for power in range(9, 0, -1))  # relative steps behind a boundary, to meet an error


@dataclass(frozen=True)
class ChangeBracket(RadiusBracket):
    """proved[i] <= true radius of the change <= broken[i]; an error just beyond the strength may close a bracket.

    ``measured[i]``: rounding was measured, not bounded. ``pieces[i]``: linear pieces that were traced.
    """

    measured: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    pieces: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))

    @property
    def note(self) -> str:
        """What a reader must know of measured rounding; empty if there is none."""
        count = int(self.measured.sum())
        return "" if not count else (
            f"For {count} of {len(self.measured)} points the bound of float32's rounding is too large to be of use: "
            f"rounding was measured, and answers differ by more than {2 * FACTOR:g} times the largest difference of "
            "float32 and float64 that was met. Their proved radii are those of the network in exact arithmetic."
        )  # fmt: skip


def change_radii(
    model: nn.Module,
    x: Tensor,
    change: Change,
    *,
    seconds: float = inf,
    pieces: int = 1 << 62,
    start: RadiusBracket | None = None,
) -> ChangeBracket:
    """Brackets of the true radius of ``change`` for the prediction at each input, up to its strength.

    Args:
        model: a float32 network from inputs to logits.
        x: images [n, …] in [0, 1]; never changed.
        change: with a strength up to which radii are asked for.
        seconds: for each input; default: no limit.
        pieces: that are traced for each input at most, or regions that are bounded; default: no limit.
        start: what is known already; its broken radii save work.

    Raises:
        InputError: the change cannot be proved, or the network cannot be bounded.
    """
    if change.form == "attack":
        raise InputError(f"For {change.words} there is no proof, only the attack: leave proofs out (--no-certify).")
    check_inputs(x)
    bounded = Bounded(model, tuple(x.shape[1:]))
    prediction = bounded.predict(x).cpu()
    x = x.cpu().float()
    if start is None:
        none = torch.full((len(x),), inf, dtype=torch.float64)
        start = RadiusBracket(prediction, torch.zeros(len(x), dtype=torch.float64), none, x.clone())
    other = is_piecewise_linear(bounded.exact)
    if change.parameters > 1 or other is not None:
        return _split(model, x, change, prediction, start, (seconds, min(pieces, REGIONS)))
    proved, broken, nearest = start.proved.clone(), start.broken.clone(), start.nearest.clone()
    measured, counts = torch.zeros(len(x), dtype=torch.bool), torch.zeros(len(x), dtype=torch.int64)
    with progress.task("tracing pieces", len(x), "points") as bar, torch.no_grad(), frozen(model):
        for i, label in enumerate(prediction.tolist()):
            if label >= 0 and change.radius > 0 and float(broken[i]) > 0:
                point = _Point.of(bounded, change, x[i : i + 1], label, float(broken[i]))
                point.close(Limits.of_seconds(seconds, pieces))
                _check(point, i)
                proved[i] = max(float(proved[i]), point.proved)
                if point.broken < float(broken[i]):
                    broken[i], nearest[i] = point.broken, point.nearest[0]
                measured[i], counts[i] = point.engine is None, point.pieces
            bar.advance()
    return ChangeBracket(prediction, torch.minimum(proved, broken), broken, nearest, measured, counts)


def _check(point: _Point, number: int) -> None:
    """An error that was known must stand in the way of the proof; measured rounding gives way to it.

    A reach of 0 proves nothing: a near tie may change its class with the batch it is computed in.
    """
    reach = min(point.reach.values())
    if point.engine is not None and reach > 0 and reach >= point.broken:
        raise ContradictionError(
            f"Point {number} is proved for strengths up to {reach:.6g} and broken at "
            f"{point.broken:.6g} ({point.path.change}). The certificate or its model is wrong."
        )


@dataclass
class _Point:
    """One image, its brackets so far, and how it is traced. ``reach`` has the proved |t| of both directions."""

    bounded: Bounded
    path: ImagePath
    label: int
    engine: Engine | None  # for the slack; None where rounding is measured
    slack: float  # the measured one
    broken: float
    nearest: Tensor
    reach: dict[float, float]
    step: float
    pieces: int = 0
    stuck: float = inf  # |t| behind which nothing is proved

    @classmethod
    def of(cls, bounded: Bounded, change: Change, x: Tensor, label: int, broken: float) -> _Point:
        """The point before anything is traced."""
        sides = (1.0, -1.0) if change.signed[0] else (1.0,)
        path = change.path(x)
        engine = Engine(bounded.exact) if bounded.engine.program.dtype == torch.float32 else None
        whole = change.strength
        return cls(
            bounded, path, label, engine, 0.0, broken, x.clone(), dict.fromkeys(sides, 0.0), whole / 256
        )  # fmt: skip

    @property
    def proved(self) -> float:
        """The radius that is proved in every direction."""
        return min(*self.reach.values(), self.stuck, self.broken)

    @property
    def limit(self) -> float:
        """Nothing behind it is of interest."""
        return min(self.path.change.strength, self.broken, self.stuck)

    def close(self, limits: Limits) -> None:
        """Trace both directions in turns until an error, the whole strength, or the limits."""
        try:
            self._choose_rounding(limits)
            while (open_ := [side for side, t in self.reach.items() if t < self.limit]) and self.pieces < limits.nodes:
                side = min(open_, key=lambda own: self.reach[own])
                limits.check()
                self._advance(side, limits)
            if self.broken == inf and self.pieces < limits.nodes:
                self._look_beyond(limits)
        except OutOfTimeError:
            return

    def _look_beyond(self, limits: Limits) -> None:
        """Meet an error so little beyond the strength that the bracket closes, where rounding left the last part open.

        The true radius is then known, though the strength itself is neither proved nor broken.
        """
        far = min(self.proved / (1 - TOLERANCE), KINDS[self.path.change.kind].most)
        for side, reached in self.reach.items() if self.proved < self.path.change.strength < far else ():
            try:
                part = self._trace(side * reached, side * far, limits)
            except TooManyPiecesError:
                continue
            self.pieces += len(part.nodes)
            self._look_behind(side, self._safe(part, side)[1], far)

    def _choose_rounding(self, limits: Limits) -> None:
        """Measure rounding where its bound at strength 0 is large beside the answers, and beside the smallest lead."""
        if self.engine is not None:
            start = self._trace(0.0, min(1e-9, self.limit), limits)
            slack, spread = float(self._slacks(start).max()), float(start.outputs[0].max() - start.outputs[0].min())
            if slack < max(SHARE * float(self._leads(start)[0].min()), SMALL * spread):
                return
            self.engine = None
        t = torch.linspace(-1, 1, SAMPLES, dtype=torch.float64)[:, None] * self.path.change.strength
        t = t if self.path.change.signed[0] else t.abs()
        images = torch.cat([self.path.at(row[None]) for row in t])
        exact = self.bounded.exact.run(images.double())
        off = (torch.cat([self._scores(image[None]) for image in images]).double() - exact).abs().max()
        self.slack = FACTOR * 2 * float(off)

    def _scores(self, images: Tensor) -> Tensor:
        return ask(self.bounded.scores, images)

    def _advance(self, side: float, limits: Limits) -> None:
        """Trace one more part of one direction, and see how far the answer is safe."""
        begin = self.reach[side]
        end = min(begin + self.step, self.limit)
        try:
            part = self._trace(side * begin, side * end, limits)
        except TooManyPiecesError:
            self.step /= 2
            if self.step < SMALLEST * max(1.0, self.path.change.strength):
                self.stuck = min(self.stuck, begin)
            return
        self.pieces += len(part.nodes)
        self.step *= min(4.0, max(0.25, PIECES / len(part.nodes)))
        safe, met = self._safe(part, side)
        if not self._agrees(part):
            safe = begin
        self.reach[side] = max(begin, safe)
        if safe < end:
            self._look_behind(side, met, self.path.change.strength)
            self._prove_open(side, end, limits)

    def _prove_open(self, side: float, end: float, limits: Limits) -> None:
        """What the slack left open, up to ``end`` or just below an error, in shorter parts: fewer kinks, less slack."""
        safe, aim = self.reach[side], min(end, self.broken * (1 - TOLERANCE / 4))
        width = aim - safe
        for _ in range(ATTEMPTS if self.engine is not None else 0):
            if self.reach[side] >= aim or width < FINEST * self.path.change.strength:
                break
            last = min(aim, self.reach[side] + width)
            try:
                part = self._trace(side * self.reach[side], side * last, limits)
            except TooManyPiecesError:
                width /= 2
                continue
            self.pieces += len(part.nodes)
            reached = self._safe(part, side)[0]
            self.reach[side] = max(self.reach[side], reached)
            width = width if reached >= last else width / 4
        given_up = self.engine is None or width < FINEST * self.path.change.strength
        if self.reach[side] == safe or (given_up and self.reach[side] < aim):
            self.stuck = min(self.stuck, self.reach[side])

    def _rows(self) -> Tensor:
        """Coefficients of the outputs that give the leads: [classes - 1, classes]."""
        rows = -torch.eye(self.bounded.classes, dtype=torch.float64)
        rows[:, self.label] += 1
        return rows[[other for other in range(len(rows)) if other != self.label]]

    def _trace(self, first: float, last: float, limits: Limits) -> Pieces:
        """The pieces between two strengths, in the order of rising t."""
        low, high = min(first, last), max(first, last)
        curvature = self.path.curvature().flatten()
        step = high - low if float(curvature.max()) == 0 else (8 * CURVED / float(curvature.max())) ** 0.5
        count = min(1 << 12, max(1, int((high - low) / step) + 1))
        nodes = torch.linspace(low, high, count + 1, dtype=torch.float64)
        nodes[-1] = high
        images = torch.cat([self.path.before_clip(t[None, None]).flatten(1) for t in nodes])
        line = Line(nodes, images, curvature * ((high - low) / count) ** 2 / 8 * 1.01)
        program = self.bounded.engine.program if self.engine is None else self.bounded.exact
        return traced(program, line, self.engine, limits.check)

    def _leads(self, part: Pieces) -> Tensor:
        """By how much the label's score exceeds the others', at the nodes: [b, classes - 1]."""
        others = [other for other in range(part.outputs.shape[1]) if other != self.label]
        outputs = part.outputs.double()
        return outputs[:, self.label, None] - outputs[:, others]

    def _slacks(self, part: Pieces) -> Tensor:
        """By how much each lead must exceed 0: [classes - 1]; the better of two bounds of all rounding."""
        others = [other for other in range(part.outputs.shape[1]) if other != self.label]
        if part.slack is None:
            return torch.full((len(others),), self.slack + self.bounded.margin, dtype=torch.float64)
        carried = carried_rounding(self.bounded.exact, part, self._rows())
        summed = part.slack[self.label] + part.slack[others]
        return torch.where(carried < summed, carried, summed) + self.bounded.margin  # NaN is no bound

    def _safe(self, part: Pieces, side: float) -> tuple[float, float]:
        """|t| up to which every lead exceeds its slack, and |t| at which one of them is 0 (infinite if none is)."""
        leads, nodes, slacks = self._leads(part), part.nodes, self._slacks(part)
        if side < 0:
            leads, nodes = leads.flip(0), -nodes.flip(0)
        return _first_below(nodes, leads - slacks), _first_below(nodes, leads, inf)

    def _agrees(self, part: Pieces) -> bool:
        """Whether the network as it runs is within the slack of the traced pieces, in the middle of some of them."""
        rows = torch.linspace(0, len(part.nodes) - 2, 3).long()
        t = (part.nodes[rows] + part.nodes[rows + 1]) / 2
        middle = (part.outputs[rows].double() + part.outputs[rows + 1].double()) / 2
        own = torch.cat([self._scores(self.path.at(one[None, None])) for one in t]).double()
        off = (own - middle).abs()
        if part.slack is None:
            return bool((off <= self.slack / 2).all())
        if bool((off > part.slack).any()):
            raise InputError("The network cannot be traced: it does not compute what was read from it.")
        return True

    def _look_behind(self, side: float, met: float, far: float) -> None:
        """Run the network on images behind the safe part of one direction; the first error is the broken radius.

        Args:
            met: |t| at which a lead is 0.
            far: the largest |t| that is of interest.
        """
        safe = self.reach[side]
        starts = [own for own in (met, safe) if isfinite(own)]
        tries = sorted({own * (1 + more) for own in starts for more in (0.0, *BEYOND)} | {s + 1e-9 for s in starts})
        for t in tries:
            if safe <= t < min(self.broken, far * (1 + 1e-12)):
                image = self.path.at(torch.tensor([[side * min(t, far)]], dtype=torch.float64))
                if int(predicted_class(ask(self.bounded.model, image))) not in (self.label, -1):
                    self.broken, self.nearest = min(t, far), image
                    return


def _first_below(nodes: Tensor, values: Tensor, none: float | None = None) -> float:
    """The first t at which one of ``values`` [b, k], affine between ``nodes``, is not above 0, rounded down.

    If there is none, ``none``; by default the last node.
    """
    below = (values <= 0).any(1)
    if not bool(below.any()):
        return float(nodes[-1]) if none is None else none
    row = int(below.long().argmax())
    if row == 0:
        return float(nodes[0])
    high, low = values[row - 1], values[row]
    share = torch.where(low <= 0, high / (high - low).clamp_min(1e-300), 1.0).min()
    t = nodes[row - 1] + (nodes[row] - nodes[row - 1]) * share * (1 - 1e-12)
    return float(max(nodes[row - 1], t))


def _split(
    model: nn.Module,
    x: Tensor,
    change: Change,
    prediction: Tensor,
    start: RadiusBracket,
    limits: tuple[float, int],
) -> ChangeBracket:
    """Brackets by complete verification of the network behind the change, whose parameters are split.

    Args:
        limits: seconds and regions for each input.
    """
    if change.form != "line":
        raise InputError(f"{change.kind} is proved for piecewise linear networks (ReLU and the like) only.")
    proved, broken, nearest = start.proved.clone(), start.broken.clone(), start.nearest.clone()
    for i, label in enumerate(prediction.tolist()):
        if label < 0 or change.radius == 0 or float(broken[i]) == 0:
            continue
        path = change.path(x[i : i + 1])
        share = _shares(model, path, label, limits, float(broken[i]) / change.radius)
        reached = float(share.proved[0])
        size = change.radius if reached >= 1 else reached * change.radius * (1 - 1e-12)
        proved[i] = max(float(proved[i]), size)
        t = share.nearest.double().clamp(-1, 1) * torch.tensor(change.strengths, dtype=torch.float64)
        t = torch.where(torch.tensor(change.signed), t, t.clamp_min(0))
        image, size = path.at(t), float(change.radius_of(t)[0])
        with torch.no_grad(), frozen(model):
            other = int(predicted_class(ask(model, image))) not in (label, -1)
        if other and size < float(broken[i]):
            broken[i], nearest[i] = size, image[0]
    none = torch.zeros(len(x), dtype=torch.int64)
    return ChangeBracket(prediction, torch.minimum(proved, broken), broken, nearest, none > 0, none)


def _shares(model: nn.Module, path: ImagePath, label: int, limits: tuple[float, int], known: float) -> RadiusBracket:
    """The bracket of one image in shares of the threat."""
    network, count = behind(model, path), path.change.parameters
    center, seconds = torch.zeros(1, count), limits[0]
    if seconds < inf:
        with frozen(model):
            return true_radii(network, center, 1.0, norm="linf", box=None, seconds=seconds)
    deployed = Deployed.of(network, (count,))
    with torch.no_grad():
        classes = deployed.run(center).shape[1]
    low, high, met = 0.0, min(1.0, known), center
    trial = high if known > 1 else high * (1 - TOLERANCE / 2)
    for _ in range(TRIALS):  # by count alone, so that no clock decides
        limits_here = Limits(nodes=limits[1] // TRIALS)
        answer = decide(deployed, center, label, classes, Ball("linf", trial, None), limits_here)
        if answer.verdict == "unsat":
            low = trial
        elif answer.counterexample is not None:
            met = answer.counterexample.view(1, -1)
            high = min(high, float(met.abs().max()))
        else:
            high = trial
        if low >= min(1.0, high) * (1 - TOLERANCE):
            break
        trial = (low + high) / 2
    none = torch.tensor([inf], dtype=torch.float64)
    return RadiusBracket(torch.tensor([label]), torch.tensor([low], dtype=torch.float64), none, met)
