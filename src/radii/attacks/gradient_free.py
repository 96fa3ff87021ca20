"""Attacks that need no gradient of the model: noise, blur, and perturbations computed for another model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from radii.attacks.attack import AttackResult, AttackRun, ForwardSearch, NewPoints, State
from radii.attacks.losses import cross_entropy
from radii.attacks.pgd import ascend
from radii.attacks.point_randomness import start_inside, start_on_surface
from radii.errors import InputError
from radii.models.classifier import input_gradient
from radii.networks.calling import ask, frozen
from radii.threat import Ball


@dataclass(frozen=True)
class Noise:
    """Random directions at the full radius, ``draws`` of them. A gradient attack should break at least as much."""

    draws: int = 20
    batch_size: int = 256

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = AttackRun(model, x, y, ball, generator, self.batch_size)
        trial.search(_NoiseSearch(self.draws, ball), 0, "noise")
        return trial.result()


@dataclass(frozen=True)
class Blur:
    """The image under mean filters of growing ``widths``, as much of it as the ball allows."""

    widths: tuple[int, ...] = (3, 5, 7, 9)
    batch_size: int = 256

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        if x.dim() != 4:
            raise InputError(f"Blur needs images [n, c, h, w], got inputs of shape {tuple(x.shape)}; try Noise.")
        if any(width % 2 == 0 for width in self.widths):
            raise InputError(f"Blur widths must be odd, got {self.widths} instead.")
        trial = AttackRun(model, x, y, ball, generator, self.batch_size)
        trial.search(_BlurSearch(self.widths, ball), 0, "blur")
        return trial.result()


@dataclass(frozen=True)
class Transfer:
    """PGD on ``surrogate``, a second model, whose every iterate is tried on the model under attack.

    It needs no gradient of the attacked model, so where it succeeds and gradient
    attacks did not, those gradients were of little use.
    """

    surrogate: nn.Module
    steps: int = 40
    step: float = 0.1  # of the radius
    restarts: int = 1
    batch_size: int = 256

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = AttackRun(model, x, y, ball, generator, self.batch_size)
        with frozen(self.surrogate):
            for restart in range(self.restarts):
                trial.search(_TransferSearch(self, ball), restart, "transfer")
        return trial.result()


@dataclass(frozen=True)
class _SeededState(State):
    seed: Tensor  # [m]


@dataclass(frozen=True)
class _NoiseSearch(ForwardSearch):
    steps: int
    ball: Ball

    def begin(self, fresh: NewPoints) -> _SeededState:
        start = start_on_surface(fresh.x, self.ball, fresh.seed)
        return _SeededState(fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y), fresh.seed)

    def advance(self, state: _SeededState, logits: Tensor, gradient: Tensor) -> _SeededState:  # noqa: ARG002
        steps_done = state.steps_done + 1
        return replace(state, point=start_on_surface(state.x, self.ball, state.seed, steps_done), steps_done=steps_done)


@dataclass(frozen=True)
class _BlurSearch(ForwardSearch):
    widths: tuple[int, ...]
    ball: Ball

    @property
    def steps(self) -> int:
        return len(self.widths)

    def begin(self, fresh: NewPoints) -> State:
        return State(fresh.index, fresh.x, fresh.y, fresh.x, torch.zeros_like(fresh.y))

    def advance(self, state: State, logits: Tensor, gradient: Tensor) -> State:  # noqa: ARG002
        point = state.point.clone()
        for place, width in enumerate(self.widths):
            due = state.steps_done == place
            if bool(due.any()):
                blurred = F.avg_pool2d(state.x[due], width, 1, width // 2, count_include_pad=False)
                point[due] = self.ball.clip(blurred, state.x[due])
        return replace(state, point=point, steps_done=state.steps_done + 1)


@dataclass(frozen=True)
class _TransferSearch(ForwardSearch):
    attack: Transfer
    ball: Ball

    @property
    def steps(self) -> int:
        return self.attack.steps

    def begin(self, fresh: NewPoints) -> State:
        start = start_inside(fresh.x, self.ball, fresh.seed)
        return State(fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y))

    def advance(self, state: State, logits: Tensor, gradient: Tensor) -> State:  # noqa: ARG002
        with torch.enable_grad():
            point = state.point.detach().requires_grad_()
            loss = cross_entropy(ask(self.attack.surrogate, point), state.y).sum()
            slope = input_gradient(loss, point)
        size = self.attack.step * self.ball.radius
        return replace(
            state, point=ascend(state.point, slope, state.x, self.ball, size), steps_done=state.steps_done + 1
        )
