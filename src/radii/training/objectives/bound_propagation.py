"""Provable training: the loss at the worst logits that bounds over the ball allow.

IntervalBounds uses intervals only (Gowal et al. 2018); CrownIBP uses intervals
for hidden values and linear bounds for the margins (Zhang et al. 2020).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.bounds.provably_robust import region_of
from radii.errors import InputError
from radii.networks.program import Program
from radii.networks.read_torch import Recording, build, record
from radii.threat import Ball, Norm
from radii.training._bound_propagation import Region, intervals, lower_bounds
from radii.training.objectives.objective import Loss, TrainingProgress


class IntervalBounds:
    """loss = (1 - k) CE(worst logits over the ball, y) + k CE(f(x), y) (Gowal et al. 2018, Eq. 12).

    Worst logits are the negated lower bounds of logit_y - logit_c by interval bound
    propagation, with the last linear layers merged. Batch norms act as in eval mode.

    Args:
        radius: radius of the ball at the end of the ramp.
        norm: norm of the ball.
        warmup: share of the training after which the radius begins to grow from 0.
        ramp: share of the training at which it reaches ``radius``.
        clean: k at the end of the ramp; it is 1 at the beginning.

    Raises:
        InputError: shares outside 0 <= warmup < ramp <= 1, or ``clean`` outside [0, 1].
    """

    def __init__(
        self,
        radius: float = 0.3,
        norm: Norm = "linf",
        warmup: float = 0.05,
        ramp: float = 0.5,
        clean: float = 0.0,
    ) -> None:
        if not (0 <= warmup < ramp <= 1 and 0 <= clean <= 1):
            raise InputError(f"0 <= warmup < ramp <= 1 and 0 <= clean <= 1 are needed, got {warmup}, {ramp}, {clean}.")
        self.ball = Ball(norm, radius)
        self.warmup, self.ramp, self.clean = warmup, ramp, clean
        self._recordings: WeakKeyDictionary[nn.Module, Recording] = WeakKeyDictionary()

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """The mixture at this progress's radius."""
        grown = self.growth(progress)
        k = 1 - grown * (1 - self.clean)
        with torch.set_grad_enabled(k > 0):  # at k = 0 the logits are only looked at
            logits = model(x)
            natural = F.cross_entropy(logits, y)
        if grown == 0:
            return Loss(natural, logits)
        worst = self.worst_logits(
            model, x, y, logits.shape[1], self.ball.with_radius(self.ball.radius * grown), progress
        )
        return Loss((1 - k) * F.cross_entropy(worst, y) + k * natural, logits)

    def growth(self, progress: TrainingProgress) -> float:
        """The present radius over the full radius, 0 to 1."""
        return min(1.0, max(0.0, (progress.fraction - self.warmup) / (self.ramp - self.warmup)))

    def program(self, model: nn.Module, x: Tensor) -> Program:
        """The model with its present weights; it is recorded once."""
        if model not in self._recordings:
            self._recordings[model] = record(model, tuple(x.shape[1:]))
        return build(self._recordings[model])

    def worst_logits(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        classes: int,
        ball: Ball,
        progress: TrainingProgress,  # noqa: ARG002
    ) -> Tensor:
        """Negated lower bounds of logit_y - logit_c for every c, 0 for c = y: [n, classes]."""
        program, region = self.program(model, x), _region(x, ball)
        ends = intervals(program, region)
        return -lower_bounds(program, ends, region, _all_margins(y, classes, x.dtype), deep=False)


def _region(x: Tensor, ball: Ball) -> Region:
    lower, upper, center, radius = region_of(x, ball, x.dtype)
    return Region(lower, upper, center, radius if ball.norm == "l2" else None)


def _all_margins(y: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Coefficients of logit_y - logit_c for every class c, in ``dtype``: labels ``y`` [n] -> [n, classes, classes]."""
    own = F.one_hot(y, classes).to(dtype)[:, None]
    return own - torch.eye(classes, dtype=dtype, device=y.device)


class CrownIBP(IntervalBounds):
    """Intervals for hidden values, one backward pass of linear bounds for margins (Zhang et al. 2020, Eq. 10).

    Margins are b CROWN-IBP + (1 - b) IBP, where b falls from 1 to ``final`` while
    the radius grows: linear bounds are tighter early, intervals train better late.

    Args:
        radius: as in :class:`IntervalBounds`, like the next four.
        norm: norm of the ball.
        warmup: when the radius begins to grow.
        ramp: when it is complete.
        clean: weight of the clean loss at the end.
        final: b at the end of the ramp.
    """

    def __init__(
        self,
        radius: float = 0.3,
        norm: Norm = "linf",
        warmup: float = 0.05,
        ramp: float = 0.5,
        clean: float = 0.0,
        final: float = 0.0,
    ) -> None:
        super().__init__(radius, norm, warmup, ramp, clean)
        self.final = final

    def worst_logits(
        self, model: nn.Module, x: Tensor, y: Tensor, classes: int, ball: Ball, progress: TrainingProgress
    ) -> Tensor:
        """Negated mixed lower bounds of logit_y - logit_c, 0 for c = y: [n, classes]."""
        program, region = self.program(model, x), _region(x, ball)
        ends, rows = intervals(program, region), _all_margins(y, classes, x.dtype)
        share = 1 - self.growth(progress) * (1 - self.final)
        shallow = lower_bounds(program, ends, region, rows, deep=False)
        if share == 0:
            return -shallow
        return -(share * lower_bounds(program, ends, region, rows) + (1 - share) * shallow)
