"""What an attack is, and the engine that all of them run on.

Points leave the batch the moment they are broken and waiting points take their
place. The model is in eval mode with frozen parameters while it is attacked and
stays as it was before. Searches clip their points to the ball up to rounding; a success
counts only if the float32 input, projected exactly into ball and box, is misclassified
again in another batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Protocol, TypeVar

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from radii import progress
from radii.attacks.losses import targeted_margin
from radii.attacks.point_randomness import derived, point_seeds
from radii.models.classifier import channels_last, check_inputs, check_labels, input_gradient
from radii.networks.calling import ask, frozen, predicted_class
from radii.threat import Ball


@dataclass(frozen=True)
class AttackResult:
    """Adversarial inputs and which of them break the model.

    ``broken[i]`` is true only if ``x_adv[i]``, as returned in float32, lies in
    the ball and box and is misclassified when predicted again in eval mode.
    Unbroken rows hold the clean input. ``queries`` counts images through the
    network, forward passes and backward passes alike, per point.
    """

    x_adv: Tensor  # [n, …] float32
    broken: Tensor  # [n] bool
    queries: Tensor  # [n] int64

    def __repr__(self) -> str:
        return f"AttackResult({int(self.broken.sum())} of {len(self.broken)} points broken: x_adv, broken, queries)"


class Attack(Protocol):
    """Searches the ball around each input for a point that the model gets wrong."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x`` [n, …] with true labels ``y`` [n]."""


@dataclass(frozen=True)
class State:
    """Rows under attack. Every field is a tensor [m, …]; rows are cut and joined together."""

    index: Tensor  # [m] which point of the trial
    x: Tensor  # [m, …] its clean input
    y: Tensor  # [m] its label
    point: Tensor  # [m, …] what to ask the model next
    steps_done: Tensor  # [m] steps taken in this run


S = TypeVar("S", bound=State)


def rows(state: S, keep: Tensor) -> S:
    """The rows of ``state`` where ``keep`` [m] is true."""
    return replace(state, **{field.name: getattr(state, field.name)[keep] for field in fields(state)})


def joined(first: S, second: S) -> S:
    """The rows of ``first``, then those of ``second``."""
    both = {field.name: torch.cat([getattr(first, field.name), getattr(second, field.name)]) for field in fields(first)}
    return replace(first, **both)


@dataclass(frozen=True)
class NewPoints:
    """Points about to enter a search."""

    index: Tensor  # [m]
    x: Tensor  # [m, …]
    y: Tensor  # [m]
    seed: Tensor  # [m] int64, of this point in this run
    logits: Tensor  # [m, classes] at the clean input


class Search(Protocol[S]):
    """One run of an attack: where each row starts and where it asks next.

    ``advance`` sees the logits (and the gradient of ``objective``) at
    ``state.point`` and returns the state with the next point and one more step done. A row
    that has done ``steps`` ends; its last point is checked with the others'.
    """

    @property
    def steps(self) -> int:
        """The number of steps after which a row ends."""

    def begin(self, fresh: NewPoints) -> S:
        """The state of rows that enter."""

    def wants_gradient(self, state: S) -> Tensor:
        """Which rows need the gradient of ``objective`` with the next answer: [m] bool."""

    def objective(self, logits: Tensor, state: S) -> Tensor:
        """What the run raises, per row: [m]."""

    def advance(self, state: S, logits: Tensor, gradient: Tensor) -> S:
        """The next question; ``gradient`` is 0 in rows that did not want it, and empty if none did."""


class GradientSearch:
    """The part of a :class:`Search` that asks for a gradient every time."""

    def wants_gradient(self, state: State) -> Tensor:
        """All rows."""
        return torch.ones_like(state.index, dtype=torch.bool)


class ForwardSearch:
    """The part of a :class:`Search` that needs no gradient of the attacked model."""

    def wants_gradient(self, state: State) -> Tensor:
        """No row."""
        return torch.zeros_like(state.index, dtype=torch.bool)

    def objective(self, logits: Tensor, state: State) -> Tensor:
        """The cross-entropy; nothing uses it."""
        return F.cross_entropy(logits, state.y, reduction="none")


Wrong = Callable[[Tensor, Tensor], Tensor]


