"""Interval training that reaches the literature: short warm-up, mixed losses, small boxes.

FastIBP is Shi et al. 2021 (their network start is in
:mod:`radii.models.zoo.interval_network`), MtlIBP De Palma et al. 2024, Sabr Mueller et al. 2023.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.threat import Ball
from radii.training._inner_maximization import Inner
from radii.training._interval_forward import Boxes, Passage, UnitSums, pass_box
from radii.training.objectives.objective import Loss, TrainingProgress

LEAST_SHARE = 0.5  # tau of Shi et al., Section 3.3
BEND, POWER = 0.25, 4.0  # of the smoothed schedule


class FastIBP:
    """loss = (1 - k) CE(worst logits over the box, y) + k CE(f(x), y) + l (1 - r/R) (tightness + balance).

    The radius r grows from 0 to R by the smoothed schedule of Xu et al. 2020: a power of 4 first,
    then linear. The two regularizers of Shi et al. 2021 (Eq. 9, 11) act while it grows: intervals must not
    widen from layer to layer, and active and inactive units must weigh alike. The
    network starts as in their Section 3.2 (``interval-network``) and has a batch norm before each ReLU.

    Args:
        threat: the Linf ball, for instance ``linf:0.3``; R is its radius.
        warmup: share of the training before the radius begins to grow.
        ramp: share of the training at which it is complete.
        clean: k.
        regularization: l.

    Raises:
        InputError: a ball that is not Linf, shares outside 0 <= warmup < ramp <= 1, ``clean`` outside [0, 1] or a
            negative ``regularization``.
    """

    def __init__(
        self,
        threat: str = "linf:0.3",
        warmup: float = 0.02,
        ramp: float = 0.4,
        clean: float = 0.0,
        regularization: float = 0.5,
    ) -> None:
        self.ball = Ball.parse(threat)
        if self.ball.unit:
            raise InputError(f"Training takes radii in the features' own units, got {threat!r}; standardize the data.")
        if self.ball.norm != "linf":
            raise InputError(f"Interval training is for Linf threats such as linf:0.3, got {threat} instead.")
        if not (0 <= warmup < ramp <= 1 and 0 <= clean <= 1 and regularization >= 0):
            raise InputError(
                "0 <= warmup < ramp <= 1, 0 <= clean <= 1 and regularization >= 0 are needed, "
                f"got {warmup}, {ramp}, {clean} and {regularization}."
            )
        self.warmup, self.ramp, self.clean, self.regularization = warmup, ramp, clean, regularization

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """The mixture at this progress's radius, with the regularizers while it grows."""
        grown = self.grown(progress)
        if grown == 0:
            logits = model(x)
            return Loss(F.cross_entropy(logits, y), logits)
        ball = self.ball.with_radius(self.ball.radius * grown)
        value, passage = self.mixture(model, x, y, ball, progress)
        if self.regularization and grown < 1:
            value = value + self.regularization * (1 - grown) * _regularizers(passage)
        return Loss(value, passage.logits)

    def mixture(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        ball: Ball,
        progress: TrainingProgress,  # noqa: ARG002
    ) -> tuple[Tensor, Passage]:
        """The loss without regularizers, and the boxes that it was computed from."""
        passage = pass_box(model, _box_around(x, ball, x if self.clean else None))
        value = F.cross_entropy(passage.worst_logits(y), y)
        if self.clean:
            value = (1 - self.clean) * value + self.clean * F.cross_entropy(passage.logits, y)
        return value, passage

    def grown(self, progress: TrainingProgress) -> float:
        """r / R, from 0 to 1: c t^4 up to t = 1/4, then linear with the same slope."""
        part = min(1.0, max(0.0, (progress.fraction - self.warmup) / (self.ramp - self.warmup)))
        slope = POWER * BEND ** (POWER - 1)
        whole = BEND**POWER + (1 - BEND) * slope
        return (part**POWER if part < BEND else BEND**POWER + (part - BEND) * slope) / whole


