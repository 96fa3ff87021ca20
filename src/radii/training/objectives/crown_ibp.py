"""Provable training with tighter bounds: intervals inside, lines for the margins."""

from __future__ import annotations

from torch import Tensor, nn

from radii.certificates.bounds.bounded import region_of
from radii.certificates.bounds.propagation import backward, forward
from radii.threat import Ball, Norm
from radii.training.objectives.interval_bounds import IntervalBounds, all_margins
from radii.training.objectives.objective import Moment


class CrownIBP(IntervalBounds):
    """Interval bounds of the hidden values, one backward pass of lines for the margins (Zhang et al. 2020, Eq. 10).

    Margins are b CROWN-IBP + (1 - b) IBP, where b falls from 1 to ``final`` as
    the radius grows: lines are tighter early, intervals train better late.
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

    def worst_logits(self, model: nn.Module, x: Tensor, y: Tensor, classes: int, ball: Ball, moment: Moment) -> Tensor:
        """Negated mixed lower bounds of logit_y - logit_c, 0 for c = y: [n, classes]."""
        network, region = self.network(model, x), region_of(x, ball, x.dtype)
        bounds, specs = forward(network, region), all_margins(y, classes, x.dtype)
        share = 1 - self.grown(moment) * (1 - self.final)
        intervals = backward(network, bounds, region, specs, network.output, deep=False)
        if share == 0:
            return -intervals
        lines = backward(network, bounds, region, specs, network.output)
        return -(share * lines + (1 - share) * intervals)