def misclassified(prediction: Tensor, y: Tensor) -> Tensor:
    """Untargeted success: a ``prediction`` other than ``y``; NaN logits (-1) count as an error of the model."""
    return prediction != y


def hit(prediction: Tensor, y: Tensor) -> Tensor:
    """Targeted success: the ``prediction`` is the class ``y``."""
    return prediction == y


class AttackRun:
    """One attack on some points: a clean pass, then searches (:meth:`search`), then the result."""

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        ball: Ball,
        generator: Generator,
        batch_size: int,
        succeeded: Wrong = misclassified,
    ) -> None:
        check_inputs(x, ball.box)
        self.model, self.x, self.y, self.ball = model, x.detach().float(), y, ball
        self.batch_size, self.succeeded = batch_size, succeeded
        self.near = ball.with_radius(ball.radius * (1 + 1e-6) + 1e-7)  # what the rounding of a search may reach
        self.seeds = point_seeds(self.x, y, generator)
        self.queries = torch.zeros(len(y), dtype=torch.int64, device=x.device)
        self.x_adv = self.x.clone()
        with frozen(model):
            self.clean_logits = self._logits(self.x, torch.arange(len(y), device=x.device))
        check_labels(y, self.clean_logits)
        self.broken = succeeded(predicted_class(self.clean_logits), y)
        self._layout = channels_last(model)

    @torch.no_grad()
    def search(self, search: Search[S], run: int, what: str, keep_broken: bool = False) -> None:
        """Run ``search`` on the points that are still unbroken.

        ``run`` names the run's random numbers, ``what`` the work on the progress bar. With ``keep_broken`` a broken row
        continues to the end of its budget (a search for the smallest perturbation); such a search has its
        best input in ``state.point`` at the end.
        """
        waiting = torch.nonzero(~self.broken).squeeze(1)
        with frozen(self.model), progress.task(what, total=len(waiting), unit="points") as task:
            state: S | None = None
            ended: list[State] = []
            while len(waiting) or state is not None:
                state, waiting = self._refilled(search, state, waiting, run)
                before = len(state.y)
                state = self._asked(search, state, keep_broken)
                if state is not None and bool((old := state.steps_done >= search.steps).any()):
                    ended.append(State(*(getattr(rows(state, old), field.name) for field in fields(State))))
                    state = rows(state, ~old) if not bool(old.all()) else None
                left = len(waiting) + (0 if state is None else len(state.y))
                task.advance(
                    before - (0 if state is None else len(state.y)),
                    note=f"{int(self.broken.sum())} broken, {left} to go",
                )
            if ended:
                self._confirm(torch.cat([rest.index for rest in ended]), torch.cat([rest.point for rest in ended]))

    def are_broken(self, index: Tensor, points: Tensor) -> Tensor:
        """Whether ``points`` [m, …], each of the point ``index`` [m], are errors; one query each: [m] bool."""
        return self.succeeded(predicted_class(self._logits(points, index)), self.y[index])

    def confirm(self, index: Tensor, candidates: Tensor) -> None:
        """Count those ``candidates`` as successes that break their point inside the ball, asked again twice."""
        close = torch.nonzero(self.near.contains(candidates, self.x[index]))[:, 0]
        if len(close):
            self._confirm(index[close], candidates[close])

    def result(self) -> AttackResult:
        """Inputs, successes and queries of all searches so far."""
        return AttackResult(self.x_adv, self.broken, self.queries)

    def _refilled(self, search: Search[S], state: S | None, waiting: Tensor, run: int) -> tuple[S, Tensor]:
        """Refill the batch from the waiting points when a quarter of it is free, to avoid tiny batches."""
        room = self.batch_size - (0 if state is None else len(state.y))
        if not len(waiting) or (state is not None and room < min(len(waiting), max(1, self.batch_size // 4))):
            assert state is not None
            return state, waiting
        index, waiting = waiting[:room], waiting[room:]
        seeds = derived(self.seeds[index], run)
        fresh = self._kept(
            search.begin(NewPoints(index, self.x[index], self.y[index], seeds, self.clean_logits[index]))
        )
        return (fresh if state is None else joined(state, fresh)), waiting

    def _asked(self, search: Search[S], state: S, keep_broken: bool) -> S | None:
        """Ask the model once for every row; broken rows leave (None if all did)."""
        asked = self._settled(state)
        logits, gradient = self._answer(search, asked)
        if not keep_broken:
            claimed = self.succeeded(predicted_class(logits), state.y)
            if bool(claimed.any()):
                claimed[claimed.clone()] = self.near.contains(asked.point[claimed], state.x[claimed])
                gone = torch.zeros_like(claimed)
                gone[claimed] = self._confirm(state.index[claimed], asked.point[claimed], times=1)
                if bool(gone.all()):
                    return None
                state, logits = rows(state, ~gone), logits[~gone]
                gradient = gradient[~gone] if len(gradient) else gradient
        return self._kept(search.advance(state, logits.to(state.point.dtype), gradient))  # points stay float32

    def _kept(self, state: S) -> S:
        """The state with the ball's fixed features unchanged."""
        return replace(state, point=self.ball.keep_fixed(state.point, state.x)) if self.ball.fixed else state

    def _settled(self, state: S) -> S:
        """The rows that the model is asked: numbers and categories are whole and relations hold, between steps too.

        A search goes on from its own point, so that small steps add up to a whole one.
        """
        limits = self.ball.limits
        if not (limits.whole or limits.groups or limits.relations):
            return state
        return replace(state, point=self.ball.project(state.point, state.x))

    def _answer(self, search: Search[S], state: S) -> tuple[Tensor, Tensor]:
        """Logits at the rows' points and, where wanted, the gradient of the objective there."""
        wanted = search.wants_gradient(state)
        self.queries[state.index] += 1 + wanted.long()
        if not bool(wanted.any()):
            return self._without_gradient(state.point), state.point.new_empty(0)
        if bool(wanted.all()):
            return self._differentiated(search, state)
        gradient = torch.zeros_like(state.point)
        part, gradient[wanted] = self._differentiated(search, rows(state, wanted))
        logits = part.new_empty(len(wanted), part.shape[1])
        logits[wanted], logits[~wanted] = part, self._without_gradient(state.point[~wanted])
        return logits, gradient

    def _without_gradient(self, points: Tensor) -> Tensor:
        with self._layout():
            return ask(self.model, points)

    def _differentiated(self, search: Search[S], state: S) -> tuple[Tensor, Tensor]:
        with torch.enable_grad(), self._layout():
            point = state.point.detach().requires_grad_()
            logits = ask(self.model, point)
            gradient = input_gradient(search.objective(logits, state).sum(), point)
        gradient = gradient.nan_to_num(0.0, 0.0, 0.0)  # not in place: it may be expanded, or be a weight
        return logits.detach(), self.ball.keep_fixed(gradient, torch.zeros_like(gradient))

    def slope(self, rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """z_t - z_y at the clean inputs of ``rows`` [m] for the classes ``target`` t [m], and its gradient."""
        self.queries.index_add_(0, rows, torch.full_like(rows, 2))
        with frozen(self.model), torch.enable_grad(), self._layout():
            point = self.x[rows].clone().requires_grad_()
            gap = targeted_margin(ask(self.model, point), self.y[rows], target)
            gradient = input_gradient(gap.sum(), point)
        gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        return gap.detach(), self.ball.keep_fixed(gradient, torch.zeros_like(gradient))

    def _confirm(self, index: Tensor, candidates: Tensor, times: int = 2) -> Tensor:
        """Predict ``candidates`` again in the ball, ``times`` times in other batches; which break every time: [m] bool.

        A result may depend on the batch through the rounding of the network's
        kernels; such a point is no success.
        """
        candidates = self.ball.project(candidates, self.x[index])
        sound = self.ball.contains(candidates, self.x[index])  # a NaN is nowhere
        for _ in range(times):
            kept = torch.nonzero(sound).squeeze(1)
            if not len(kept):
                break
            again = predicted_class(self._logits(candidates[kept], index[kept]))
            sound[kept[~self.succeeded(again, self.y[index[kept]])]] = False
        self.x_adv[index[sound]] = candidates[sound]
        self.broken[index[sound]] = True
        return sound

    @torch.no_grad()
    def _logits(self, points: Tensor, index: Tensor) -> Tensor:
        self.queries.index_add_(0, index, torch.ones_like(index))
        return torch.cat([ask(self.model, chunk) for chunk in points.split(self.batch_size)])