class MtlIBP(FastIBP):
    """loss = a CE(worst logits over the box, y) + (1 - a) CE(f(x'), y), with an attacked x' (De Palma et al. 2024).

    Large ``share`` gives certified accuracy by intervals, small ones clean accuracy and networks that
    only tighter bounds prove.

    Args:
        threat: the Linf ball.
        share: a, the weight of the intervals.
        steps: ascent steps of the attack; 0 takes the clean input.
        warmup: as in :class:`FastIBP`, like the next two.
        ramp: when the radius is complete.
        regularization: weight of the regularizers while it grows.

    Raises:
        InputError: as :class:`FastIBP`; ``share`` outside (0, 1] or negative ``steps``.
    """

    def __init__(
        self,
        threat: str = "linf:0.3",
        share: float = 0.5,
        steps: int = 1,
        warmup: float = 0.02,
        ramp: float = 0.4,
        regularization: float = 0.5,
    ) -> None:
        super().__init__(threat, warmup, ramp, 0.0, regularization)
        if not 0 < share <= 1 or steps < 0:
            raise InputError(f"0 < share <= 1 and steps >= 0 are needed, got {share} and {steps}.")
        self.share, self.steps = share, steps

    def mixture(
        self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, progress: TrainingProgress
    ) -> tuple[Tensor, Passage]:
        """Both losses from one pass: the attacked input goes beside the box."""
        attacked = attack(model, x, y, ball, self.steps, progress) if self.steps else x
        passage = pass_box(model, _box_around(x, ball, attacked))
        certified = F.cross_entropy(passage.worst_logits(y), y)
        return self.share * certified + (1 - self.share) * F.cross_entropy(passage.logits, y), passage


class Sabr(FastIBP):
    """loss = CE(worst logits over a small box inside the ball, y), around an attacked point (Mueller et al. 2023).

    The box has radius s r and lies in the ball of radius r: its center is the attacked point of the ball of
    radius (1 - s) r. s = 1 is interval training.

    Args:
        threat: the Linf ball.
        share: s.
        steps: ascent steps that place the box.
        warmup: as in :class:`FastIBP`, like the next two.
        ramp: when the radius is complete.
        regularization: weight of the regularizers while it grows.

    Raises:
        InputError: as :class:`FastIBP`; ``share`` outside (0, 1] or ``steps`` below 1.
    """

    def __init__(
        self,
        threat: str = "linf:0.3",
        share: float = 0.4,
        steps: int = 4,
        warmup: float = 0.02,
        ramp: float = 0.4,
        regularization: float = 0.5,
    ) -> None:
        super().__init__(threat, warmup, ramp, 0.0, regularization)
        if not 0 < share <= 1 or steps < 1:
            raise InputError(f"0 < share <= 1 and steps >= 1 are needed, got {share} and {steps}.")
        self.share, self.steps = share, steps

    def mixture(
        self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, progress: TrainingProgress
    ) -> tuple[Tensor, Passage]:
        """The loss over the small boxes."""
        outer = ball.with_radius((1 - self.share) * ball.radius)
        center = attack(model, x, y, outer, self.steps, progress) if outer.radius else x
        low, high = (ball.clip(center + sign * self.share * ball.radius, x) for sign in (-1, 1))
        passage = pass_box(model, Boxes.between(low, high))
        return F.cross_entropy(passage.worst_logits(y), y), passage


def _box_around(x: Tensor, ball: Ball, clean: Tensor | None = None) -> Boxes:
    """All inputs of the Linf ``ball`` around each row of ``x``; ``clean`` [n, …] are points to carry along, if any."""
    low, high = (ball.clip(x + sign * ball.radius, x) for sign in (-1, 1))
    return Boxes.between(low, high, clean)


def attack(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, steps: int, progress: TrainingProgress) -> Tensor:
    """Points of ``ball`` around ``x``, labels ``y``, where ``model`` has a high cross-entropy at this ``progress``.

    By ``steps`` steps of 2 / steps of the radius; a single step is the whole radius.
    """
    inner = Inner(ball, steps, 1.0 if steps == 1 else 2 / steps)
    return inner.maximize(model, x, progress, lambda logits: F.cross_entropy(logits, y, reduction="sum"))


def _regularizers(passage: Passage) -> Tensor:
    """Tightness and balance of ``passage``, means over its layers, at most 1 and 2 (Shi et al. 2021, Eq. 9 and 11).

    Tightness: max(0, t - w_0 / w_i) / t for the mean widths w_0 of the input and w_i before ReLU i.
    Balance: max(0, t - m / M) / t, where m <= M are the sums of |center| over units that are surely
    active and surely inactive, and the same for the squared deviations from the unit's mean.
    """
    start, total = passage.start.reach.mean(), torch.zeros((), device=passage.start.reach.device)
    for box in passage.hidden:
        total = total + _shortfall(start, box.reach.mean())
        sums = UnitSums.apply(box.center, box.reach)
        total = total + _shortfall(sums.amin(1), sums.amax(1)).sum()
    return total / max(1, len(passage.hidden))


def _shortfall(part: Tensor, whole: Tensor) -> Tensor:
    """How far part / whole stays below LEAST_SHARE, from 0 to 1; 0 where there is nothing to compare."""
    value = F.relu(LEAST_SHARE - part / whole.clamp_min(1e-12)) / LEAST_SHARE
    return torch.where(part > 0, value, torch.zeros_like(value))
